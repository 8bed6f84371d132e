#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "byteps/byteps.h"
#include "python/bindings/submission.h"
#include "python/bindings/ticket.h"

namespace byteps::python {

// Operations that start when another one has succeeded. A thread without Python starts them, so no
// thread of Python must wait for them, and the interpreter may end. Any thread.
class Followers : public std::enable_shared_from_this<Followers> {
 public:
  Followers() = default;
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  // REQUIRES: Begin was not called.
  void Add(Submission submission, std::shared_ptr<Ticket> ticket);

  // Starts the first operation like byteps_start. If it is refused, no follower starts. Must be
  // called once.
  byteps_code Begin(byteps_session* session, const byteps_request& request,
                    const std::shared_ptr<Ticket>& ticket, byteps_error* error);

  // Blocks until all followers have started or no more will start, at most for `limit`. Returns
  // whether that is so.
  bool WaitFor(std::chrono::milliseconds limit);

  // Returns the error of a start that was refused, if there was one. REQUIRES: WaitFor has returned
  // true.
  byteps_code problem(byteps_error* error);

 private:
  struct Follower {
    Submission submission;
    std::shared_ptr<Ticket> ticket;
  };

  void Run(byteps_session* session);
  void StartAll(byteps_session* session);
  void LetGo();
  // Lets go of all operations: no more followers start.
  void End();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_decided_ = false;  // whether the first operation has started; see first_
  bool is_over_ = false;
  byteps_code problem_ = BYTEPS_OK;
  byteps_error problem_error_{};
  // These do not change while the thread runs.
  std::shared_ptr<Ticket> first_;
  std::vector<Follower> followers_;
};

}  // namespace byteps::python
