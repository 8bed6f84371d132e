// GroupLine: sums among the devices of some ranks of one machine, launch after launch, in the same
// order on every rank.
//
// All calls of the group's library come from threads of this object, one call at a time. The line's
// thread meets the other ranks, begins launches, at most two at once, and waits for their ends. A
// second thread asks the library for errors while launches are under way, and aborts. A third one
// keeps the limits: the other two may stand still in the library or in the driver.
//
// Thread-safe. The functions that callers hand in run on these threads, under no lock, and must not
// throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/device/communicator.h"
#include "src/device/device.h"
#include "src/device/line_threads.h"

namespace byteps::device {

// Says which rank of which group a process is.
struct GroupPlace {
  GroupId id{};
  uint32_t rank = 0;
  uint32_t size = 0;
  std::string device;  // its name, for texts: "cuda:1"
};

class GroupLine {
 public:
  using Done = std::function<void(const Status&)>;
  struct Limits {
    Duration meet = seconds(60);   // then there is no group
    Duration abort = seconds(10);  // then a sentence says that the group does not end
    Duration end = LineThreads::kEndLimit;
  };
  struct Owner {
    // Hears once that all ranks have met, or why there will be no group. If there will be none,
    // every other rank must end its line or abort it: some libraries let a rank wait for that.
    Done met;
    // Hears at most once, after `met`, that the group has failed by itself. The line aborts then,
    // and the owner must let every other rank abort: otherwise what is under way may stay open.
    Done broken;
    // Hears a sentence for people.
    std::function<void(const std::string&)> warn;
    // Hears once that the line has ended: it has left, or its abort is over. Null: nobody asks.
    std::function<void()> ended = nullptr;
  };

  // Begins to meet. Does not block. Throws std::system_error if the system has no threads. The
  // pointers are shared, because a thread that stands still outlives the line.
  GroupLine(std::shared_ptr<Device> device, std::shared_ptr<Groups> groups, GroupPlace place,
            Owner owner, const Limits& limits);
  // Leaves the group together with all other ranks, or aborts it if they do not leave. Blocks at
  // most for three times the limit; then it leaves threads behind, and no function of the owner is
  // called any more. The memory of a launch whose `done` was not called must stay then until the
  // process ends. REQUIRES: every `done` was called, or Abort was.
  ~GroupLine();
  GroupLine(const GroupLine&) = delete;
  GroupLine& operator=(const GroupLine&) = delete;

  // Reduce, ReduceAll and Gather do not block. `done` is called once: when the results are in the
  // device's memory, or when nothing touches this memory any more, with the reason. Then it has
  // any bytes. Launches end in their order. After Abort, and after an error, all that was not begun
  // ends at once, and so does all that comes. REQUIRES: CanReduce, or for ReduceAll CanReduceAll;
  // the inputs are ready, and the memory stays; all ranks begin the same, in the same order; runs
  // do not overlap, and consist of whole elements; `met` has heard Ok.

  // Gives each home the sum of its runs, at their places in `to`. The rest of `to` has any bytes
  // then. `from` and `to` are one memory, or apart.
  void Reduce(const std::byte* from, std::byte* to, std::vector<GroupRun> runs, DataType type,
              Combine how, Done done);
  // Gives each rank the sum, or the average.
  void ReduceAll(const std::byte* from, std::byte* to, size_t bytes, DataType type, Combine how,
                 Done done);
  // The way back: each home has its runs in `memory`, and each rank gets all of them.
  void Gather(std::byte* memory, std::vector<GroupRun> runs, Done done);

  // Begins to leave the group together with all other ranks, behind the launches that were begun.
  // Returns at once. No launch may follow. A line that has not met the others yet aborts.
  void Leave();
  // Ends what is under way, and all that comes, with `why`. Returns at once. Every other rank must
  // abort, too. If one does not, the line waits for it, and `warn` hears of it after the limit.
  void Abort(const Status& why);

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the threads
  LineThreads threads_;
};

}  // namespace byteps::device
