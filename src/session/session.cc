#include "src/session/session.h"

#include <utility>

#include "src/session/wiring.h"

namespace byteps::session {
namespace {

// Longer limits are none, and their end would lie beyond what a clock can count.
constexpr milliseconds kNoLimit = std::chrono::hours(24 * 365 * 100);

uint64_t BytesMoved(const protocol::Operation& operation) {
  wire::Op op = operation.spec.op;
  if (op == wire::Op::kBarrier || op == wire::Op::kJoin) return 0;
  uint64_t bytes = SizeOf(operation.spec.dtype);
  for (int64_t dimension : operation.spec.shape) bytes *= static_cast<uint64_t>(dimension);
  if (op == wire::Op::kAllgather || op == wire::Op::kAlltoall) bytes *= operation.rows;
  return bytes;
}

}  // namespace

Session::Session(const config::Options& options, std::unique_ptr<Log> log)
    : log_(std::move(log)),
      local_rank_(static_cast<int>(options.local_rank)),
      local_size_(static_cast<int>(options.local_size)),
      telemetry_on_(options.telemetry_on) {}

Session::~Session() { Shutdown(); }

Result<std::unique_ptr<Session>> Session::Open(const config::Options& options,
                                               std::function<bool()> go_on) {
  // tidy-allow(new): the constructor is private.
  std::unique_ptr<Session> session(new Session(options, MakeLog(options)));
  Status joined = session->Join(options, std::move(go_on));
  if (!joined.ok()) return joined;
  return session;
}

Status Session::Join(const config::Options& options, std::function<bool()> go_on) {
  Result<runtime::StartedEngine> started = MakeEngine(options, std::move(go_on), *log_);
  if (!started.ok()) return started.status();
  engine_ = std::move(started->engine);
  standing_ = started->standing;
  return Status::Ok();
}

bool Session::Shutdown() { return engine_ == nullptr || engine_->Leave(); }

void Session::GiveUp(const std::string& why) { engine_->GiveUp(why); }

void Session::Declare(const std::string& name) { engine_->Declare(name); }

Result<Handle> Session::Start(protocol::Operation operation) {
  auto entry = std::make_shared<Entry>();
  Handle handle;
  {
    MutexLock lock(mutex_);
    handle = next_handle_++;
    entries_[handle] = entry;
  }
  uint64_t bytes = telemetry_on_ ? BytesMoved(operation) : 0;
  engine_->Submit(std::move(operation), [this, entry, bytes](protocol::Outcome outcome) {
    if (bytes > 0 && outcome.status.ok()) speed_.Count(bytes, SpeedMeter::Clock::now());
    MutexLock lock(entry->mutex);
    entry->outcome = std::move(outcome);
    entry->complete = true;
    entry->changed.notify_all();
  });
  return handle;
}

std::shared_ptr<Session::Entry> Session::Find(Handle handle) {
  MutexLock lock(mutex_);
  auto found = entries_.find(handle);
  return found == entries_.end() ? nullptr : found->second;
}

Session::Progress Session::Poll(Handle handle) {
  std::shared_ptr<Entry> entry = Find(handle);
  if (entry == nullptr) return Progress::kUnknown;
  MutexLock lock(entry->mutex);
  return entry->complete ? Progress::kComplete : Progress::kRunning;
}

Status Session::Wait(Handle handle, milliseconds limit) {
  std::shared_ptr<Entry> entry = Find(handle);
  if (entry == nullptr) {
    return {StatusCode::kInvalidArgument,
            "handle " + std::to_string(handle) + " was not created or has been released"};
  }
  // Without a limit of its own the wait still looks around now and then; the engine completes every
  // operation in the end.
  bool limited = limit.count() >= 0 && limit < kNoLimit;
  auto deadline = std::chrono::steady_clock::now() + (limited ? limit : milliseconds(0));
  MutexLock lock(entry->mutex);
  while (!entry->complete) {
    auto until = limited ? deadline : std::chrono::steady_clock::now() + seconds(3600);
    if (lock.WaitUntil(entry->changed, until) || !limited) continue;
    if (entry->complete) break;
    return {StatusCode::kDeadlineExceeded,
            "the operation is not complete after " + std::to_string(limit.count()) + " ms"};
  }
  return entry->outcome.status;
}

const protocol::Outcome* Session::Look(Handle handle) {
  std::shared_ptr<Entry> entry = Find(handle);
  if (entry == nullptr) return nullptr;
  MutexLock lock(entry->mutex);
  // Nobody changes a complete outcome, and the table keeps it until Release.
  return entry->complete ? &entry->outcome : nullptr;
}

Result<std::vector<uint32_t>> Session::MembersOf(Handle handle) {
  const protocol::Outcome* outcome = Look(handle);
  if (outcome == nullptr) return NotComplete(handle);
  if (!outcome->status.ok()) return std::vector<uint32_t>();
  if (outcome->receipt == nullptr) return std::vector<uint32_t>{standing_.rank};  // a job of one
  std::vector<uint32_t> ranks;
  for (Slot slot : outcome->receipt->List()) ranks.push_back(slot);  // a worker's slot is its rank
  return ranks;
}

Status Session::NotComplete(Handle handle) {
  return {StatusCode::kInvalidArgument,
          "handle " + std::to_string(handle) + " is unknown or not complete"};
}

void Session::Release(Handle handle) {
  std::shared_ptr<Entry> entry;  // destroyed outside the lock
  MutexLock lock(mutex_);
  auto found = entries_.find(handle);
  if (found == entries_.end()) return;
  entry = std::move(found->second);
  entries_.erase(found);
}

SpeedMeter::Sample Session::Speed() { return speed_.Take(SpeedMeter::Clock::now()); }

}  // namespace byteps::session
