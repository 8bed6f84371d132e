#include "src/session/started_operation.h"

#include <optional>
#include <string>
#include <utility>

namespace byteps::session {
namespace {

// A longer limit counts as none, because its end would lie beyond the range of the clock.
constexpr milliseconds kNoLimit = std::chrono::hours(24 * 365 * 100);

}  // namespace

std::vector<uint32_t> RanksIn(const protocol::Outcome& outcome, uint32_t own) {
  if (!outcome.status.ok()) return {};
  return outcome.ranks == nullptr ? std::vector<uint32_t>{own} : outcome.ranks->List();
}

StartedOperation::StartedOperation(std::unique_ptr<Completion> completion,
                                   std::shared_ptr<Helpers> helpers)
    : helpers_(std::move(helpers)), completion_(std::move(completion)) {
  if (completion_ != nullptr && helpers_ != nullptr) waits_.emplace(helpers_->waits());
}

std::unique_ptr<Completion> StartedOperation::End(protocol::Outcome outcome) {
  MutexLock lock(mutex_);
  waits_.reset();
  outcome_ = std::move(outcome);
  ended_ = true;
  changed_.notify_all();
  if (completion_ != nullptr) completion_->code = outcome_.status.code();
  return std::move(completion_);
}

Progress StartedOperation::progress() {
  MutexLock lock(mutex_);
  if (!ended_) return Progress::kRunning;
  return outcome_.status.ok() ? Progress::kDone : Progress::kFailed;
}

Status StartedOperation::Wait(milliseconds limit) {
  // Without a limit of its own the wait still wakes now and then; the engine ends every operation
  // at last.
  bool limited = limit.count() >= 0 && limit < kNoLimit;
  auto deadline = std::chrono::steady_clock::now() + (limited ? limit : milliseconds(0));
  std::optional<runtime::WaitMeter::Scope> waits;
  if (helpers_ != nullptr && limit.count() != 0 && progress() == Progress::kRunning) {
    waits.emplace(helpers_->waits());
    helpers_->Help([this] { return progress() != Progress::kRunning; },
                   limited ? deadline : Time::max());
  }
  MutexLock lock(mutex_);
  while (!ended_) {
    auto until = limited ? deadline : std::chrono::steady_clock::now() + seconds(3600);
    if (lock.WaitUntil(changed_, until) || !limited) continue;
    if (ended_) break;
    return {StatusCode::kDeadlineExceeded,
            "the operation is not complete after " + std::to_string(limit.count()) + " ms"};
  }
  return outcome_.status;
}

const protocol::Outcome* StartedOperation::outcome() {
  MutexLock lock(mutex_);
  return ended_ ? &outcome_ : nullptr;
}

}  // namespace byteps::session
