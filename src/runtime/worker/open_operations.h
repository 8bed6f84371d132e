// The operations of an engine's users, from the call to the end. Any thread submits operations; the
// loop's thread takes them in that order, and looks for operations that take too long. Each
// accepted operation is completed exactly once.
//
// Any thread may call Submit, Refuse and refusal. The loop's thread calls the rest; when the loop
// does not run any more, the thread that owns the loop does.
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
    // An operation was submitted: the receiver calls Next until Next returns nothing.
    std::function<void()> on_submitted;
    // These operations have been open for longer than the limit. Called again and again while they
    // are.
    std::function<void(const std::vector<protocol::OperationId>&)> on_late;
  };

  // `limit`: for an operation without a limit of its own, from the moment when Next returns it;
  // zero: none.
  OpenOperations(transport::Loop& loop, Duration limit, Events events);

  // Accepts an operation; `done` is called when it ends. After Refuse the operation ends inside the
  // call. Does not block. If Submit throws (no memory), it has accepted nothing and never calls
  // `done`.
  void Submit(protocol::Operation operation, Done done);
  // Ends all operations that are submitted from now on at once, with `why`. False: Refuse was
  // called before.
  bool Refuse(const Status& why);
  std::optional<Status> refusal();

  // Returns the next submitted operation, which now has a number; nothing if there is none.
  std::optional<protocol::Operation> Next();
  // Ends an operation. Has no effect if the operation has ended.
  void Complete(protocol::OperationId id, protocol::Outcome outcome);
  // Counts all operations that have ended; `took` contains those since the last call.
  struct Tally {
    uint64_t ended = 0;
    uint64_t failed = 0;
    uint64_t bytes = 0;  // of the results of operations that ended well
    uint32_t open = 0;
    Duration idle{};  // the time for which nothing has been open
    std::vector<wire::Took> took;
  };
  Tally TakeTally();
  struct Age {
    Duration age{};
    Duration limit{};  // zero: none
    bool own_limit = false;
  };
  // Returns at most `count` operations that have been open for at least `age`, the oldest first.
  std::vector<std::pair<protocol::OperationId, Age>> Oldest(Duration age, size_t count) const;
  // Returns an Age of zeros if the operation is not open.
  Age AgeOf(protocol::OperationId id) const;

  // Ends all operations with `why`: those that are open, taken or not, and those that are submitted
  // later. Takes no memory.
  void EndAll(const Status& why) noexcept;

 private:
  struct Entry {
    protocol::Operation operation;  // empty after Next
    Done done;
    Time begun{};  // when it was taken
    Duration limit{};
    bool own_limit = false;
    uint64_t bytes = 0;
  };
  // An entry moves from one map to the other without new memory, so no accepted operation gets
  // lost.
  using Entries = std::map<protocol::OperationId, Entry>;

  void Look(protocol::OperationId from);
  Age AgeOf(const Entry& entry, Time now) const;
  void Count(const Entry& entry, const protocol::Outcome& outcome);

  transport::Loop& loop_;
  const Duration limit_;
  const Events events_;

  Entries open_;
  protocol::OperationId next_ = 1;  // operations from this number on are not taken yet
  std::unique_ptr<transport::Loop::Timer> timer_;
  bool looks_soon_ = false;      // the other late operations get a turn soon
  Time next_due_ = Time::max();  // no operation is late before
  Tally tally_;
  Time idle_since_;

  Mutex mutex_;
  Entries submitted_ BYTEPS_GUARDED_BY(mutex_);
  protocol::OperationId next_id_ BYTEPS_GUARDED_BY(mutex_) = 1;
  std::optional<Status> refusal_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::runtime
