#include "python/bindings/followers.h"

#include <signal.h>

#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

namespace byteps::python {

void Followers::Add(Submission submission, std::shared_ptr<Ticket> ticket) {
  followers_.push_back({std::move(submission), std::move(ticket)});
}

byteps_code Followers::Begin(byteps_session* session, const byteps_request& request,
                             const std::shared_ptr<Ticket>& ticket, byteps_error* error) {
  first_ = ticket;
  first_->Hold();
  for (const Follower& follower : followers_) follower.ticket->Hold();
  // Starts the thread first, because without it other ranks would wait for operations that never
  // start.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the threads of the program
  byteps_code code = BYTEPS_OK;
  try {
    std::thread([self = shared_from_this(), session] { self->Run(session); }).detach();
  } catch (const std::system_error& failure) {
    code = BYTEPS_EXHAUSTED;
    error->code = code;
    std::strncpy(error->message, "a group of tensors needs a thread, and the system gives none: ",
                 sizeof(error->message) - 1);
    std::strncat(error->message, failure.what(),
                 sizeof(error->message) - 1 - std::strlen(error->message));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (code != BYTEPS_OK) {
    End();
    return code;
  }
  byteps_handle handle = 0;
  code = byteps_start(session, &request, &handle, error);
  first_->Start(handle);
  // Not only on the thread: the caller may use the names again at once.
  if (code != BYTEPS_OK) LetGo();
  const std::scoped_lock lock(mutex_);
  is_decided_ = true;
  changed_.notify_all();
  return code;
}

bool Followers::WaitFor(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return is_over_; });
}

byteps_code Followers::problem(byteps_error* error) {
  const std::scoped_lock lock(mutex_);
  *error = problem_error_;
  return problem_;
}

void Followers::Run(byteps_session* session) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_decided_; });  // Begin decides at once
  }
  // The wait ends when the session does. A closed session refuses the operations that follow.
  const byteps_handle first = first_->handle();
  if (first != 0 && byteps_wait(session, first, -1, nullptr) == BYTEPS_OK) StartAll(session);
  End();
}

void Followers::StartAll(byteps_session* session) {
  for (const Follower& follower : followers_) {
    const byteps_request request = follower.submission.Request();
    byteps_handle handle = 0;
    byteps_error error{};
    const byteps_code code = byteps_start(session, &request, &handle, &error);
    if (code != BYTEPS_OK) {
      const std::scoped_lock lock(mutex_);
      problem_ = code;
      problem_error_ = error;
      return;
    }
    follower.ticket->Start(handle);
  }
}

void Followers::LetGo() {
  first_->LetGo();
  for (const Follower& follower : followers_) follower.ticket->LetGo();
}

void Followers::End() {
  LetGo();
  const std::scoped_lock lock(mutex_);
  is_over_ = true;
  changed_.notify_all();
}

}  // namespace byteps::python
