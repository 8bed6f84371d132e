#include "src/session/session.h"

#include <utility>

#include "src/operations/sizes.h"
#include "src/session/wiring.h"

namespace byteps::session {
namespace {

uint64_t BytesMoved(const protocol::Operation& operation) {
  return operations::InputBytes(operation.spec, operation.rows).value_or(0);
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

bool Session::Shutdown() {
  if (engine_ == nullptr) return true;
  {
    MutexLock lock(mutex_);
    shut_down_ = true;
  }
  return engine_->Leave();
}

void Session::GiveUp(const std::string& why) { engine_->GiveUp(why); }

void Session::Declare(const std::string& name) { engine_->Declare(name); }

Result<Handle> Session::Start(protocol::Operation operation, Completion::Function on_complete) {
  Result<std::unique_ptr<Completion>> completion = MakeCompletion(std::move(on_complete));
  if (!completion.ok()) return completion.status();
  Completion* to_number = completion.value().get();
  auto started = std::make_shared<StartedOperation>(std::move(completion).value());
  Result<OpenNames::Taken> taken = names_.Take(operation.name, operation.spec);
  if (!taken.ok()) return taken.status();
  OpenNames::Taken name = taken.value();
  Handle handle = 0;
  try {
    handle = Keep(started);
    if (handle != 0) {
      if (to_number != nullptr) to_number->handle = handle;
      uint64_t bytes = telemetry_on_ ? BytesMoved(operation) : 0;
      engine_->Submit(std::move(operation),
                      [this, started, name, bytes](protocol::Outcome outcome) {
                        End(*started, name, bytes, std::move(outcome));
                      });
      return handle;
    }
  } catch (...) {  // no memory: nothing was accepted
    names_.GiveBack(name);
    Release(handle);
    throw;
  }
  names_.GiveBack(name);
  return Status(StatusCode::kShutdown, "the session was shut down");
}

// What is called when an operation has ended; null if nothing is to be.
Result<std::unique_ptr<Completion>> Session::MakeCompletion(Completion::Function function) {
  if (function == nullptr) return std::unique_ptr<Completion>();
  Status ready = completions_.Start();
  if (!ready.ok()) return ready;
  auto completion = std::make_unique<Completion>();
  completion->function = std::move(function);
  return completion;
}

// A handle for it, and a place in the table; 0 once the session was shut down.
Handle Session::Keep(const std::shared_ptr<StartedOperation>& started) {
  MutexLock lock(mutex_);
  if (shut_down_) return 0;
  Handle handle = next_handle_++;
  started_[handle] = started;
  return handle;
}

// On a thread of the engine. The name is free before anybody learns that the operation has ended.
void Session::End(StartedOperation& started, OpenNames::Taken name, uint64_t bytes,
                  protocol::Outcome outcome) {
  if (bytes > 0 && outcome.status.ok()) speed_.Count(bytes, SpeedMeter::Clock::now());
  names_.GiveBack(name);
  std::unique_ptr<Completion> completion = started.End(std::move(outcome));
  if (completion != nullptr) completions_.Add(std::move(completion));
}

std::shared_ptr<StartedOperation> Session::Find(Handle handle) {
  MutexLock lock(mutex_);
  auto found = started_.find(handle);
  return found == started_.end() ? nullptr : found->second;
}

std::vector<uint32_t> Session::MembersOf(const protocol::Outcome& outcome) const {
  if (!outcome.status.ok()) return {};
  if (outcome.receipt == nullptr) return {standing_.rank};  // a job of one
  std::vector<uint32_t> ranks;
  for (Slot slot : outcome.receipt->List()) ranks.push_back(slot);  // a worker's slot is its rank
  return ranks;
}

void Session::Release(Handle handle) {
  std::shared_ptr<StartedOperation> released;  // destroyed outside the lock
  MutexLock lock(mutex_);
  auto found = started_.find(handle);
  if (found == started_.end()) return;
  released = std::move(found->second);
  started_.erase(found);
}

SpeedMeter::Sample Session::Speed() { return speed_.Take(SpeedMeter::Clock::now()); }

}  // namespace byteps::session
