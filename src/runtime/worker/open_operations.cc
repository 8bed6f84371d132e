#include "src/runtime/worker/open_operations.h"

#include <algorithm>
#include <utility>

#include "src/operations/sizes.h"

namespace byteps::runtime {

using protocol::OperationId;

namespace {

constexpr Duration kLookEvery = seconds(1);
// The limit for one turn of the loop. There may be very many late operations, and a rank that does
// nothing else for long is declared lost.
constexpr size_t kLateMax = 256;

}  // namespace

OpenOperations::OpenOperations(transport::Loop& loop, Duration limit, Events events)
    : loop_(loop), limit_(limit), events_(std::move(events)), idle_since_(loop.Now()) {}

void OpenOperations::Submit(protocol::Operation operation, Done done) {
  protocol::Outcome refused;
  {
    MutexLock lock(mutex_);
    if (!refusal_.has_value()) {
      bool first = submitted_.empty();
      auto added = submitted_.try_emplace(submitted_.end(), next_id_);
      added->second.operation = std::move(operation);
      added->second.done = std::move(done);
      try {
        if (first) loop_.Post([this] { events_.on_submitted(); });
      } catch (...) {
        submitted_.erase(added);
        throw;
      }
      ++next_id_;
      return;
    }
    refused.status = *refusal_;
  }
  done(std::move(refused));
}

bool OpenOperations::Refuse(const Status& why) {
  MutexLock lock(mutex_);
  if (refusal_.has_value()) return false;
  refusal_ = why;
  return true;
}

std::optional<Status> OpenOperations::refusal() {
  MutexLock lock(mutex_);
  return refusal_;
}

std::optional<protocol::Operation> OpenOperations::Next() {
  auto next = open_.find(next_);
  if (next == open_.end()) {
    MutexLock lock(mutex_);
    open_.merge(submitted_);
    next = open_.find(next_);
  }
  if (next == open_.end()) return std::nullopt;
  next->second.begun = loop_.EventTime();
  const protocol::Operation& operation = next->second.operation;
  next->second.bytes = operations::InputBytes(operation.spec, operation.rows).value_or(0);
  next->second.own_limit = operation.limit > Duration::zero();
  next->second.limit = next->second.own_limit ? operation.limit : limit_;
  if (next->second.limit > Duration::zero()) {
    next_due_ = std::min(next_due_, next->second.begun + next->second.limit);
    if (timer_ == nullptr) {
      timer_ = loop_.Every(std::min<Duration>(next->second.limit / 2, kLookEvery), [this] {
        if (!looks_soon_ && loop_.Now() >= next_due_) Look(0);
      });
    }
  }
  next->second.operation.id = next_++;
  return std::move(next->second.operation);
}

// Reports the late operations. They end after this look, not within it.
void OpenOperations::Look(protocol::OperationId from) {
  looks_soon_ = false;
  if (from == 0) next_due_ = Time::max();
  const Time now = loop_.Now();
  std::vector<protocol::OperationId> late;
  for (auto at = open_.lower_bound(from); at != open_.end() && at->first < next_; ++at) {
    const Entry& entry = at->second;
    if (entry.limit == Duration::zero()) continue;
    next_due_ = std::min(next_due_, entry.begun + entry.limit);
    if (entry.begun + entry.limit > now) continue;
    if (late.size() == kLateMax) {
      looks_soon_ = true;
      loop_.Post([this, id = at->first] { Look(id); });
      break;
    }
    late.push_back(at->first);
  }
  if (!late.empty()) events_.on_late(late);
}

void OpenOperations::Complete(protocol::OperationId id, protocol::Outcome outcome) {
  auto ended = open_.extract(id);
  if (ended.empty()) return;
  outcome.begun = ended.mapped().begun;
  outcome.ended = loop_.EventTime();
  Count(ended.mapped(), outcome);
  ended.mapped().done(std::move(outcome));
}

// Takes no memory beyond the bound, because TakeTally has reserved the memory.
void OpenOperations::Count(const Entry& entry, const protocol::Outcome& outcome) {
  ++tally_.ended;
  if (open_.empty()) idle_since_ = outcome.ended;
  if (!outcome.status.ok()) {
    ++tally_.failed;
    return;
  }
  tally_.bytes += entry.bytes;
  if (tally_.took.size() == tally_.took.capacity()) return;
  const int64_t us =
      std::chrono::duration_cast<microseconds>(outcome.ended - outcome.begun).count();
  tally_.took.push_back({outcome.tensor, outcome.round,
                         static_cast<uint32_t>(std::clamp<int64_t>(us, 0, UINT32_MAX))});
}

OpenOperations::Tally OpenOperations::TakeTally() {
  Tally tally = tally_;
  tally.open = static_cast<uint32_t>(open_.size());
  if (open_.empty()) tally.idle = loop_.Now() - idle_since_;
  tally_.took.clear();
  tally_.took.reserve(wire::kTookInAccountMax);  // has effect from the first account on
  return tally;
}

OpenOperations::Age OpenOperations::AgeOf(const Entry& entry, Time now) const {
  return {now - entry.begun, entry.limit, entry.own_limit};
}

std::vector<std::pair<OperationId, OpenOperations::Age>> OpenOperations::Oldest(
    Duration age, size_t count) const {
  std::vector<std::pair<OperationId, Age>> oldest;
  const Time now = loop_.Now();
  for (const auto& [id, entry] : open_) {
    if (id >= next_ || now - entry.begun < age || oldest.size() == count) break;
    oldest.emplace_back(id, AgeOf(entry, now));
  }
  return oldest;
}

OpenOperations::Age OpenOperations::AgeOf(OperationId id) const {
  auto found = open_.find(id);
  return found == open_.end() ? Age() : AgeOf(found->second, loop_.Now());
}

void OpenOperations::EndAll(const Status& why) noexcept {
  timer_.reset();
  {
    MutexLock lock(mutex_);
    if (!refusal_.has_value()) refusal_ = why;
    open_.merge(submitted_);
  }
  while (!open_.empty()) {
    protocol::Outcome outcome;
    outcome.status = why;
    Complete(open_.begin()->first, std::move(outcome));
  }
}

}  // namespace byteps::runtime
