#include "src/device/host/host_groups.h"

#include <algorithm>

#include "src/device/group_conformance.h"

namespace byteps::device::host {
namespace {

class HostGroupUser final : public GroupUser {
 public:
  std::shared_ptr<Groups> groups() override { return groups_; }
  std::shared_ptr<Device> device(uint32_t rank) override { return {devices_, &Of(rank)}; }
  std::byte* NewMemory(uint32_t rank, size_t bytes) override { return Of(rank).NewMemory(bytes); }
  void Write(std::byte* memory, const std::vector<std::byte>& bytes) override {
    std::ranges::copy(bytes, memory);
  }
  std::vector<std::byte> Read(const std::byte* memory, size_t bytes) override {
    return {memory, memory + bytes};
  }
  void Break() override { groups_->BreakOnce(); }
  void FailWait() override { Of(0).FailOnce(HostDevice::Step::kWait); }
  void HoldAborts() override { groups_->aborts_wait().Hold(); }
  void LetAbortsGo() override { groups_->aborts_wait().LetGo(); }
  int members() override { return groups_->members(); }
  int begun() override { return groups_->begun(); }

 private:
  HostDevice& Of(uint32_t rank) { return devices_->device(static_cast<int>(rank)); }
  // Shared with lines whose threads stand still.
  const std::shared_ptr<HostDevices> devices_ = std::make_shared<HostDevices>(3);
  const std::shared_ptr<HostGroups> groups_ = std::make_shared<HostGroups>();
};

INSTANTIATE_TEST_SUITE_P(Host, GroupConformance,
                         ::testing::Values(GroupKind{
                             "host", [] { return std::make_unique<HostGroupUser>(); }}));

}  // namespace
}  // namespace byteps::device::host
