#include "src/device/host/host_devices.h"

#include <cstring>
#include <list>

#include "src/device/conformance.h"

namespace byteps::device::host {
namespace {

class HostUser final : public DeviceUser {
 public:
  Devices& devices() override { return devices_; }
  void* NewStream() override { return &streams_.emplace_back(); }
  std::byte* NewMemory(int device, size_t bytes) override {
    return devices_.device(device).NewMemory(bytes);
  }
  void Fill(void* stream, std::byte* memory, size_t bytes, uint8_t value) override {
    auto work = [memory, bytes, value] { std::memset(memory, value, bytes); };
    if (stream == nullptr) return work();
    static_cast<HostStream*>(stream)->Give(work);
  }
  std::vector<uint8_t> Read(const std::byte* memory, size_t bytes) override {
    std::vector<uint8_t> read(bytes);
    std::memcpy(read.data(), memory, bytes);
    return read;
  }
  void Hold(void* stream) override { static_cast<HostStream*>(stream)->Hold(); }
  void LetGo(void* stream) override { static_cast<HostStream*>(stream)->LetGo(); }
  void BeginCapture(void* stream) override { static_cast<HostStream*>(stream)->Capture(true); }
  bool EndCapture(void* stream) override {
    static_cast<HostStream*>(stream)->Capture(false);
    return true;
  }
  void FailOnce(Step step) override {
    devices_.device(0).FailOnce(static_cast<HostDevice::Step>(step));
  }

 private:
  HostDevices devices_{2};
  std::list<HostStream> streams_;
};

INSTANTIATE_TEST_SUITE_P(Host, DeviceConformance,
                         ::testing::Values(Kind{"host",
                                                [] { return std::make_unique<HostUser>(); }}));

}  // namespace
}  // namespace byteps::device::host
