#include "src/session/completion_thread.h"

#include <system_error>
#include <utility>

namespace byteps::session {
namespace {

// tidy-allow(global): each thread has its own, which is a property of the thread.
thread_local bool is_completion_thread = false;

}  // namespace

CompletionThread::~CompletionThread() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

Status CompletionThread::Start() {
  MutexLock lock(mutex_);
  if (thread_.joinable()) return Status::Ok();
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& failure) {
    return {StatusCode::kExhausted,
            std::string("no thread for completion callbacks can be started (") + failure.what() +
                "); raise the limit of threads (ulimit -u), or wait for handles instead"};
  }
  return Status::Ok();
}

void CompletionThread::Add(std::unique_ptr<Completion> completion) noexcept {
  MutexLock lock(mutex_);
  Completion* added = completion.get();
  (first_ == nullptr ? first_ : last_->next) = std::move(completion);
  last_ = added;
  ++added_;
  changed_.notify_all();
}

void CompletionThread::Drain() {
  MutexLock lock(mutex_);
  const uint64_t until = added_;
  while (called_ < until) lock.Wait(changed_);
}

bool CompletionThread::IsCurrentThread() { return is_completion_thread; }

void CompletionThread::Run() {
  is_completion_thread = true;
  for (;;) {
    std::unique_ptr<Completion> completion;
    {
      MutexLock lock(mutex_);
      while (first_ == nullptr && !ending_) lock.Wait(changed_);
      if (first_ == nullptr) return;
      completion = std::move(first_);
      first_ = std::move(completion->next);
    }
    completion->function(completion->handle, completion->code);
    completion.reset();
    MutexLock lock(mutex_);
    ++called_;
    changed_.notify_all();
  }
}

}  // namespace byteps::session
