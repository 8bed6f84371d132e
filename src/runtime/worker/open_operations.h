// The operations of an engine's users, from the call to the end: any thread submits them, the
// loop's thread takes them in that order, and looks for those that take too long. Each that was
// accepted is completed exactly once.
//
// Submit, Refuse and refusal may be called from any thread, the rest on the loop's thread; when the
// loop does not run any more, on the thread that owns it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/base/time.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/runtime/worker/engine.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

class OpenOperations {
 public:
  using Done = Engine::Done;
  struct Events {
    // Something was submitted: call Next until it has nothing.
    std::function<void()> on_submitted;
    // These have been open for longer than the limit. Told again and again while they are.
    std::function<void(const std::vector<protocol::OperationId>&)> on_late;
  };

  // `limit` of an operation that has none of its own, from when it is taken; zero: none.
  OpenOperations(transport::Loop& loop, Duration limit, Events events);

  // Accepts an operation; `done` is called when it ends. Once refused, it ends inside the call.
  // Does not block. If it throws (no memory) nothing was accepted, and `done` is not called.
  void Submit(protocol::Operation operation, Done done);
  // What is submitted from now on ends at once, like this. False: that was said before.
  bool Refuse(const Status& why);
  std::optional<Status> refusal();

  // The next one that was submitted, which now has a number; none if that is all.
  std::optional<protocol::Operation> Next();
  // No effect if it has ended.
  void Complete(protocol::OperationId id, protocol::Outcome outcome);
  // What has been done so far, and since the last call: `took`.
  struct Tally {
    uint64_t ended = 0;
    uint64_t failed = 0;
    uint64_t bytes = 0;  // given to those that ended well
    uint32_t open = 0;
    Duration idle{};  // nothing has been open for so long
    std::vector<wire::Took> took;
  };
  Tally TakeTally();
  struct Age {
    Duration age{};
    Duration limit{};  // zero: none
    bool own_limit = false;
  };
  // Those that have been open for at least `age`, the oldest first.
  std::vector<std::pair<protocol::OperationId, Age>> Oldest(Duration age, size_t count) const;
  // All zero for one that is not open.
  Age AgeOf(protocol::OperationId id) const;

  // Whatever is open, taken or not, ends like this, and what is submitted later. Takes no memory.
  void EndAll(const Status& why) noexcept;

 private:
  struct Entry {
    protocol::Operation operation;  // until it is taken
    Done done;
    Time begun{};  // when it was taken
    Duration limit{};
    bool own_limit = false;
    uint64_t bytes = 0;
  };
  // From one map to the other no memory is needed: what was accepted cannot get lost.
  using Entries = std::map<protocol::OperationId, Entry>;

  void Look(protocol::OperationId from);
  Age AgeOf(const Entry& entry, Time now) const;
  void Count(const Entry& entry, const protocol::Outcome& outcome);

  transport::Loop& loop_;
  const Duration limit_;
  const Events events_;

  Entries open_;
  protocol::OperationId next_ = 1;  // those from here on are not taken
  std::unique_ptr<transport::Loop::Timer> timer_;
  bool looks_soon_ = false;      // the rest of the late ones has its turn soon
  Time next_due_ = Time::max();  // none is late before
  Tally tally_;
  Time idle_since_;

  Mutex mutex_;
  Entries submitted_ BYTEPS_GUARDED_BY(mutex_);
  protocol::OperationId next_id_ BYTEPS_GUARDED_BY(mutex_) = 1;
  std::optional<Status> refusal_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::runtime
