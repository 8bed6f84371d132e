// byteps_session: what a program holds of a session. It outlives the session that it stands for, so
// that a call that comes too late, or in a copy of the process made by fork, finds out.
#pragma once

#include <memory>
#include <utility>

#include "byteps/byteps.h"
#include "src/base/machine_layout.h"
#include "src/session/c_error.h"
#include "src/session/call_gate.h"
#include "src/session/session.h"

// Any thread. In a copy made by fork nothing but the standing and the forks is looked at: a lock
// may be held for ever by a thread that is not there.
struct byteps_session {
 public:
  // Where the process stands in the job; never changes.
  struct Standing {
    int32_t rank;
    int32_t size;
    int32_t local_rank;
    int32_t local_size;
    int32_t machine;
    byteps::MachineLayout layout;
  };

  // REQUIRES: CountForks has succeeded.
  explicit byteps_session(std::unique_ptr<byteps::session::Session> session);

  const Standing& standing() const { return standing_; }

  // byteps_close. Blocks as that does. REQUIRES: not called by a completion callback.
  void Close();

  bool IsOfThisProcess() const;

  // A call comes in: an error, or `Leave` must follow. Does not block.
  byteps::Status Enter();
  void Leave() { gate_.Leave(); }
  // Of the session's memory, also when it is closed; byteps_free_shared. Not in a copy made by
  // fork.
  void GiveMemory(void* data) { memory_->Give(static_cast<std::byte*>(data)); }
  // REQUIRES: between Enter and Leave.
  byteps::session::Session& inner() { return *inner_; }

 private:
  const uint64_t forks_;  // before it was opened
  const Standing standing_;
  byteps::session::CallGate gate_;
  const std::shared_ptr<byteps::runtime::TensorMemory> memory_;  // shared with the session
  std::unique_ptr<byteps::session::Session> inner_;              // null once it is closed
  byteps_session* next_kept_ = nullptr;
};

namespace byteps::session {

// Functions that block are not for completion callbacks: they would hold up all others, or wait for
// themselves. `function` is the name of the caller.
Status CheckMayBlock(const char* function);

// Runs `work` on the session and says how it went, as Guard does.
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
