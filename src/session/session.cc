#include "src/session/session.h"

#include <utility>

#include "src/operations/sizes.h"
#include "src/session/device/group_tools.h"
#include "src/session/wiring.h"

namespace byteps::session {
namespace {

// The limit for operations in devices' memory to end, like that of the engine.
constexpr Duration kStagedEndLimit = seconds(4);

uint64_t BytesMoved(const protocol::Operation& operation) {
  return operations::InputBytes(operation.spec, operation.rows).value_or(0);
}

// Takes the flag from a result whose bits follow the order of additions: groups of devices have an
// order of their own.
runtime::Engine::Done InAnyOrder(const protocol::Operation& operation, runtime::Engine::Done done) {
  const wire::TensorSpec& spec = operation.spec;
  if (plan::IsOnAnyLayout(plan::SumBits::kOnPlacement, operations::CombineOf(spec), spec.dtype,
                          spec.codec != 0)) {
    return done;
  }
  return [done = std::move(done)](protocol::Outcome outcome) {
    outcome.any_layout = false;
    done(std::move(outcome));
  };
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
      devices_may_add_(DevicesMayAdd(options)),
      operation_limit_(seconds(config::OperationTimeout(options))),
      own_limits_count_(!options.operation_timeout_s.has_value()),
      standing_(parts.started.standing),
      memory_(std::move(parts.started.memory)),
      admission_(standing_.rank, standing_.ranks),
      staged_(DeviceFinderOf(options, log_.get()),
              {[this](protocol::Operation operation, runtime::Engine::Done done) {
                 Submit(std::move(operation), std::move(done));
               },
               [this] {
                 MutexLock lock(stuck_mutex_);
                 if (!stuck_.empty()) TellStuck(stuck_);
               },
               [this](protocol::DeviceWaits waits) { engine_->SetDeviceWaits(std::move(waits)); },
               [this](const std::string& why) { engine_->GiveUp(why); },
               [this](const std::string& text) { log_->Warning("{}", text); }},
              standing_.rank, seconds(options.stall_check_time_s), StagedOperations::kPinnedLimit,
              std::move(parts.started.prepare_device)),
      engine_(std::move(parts.started.engine)),
      helpers_(std::make_shared<Helpers>(*engine_, std::move(parts.started.waits))) {}

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
  staged_.Stop();
  const Time limit = std::chrono::steady_clock::now() + kStagedEndLimit;
  const bool has_left = engine_->Leave();
  return staged_.WaitForEnd(limit) && has_left;
}

void Session::GiveUp(const std::string& why) { engine_->GiveUp(why); }

void Session::Declare(const std::string& name) { engine_->Declare(name); }

// An operation that waits for its input may begin although the user's process starts nothing. So
// the promise does not hold before the last one of these has begun.
void Session::TellStuck(const std::string& name) {
  if (name.empty() || !staged_.HasUnbegun()) engine_->SetStuck(name);
}

void Session::SetStuck(const std::string& name) {
  MutexLock lock(stuck_mutex_);
  stuck_ = name;
  TellStuck(name);
}

Result<Handle> Session::Start(protocol::Operation operation,
                              const std::optional<DevicePlace>& place,
                              Completion::Function on_complete) {
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
  Status begun(StatusCode::kShutdown, "the session was shut down");
  try {
    handle = Keep(started);
    if (handle != 0) {
      if (to_number != nullptr) to_number->handle = handle;
      uint64_t bytes = telemetry_on_ ? BytesMoved(operation) : 0;
      begun = Begin(std::move(operation), place,
                    [this, started, open, bytes](protocol::Outcome outcome) {
                      End(*started, open, bytes, std::move(outcome));
                    });
      if (begun.ok()) return handle;
    }
  } catch (...) {  // no memory: nothing was accepted
    admission_.Close(open, Status::Ok());
    Release(handle);
    throw;
  }
  admission_.Close(open, Status::Ok());
  Release(handle);
  return begun;
}

// Gives an admitted operation to those who carry it out. An error, or an exception: nothing was
// accepted.
Status Session::Begin(protocol::Operation operation, const std::optional<DevicePlace>& place,
                      runtime::Engine::Done done) {
  {
    MutexLock lock(stuck_mutex_);
    stuck_.clear();  // the engine forgets the promise when it gets the operation
  }
  if (place.has_value()) {
    if (devices_may_add_) done = InAnyOrder(operation, std::move(done));
    const uint64_t output = admission_.OutputBytes(operation);
    const Duration limit = operation.limit > Duration::zero() ? operation.limit : operation_limit_;
    return staged_.Start(std::move(operation), output, limit, *place, std::move(done));
  }
  Submit(std::move(operation), std::move(done));
  return Status::Ok();
}

// Gives the engine an operation in the host's memory.
void Session::Submit(protocol::Operation operation, runtime::Engine::Done done) {
  std::shared_ptr<WideAverage> wide = Widened(operation);
  if (wide != nullptr) {
    done = [wide, done = std::move(done)](protocol::Outcome outcome) {
      if (outcome.status.ok()) {
        wide->Narrow();
        outcome.any_layout = !outcome.mixed;  // sums of int64 may wrap, these never do
      }
      done(std::move(outcome));
    };
  }
  engine_->Submit(std::move(operation), std::move(done));
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
  if (staged_.HasOpen(number)) {
    return {StatusCode::kInvalidArgument,
            "process set " + std::to_string(number) +
                " cannot be removed: an operation in a device's memory has not ended; wait for it "
                "first"};
  }
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
