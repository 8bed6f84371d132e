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

// Operations that start when another one has succeeded. A thread without Python starts them: they
// need nobody who waits, and the thread does not mind when the interpreter ends. Any thread.
class Followers : public std::enable_shared_from_this<Followers> {
 public:
  Followers() = default;
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  // REQUIRES: Begin was not called.
  void Add(Submission submission, std::shared_ptr<Ticket> ticket);

  // Starts the first operation as byteps_start does. If it is refused, nothing else starts. Once
  // only.
  byteps_code Begin(byteps_session* session, const byteps_request& request,
                    const std::shared_ptr<Ticket>& ticket, byteps_error* error);

  // Blocks until all have started or no more will, at most so long; returns whether that is so.
  bool WaitFor(std::chrono::milliseconds limit);

  // How a start was refused, if one was. REQUIRES: WaitFor has returned true.
  byteps_code problem(byteps_error* error);

 private:
  struct Follower {
    Submission submission;
    std::shared_ptr<Ticket> ticket;
  };

  void Run(byteps_session* session);
  void StartAll(byteps_session* session);
  // Lets go of everything: no more will start.
  void End();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_decided_ = false;  // whether the first operation has started; see first_
  bool is_over_ = false;
  byteps_code problem_ = BYTEPS_OK;
  byteps_error problem_error_{};
  // Unchanged while the thread runs.
  std::shared_ptr<Ticket> first_;
  std::vector<Follower> followers_;
};

}  // namespace byteps::python
