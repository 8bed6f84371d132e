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

Session::Session(const config::Options& options, Parts parts)
    : log_(std::move(parts.log)),
      timeline_(std::move(parts.timeline)),
      local_rank_(static_cast<int>(options.local_rank)),
      machine_(static_cast<uint64_t>(options.worker_id)),
      layout_(config::LayoutOf(options)),
      telemetry_on_(options.telemetry_on),
      machines_sum_(config::MachinesSum(options)),
      proof_(ProofOf(options)),
      takes_objects_(TakesObjects(options)),
      operation_limit_(seconds(config::OperationTimeout(options))),
      own_limits_count_(!options.operation_timeout_s.has_value()),
      standing_(parts.started.standing),
      memory_(std::move(parts.started.memory)),
      admission_(standing_.rank, standing_.ranks),
      engine_(std::move(parts.started.engine)),
      helpers_(std::make_shared<Helpers>(*engine_)) {}

Session::~Session() {
  Shutdown();
  helpers_->End();
}

// Makes the operation's entry for a timeline; the engine may know better when it began.
runtime::TimelineEntry Session::EntryOf(const protocol::Operation& operation) const {
  runtime::TimelineEntry entry;
  entry.kind = runtime::TimelineEntry::Kind::kOperation;
  entry.name = timeline_->Keep(operation.name);
  entry.op = static_cast<uint8_t>(operation.spec.op);
  entry.dtype = operation.spec.dtype;
  entry.bytes = BytesMoved(operation);
  entry.at[0] = timeline_->Now();
  return entry;
}

Result<std::unique_ptr<Session>> Session::Open(const config::Options& options,
                                               std::function<bool()> go_on) {
  std::unique_ptr<Log> log = MakeLog(options);
  auto timeline = std::make_unique<runtime::TimelineLog>();
  Result<runtime::StartedEngine> started = MakeEngine(options, std::move(go_on), *timeline, *log);
  if (!started.ok()) return started.status();
  Parts parts{std::move(log), std::move(timeline), std::move(started).value()};
  // tidy-allow(new): the constructor is private.
  return std::unique_ptr<Session>(new Session(options, std::move(parts)));
}

bool Session::Shutdown() {
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
  if (!own_limits_count_) operation.limit = Duration::zero();
  Completion* to_number = completion.value().get();
  auto started = std::make_shared<StartedOperation>(std::move(completion).value(), helpers_);
  if (to_number != nullptr && timeline_->on()) started->Record(EntryOf(operation));
  Result<const Admission::Open*> admitted = admission_.Admit(operation);
  if (!admitted.ok()) return admitted.status();
  const Admission::Open* open = admitted.value();
  Handle handle = 0;
  try {
    handle = Keep(started);
    if (handle != 0) {
      if (to_number != nullptr) to_number->handle = handle;
      uint64_t bytes = telemetry_on_ ? BytesMoved(operation) : 0;
      std::shared_ptr<WideAverage> wide = Widened(operation);
      engine_->Submit(std::move(operation),
                      [this, started, open, bytes, wide](protocol::Outcome outcome) {
                        if (wide != nullptr && outcome.status.ok()) wide->Narrow();
                        End(*started, open, bytes, std::move(outcome));
                      });
      return handle;
    }
  } catch (...) {  // no memory: nothing was accepted
    admission_.Close(open, Status::Ok());
    Release(handle);
    throw;
  }
  admission_.Close(open, Status::Ok());
  return Status(StatusCode::kShutdown, "the session was shut down");
}

// Returns null if the operation needs no widening. The pointer is shared, because the function that
// is called at the end may be copied.
std::shared_ptr<WideAverage> Session::Widened(protocol::Operation& operation) const {
  if (!machines_sum_ || !WideAverage::IsNeededFor(operation.spec)) return nullptr;
  const uint64_t output = admission_.OutputBytes(operation);
  return std::make_shared<WideAverage>(operation, output / SizeOf(operation.spec.dtype));
}

// Makes the completion of an operation; null if there is no function to call.
Result<std::unique_ptr<Completion>> Session::MakeCompletion(Completion::Function function) {
  if (function == nullptr) return std::unique_ptr<Completion>();
  Status ready = completions_.Start();
  if (!ready.ok()) return ready;
  auto completion = std::make_unique<Completion>();
  completion->function = std::move(function);
  return completion;
}

// Puts the operation into the table and returns its handle; 0 after the session was shut down.
Handle Session::Keep(const std::shared_ptr<StartedOperation>& started) {
  MutexLock lock(mutex_);
  if (shut_down_) return 0;
  Handle handle = next_handle_++;
  started_[handle] = started;
  return handle;
}

// Ends an operation, on a thread of the engine. Frees the name before anybody learns that the
// operation has ended.
void Session::End(StartedOperation& started, const Admission::Open* open, uint64_t bytes,
                  protocol::Outcome outcome) {
  if (bytes > 0 && outcome.status.ok()) speed_.Count(bytes, SpeedMeter::Now());
  admission_.Close(open, outcome.status);
  if (started.entry() != nullptr && outcome.status.ok()) {
    runtime::TimelineEntry entry = *started.entry();
    entry.ref = {outcome.tensor, 0, outcome.round};
    if (outcome.begun != Time()) entry.at[0] = outcome.begun;
    entry.at[1] = outcome.ended != Time() ? outcome.ended : timeline_->Now();
    timeline_->Add(entry);
  }
  std::unique_ptr<Completion> completion = started.End(std::move(outcome));
  if (completion != nullptr) completions_.Add(std::move(completion));
}

Status Session::AddProcessSet(uint32_t number, const std::vector<uint32_t>& ranks) {
  Status added = engine_->AddProcessSet(number, ranks);
  if (added.ok()) admission_.AddSet(number, ranks);
  return added;
}

Status Session::RemoveProcessSet(uint32_t number) {
  Status removed = engine_->RemoveProcessSet(number);
  if (removed.ok()) admission_.RemoveSet(number);
  return removed;
}

std::shared_ptr<StartedOperation> Session::Find(Handle handle) {
  MutexLock lock(mutex_);
  auto found = started_.find(handle);
  return found == started_.end() ? nullptr : found->second;
}

std::vector<uint32_t> Session::MembersOf(const protocol::Outcome& outcome) const {
  return RanksIn(outcome, standing_.rank);
}

void Session::Release(Handle handle) {
  std::shared_ptr<StartedOperation> released;  // destroyed outside the lock
  MutexLock lock(mutex_);
  auto found = started_.find(handle);
  if (found == started_.end()) return;
  released = std::move(found->second);
  started_.erase(found);
}

SpeedMeter::Sample Session::Speed() { return speed_.Take(SpeedMeter::Now()); }

}  // namespace byteps::session
