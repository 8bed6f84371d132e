// byteps_session: a program's hold on a session. It outlives the session, so that a call that comes
// too late, or in a copy of the process made by fork, gets an error.
#pragma once

#include <memory>
#include <utility>

#include "byteps/byteps.h"
#include "src/base/machine_layout.h"
#include "src/session/c_error.h"
#include "src/session/call_gate.h"
#include "src/session/session.h"

// Any thread. In a copy made by fork, methods look only at the place and the forks, because a
// thread that does not exist in the copy may hold a lock for ever.
struct byteps_session {
 public:
  // The place of the process in the job; never changes.
  struct SessionPlace {
    int32_t rank;
    int32_t size;
    int32_t local_rank;
    int32_t local_size;
    int32_t machine;
    byteps::MachineLayout layout;
  };

  // REQUIRES: CountForks has succeeded.
  explicit byteps_session(std::unique_ptr<byteps::session::Session> session);

  const SessionPlace& place() const { return place_; }

  // Implements byteps_close, and blocks like it. REQUIRES: not called by a completion callback.
  void Close();

  bool IsOfThisProcess() const;

  // Lets a call in. Returns an error, or `Leave` must follow. Does not block.
  byteps::Status Enter();
  void Leave() { gate_.Leave(); }
  // Implements byteps_free_shared, also for a closed session. Must not be called in a copy made by
  // fork.
  void GiveMemory(void* data) { memory_->Give(static_cast<std::byte*>(data)); }
  // REQUIRES: between Enter and Leave.
  byteps::session::Session& inner() { return *inner_; }

 private:
  const uint64_t forks_;  // before it was opened
  const SessionPlace place_;
  byteps::session::CallGate gate_;
  const std::shared_ptr<byteps::runtime::TensorMemory> memory_;  // shared with the session
  std::unique_ptr<byteps::session::Session> inner_;              // null once it is closed
  byteps_session* next_kept_ = nullptr;
};

namespace byteps::session {

// Returns an error in a completion callback. A function that blocks there would hold up all other
// callbacks, or wait for itself. `function` is the name of the caller.
Status CheckMayBlock(const char* function);

// Runs `work` on the session and reports its status, like Guard.
template <typename Work>
byteps_code Call(byteps_session* session, byteps_error* error, Work work) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the session");
    Status entered = session->Enter();
    if (!entered.ok()) return entered;
    struct Leaving {
      byteps_session* session;
      ~Leaving() { session->Leave(); }
    } leaving{session};
    return work(session->inner());
  });
}

}  // namespace byteps::session
