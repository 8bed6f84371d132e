#include "src/session/device/group_tools.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/device/nccl/nccl_groups.h"

namespace byteps::session {
namespace {

// Makes the plan for the GPUs that the ranks of this machine have.
machine::PlannedSums PlanDevices(const config::Options& options, const LookAtDevices& look,
                                 const std::vector<machine::HasDevice>& devices) {
  machine::PlannedSums planned;
  const Result<DeviceSight> sight = look();
  if (!sight.ok()) {
    planned.text = "the ranks of a machine sum in the window: " + sight.status().message();
    planned.is_warning = options.device_sums == "nccl";
    return planned;
  }
  std::vector<std::string> uuids;
  for (const machine::HasDevice& one : devices) uuids.push_back(one.uuid);
  const plan::DeviceSums sums = ForeseeDeviceSums(
      options, DeviceMachineOf(options, sight->host, sight->cards, sight->gpus, uuids));
  planned.text = plan::DescribeDeviceSums(sums);
  const bool is_window =
      sums.way == plan::DeviceWay::kWindow || sums.way == plan::DeviceWay::kCopies;
  if (!is_window) planned.groups = sums.groups;
  planned.is_warning = is_window && options.device_sums == "nccl";
  return planned;
}

}  // namespace

// With same_bits=1 bits depend on ranks and inputs alone, and NCCL has an order of its own. Each
// machine has a device_sums of its own; ranks of one machine without servers have the same.
bool DevicesMayAdd(const config::Options& options) {
  return (config::IsDistributed(options) || WantsGroups(options)) && !config::SameBits(options);
}

bool WantsGroups(const config::Options& options) {
  return options.device_sums == "auto" || options.device_sums == "nccl";
}

machine::GroupTools GroupToolsOf(const config::Options& options, LookAtDevices look) {
  if (!WantsGroups(options) || !DevicesMayAdd(options)) return {};
  machine::GroupTools tools;
  tools.find = [file = options.nccl_library,
                blocks = options.cuda_launches_block]() -> Result<std::shared_ptr<device::Groups>> {
    if (blocks) {
      return Status(StatusCode::kUnavailable,
                    "CUDA_LAUNCH_BLOCKING is set, so NCCL could not abort a launch: unset it");
    }
    Result<std::unique_ptr<device::Groups>> found = device::nccl::FindGroups(file);
    if (!found.ok()) return found.status();
    return std::shared_ptr<device::Groups>(std::move(found).value());
  };
  tools.plan = [options, look = std::move(look)](const std::vector<machine::HasDevice>& devices) {
    return PlanDevices(options, look, devices);
  };
  return tools;
}

}  // namespace byteps::session
