#include "src/session/c_session.h"

#include <atomic>

#include "src/session/completion_thread.h"
#include "src/session/fork_count.h"

namespace {

// The list of closed sessions, which are kept (byteps/byteps.h, byteps_close). No code reads it: it
// shows tools that look for lost memory that these sessions are not lost.
// tidy-allow(global): only the program has pointers to kept sessions; decision 13.
std::atomic<byteps_session*> kept = nullptr;

}  // namespace

byteps_session::byteps_session(std::unique_ptr<byteps::session::Session> session)
    : forks_(byteps::session::ForkCount()),
      place_{session->rank(),
             session->size(),
             session->local_rank(),
             session->local_size(),
             static_cast<int32_t>(session->machine()),
             session->layout()},
      memory_(session->memory()),
      inner_(std::move(session)) {}

bool byteps_session::IsOfThisProcess() const { return forks_ == byteps::session::ForkCount(); }

byteps::Status byteps_session::Enter() {
  if (!IsOfThisProcess()) {
    return byteps::session::Invalid(
        "this process is a copy, made by fork, of the one that opened the session; only that one "
        "can use it: open a session in each process");
  }
  if (gate_.Enter()) return byteps::Status::Ok();
  return {byteps::StatusCode::kShutdown, "the session is closed"};
}

// Ends open operations, and tells their users while they can still ask for results. Then lets no
// call in, and destroys the rest.
void byteps_session::Close() {
  if (!gate_.ClaimEnd()) return;
  inner_->Shutdown();
  inner_->DrainCompletions();
  gate_.Shut();
  inner_.reset();
  memory_->Close();
  gate_.SetOver();
  next_kept_ = kept.load();
  while (!kept.compare_exchange_weak(next_kept_, this)) {
  }
}

namespace byteps::session {

Status CheckMayBlock(const char* function) {
  if (!CompletionThread::IsCurrentThread()) return Status::Ok();
  return Invalid(
      std::string(function) +
      " may block, and this is a completion callback, for which all others wait; call it "
      "on another thread");
}

}  // namespace byteps::session
