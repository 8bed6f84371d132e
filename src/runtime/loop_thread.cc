#include "src/runtime/loop_thread.h"

#include <atomic>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <utility>

namespace byteps::runtime {
namespace {

// Made before anybody needs them, because there may be no memory later; copies share the text.
const Status kNoMemory(StatusCode::kExhausted, "there is no memory");
const Status kSomethingElse(StatusCode::kInternal, "something was thrown that is no exception");

Status Say(const std::exception& thrown) noexcept {
  try {
    return {StatusCode::kInternal, thrown.what()};
  } catch (...) {
    return kNoMemory;
  }
}

}  // namespace

Status RunLoop(transport::Loop& loop) noexcept {
  try {
    loop.Run();
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  } catch (const std::exception& thrown) {
    return Say(thrown);
  } catch (...) {
    return kSomethingElse;
  }
}

Status AskLoop(transport::Loop& loop, Duration limit, std::function<Status()> work) {
  // Shared with the loop, which may run the work after this call has returned.
  struct Question {
    std::promise<Status> answer;
    std::atomic<bool> taken{false};  // by the loop, or by a caller that gives up
  };
  auto question = std::make_shared<Question>();
  std::future<Status> done = question->answer.get_future();
  loop.Post([question, work = std::move(work)] {
    if (!question->taken.exchange(true)) question->answer.set_value(work());
  });
  if (done.wait_for(limit) == std::future_status::ready) return done.get();
  bool begun = question->taken.exchange(true);
  if (begun && done.wait_for(limit) == std::future_status::ready) return done.get();
  return {StatusCode::kDeadlineExceeded,
          "the session's thread does not answer; the job is ending, or this machine stands still"};
}

void PostOrStop(transport::Loop& loop, std::function<void()> work) noexcept {
  try {
    loop.Post(std::move(work));
  } catch (const std::bad_alloc&) {
    loop.Stop();
  }
}

}  // namespace byteps::runtime
