// Launcher: what a lane needs of its rank's group of devices. DeviceGroup (device_group.h)
// implements it.
//
// On the thread of the window. Nothing blocks; whatever ends here is an event of this rank.
#pragma once

#include <optional>

#include "src/base/status.h"
#include "src/device/communicator.h"
#include "src/machine/room/group_words.h"
#include "src/machine/room/sums_choice.h"
#include "src/protocol/worker/exchange/device_memory.h"

namespace byteps::machine {

class Launcher {
 public:
  virtual ~Launcher() = default;

  // Returns whether this rank can launch with memory of this device: the first that it was asked
  // for. `first`: gets the word to the carrier, if this is the first time.
  virtual bool Takes(const protocol::DeviceMemory& device, std::optional<HasDevice>& first) = 0;

  // At the carrier: returns the plan, once, when it has been made.
  virtual std::optional<PlannedSums> TakePlan() = 0;

  // Begins to meet the others. TakeMet returns how that has ended, once. REQUIRES: Takes was
  // called.
  virtual void Meet(const SumsSo& word) = 0;
  virtual std::optional<Met> TakeMet() = 0;
  // Returns once that the group has failed by itself.
  virtual std::optional<Broken> TakeBroken() = 0;

  // Begins a launch. `owner`: the operation whose memory it uses; null: `launch` has no memory, and
  // gets a scratch unit. TakeEnd returns the ends of all launches, in their order; an end is there
  // when nothing touches the memory any more. REQUIRES: the rank has met the others.
  virtual void Launch(device::Launch launch, const protocol::DeviceMemory* owner) = 0;
  virtual std::optional<Status> TakeEnd() = 0;

  // Lets the group go: kOk: together with all other ranks, behind the last launch; else at once.
  // Any thread.
  virtual void End(const Status& why) = 0;
};

}  // namespace byteps::machine
