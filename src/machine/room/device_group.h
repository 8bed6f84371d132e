// DeviceGroup: a rank's group of devices, over a GroupLine. The group is made on a thread of its
// own, because libraries of NVIDIA's may take long to start.
//
// Launches may end after the engine of this rank has gone, so what they use lives as long as the
// lines of the device (DeviceLines::Keep).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/log.h"
#include "src/base/time.h"
#include "src/device/group_line.h"
#include "src/device/line_threads.h"
#include "src/local/window.h"
#include "src/machine/room/launcher.h"
#include "src/transport/transport.h"

namespace byteps::machine {

// Says where groups come from. Both functions may take long, and run on threads that nobody waits
// for, perhaps after the engine has gone.
struct GroupTools {
  // Finds the library of groups. Null: there are no groups, and nothing is planned.
  std::function<Result<std::shared_ptr<device::Groups>>()> find = nullptr;
  // Makes the plan for the devices of the ranks; sets neither ids nor library.
  std::function<PlannedSums(const std::vector<HasDevice>&)> plan = nullptr;
  Duration ready = seconds(60);  // from the plan on; then it is the window
  device::GroupLine::Limits limits{};
};

class DeviceGroup final : public Launcher {
 public:
  // `scratch_bytes`: of the largest unit. `warn` gets sentences for people, on any thread.
  DeviceGroup(local::Window& window, GroupTools tools, size_t scratch_bytes,
              std::function<void(const std::string&)> warn);
  // Leaves the group; blocks as the destructor of GroupLine does.
  ~DeviceGroup() override;
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  bool Takes(const protocol::DeviceMemory& device, std::optional<HasDevice>& first) override;
  // Begins to plan, at the carrier. TakePlan returns the plan. `late` hears GroupTools::ready, in
  // words, when so much time has passed since; on the thread of `loop`, which is the window's.
  void Plan(const std::vector<HasDevice>& devices, transport::Loop& loop,
            std::function<void(const std::string& limit)> late);
  std::optional<PlannedSums> TakePlan() override;
  void Meet(const SumsSo& word) override;
  std::optional<Met> TakeMet() override;
  std::optional<Broken> TakeBroken() override;
  void Launch(device::Launch launch, const protocol::DeviceMemory* owner) override;
  std::optional<Status> TakeEnd() override;
  void End(const Status& why) override;
  // Lets the group go in order, unless it was let go, and gives it a limit: then `late` hears why
  // the group must be aborted; on the thread of `loop`, which is the window's.
  void Leave(transport::Loop& loop, std::function<void(const Status& why)> late);
  // Returns whether the group was let go in order, and has not ended: it waits for the other ranks.
  // The end is an event of this rank.
  bool IsLeaving() const;

 private:
  struct State;
  void Start(std::function<void(const std::shared_ptr<State>&)> work);
  void GiveScratch();

  const bool has_tools_;
  const std::shared_ptr<State> state_;  // shared with threads and lines
  std::unique_ptr<transport::Loop::Timer> limit_;
  device::LineThreads threads_;
};

// Writes a line of SumsChoice into the log.
void TellOfGroups(Log& log, const std::string& line, bool is_warning);

}  // namespace byteps::machine
