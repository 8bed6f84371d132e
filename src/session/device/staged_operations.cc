#include "src/session/device/staged_operations.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "src/operations/sizes.h"

namespace byteps::session {
namespace {

// The limit of pinned memory for each device; larger operations use ordinary memory.
constexpr size_t kPinnedBytesMax = size_t{1} << 30;

protocol::Outcome Failed(Status status) {
  protocol::Outcome outcome;
  outcome.status = std::move(status);
  return outcome;
}

Status NoThread(const std::system_error& failure) {
  return {StatusCode::kExhausted, std::string("no threads for a device can be started (") +
                                      failure.what() + "); raise the limit of threads (ulimit -u)"};
}

Status CheckMemory(device::Device& device, const StagedOperation& staged) {
  const protocol::Operation& operation = staged.operation;
  Status checked = Status::Ok();
  if (staged.input_bytes > 0) checked = device.CheckMemory(operation.input);
  if (checked.ok() && staged.output_bytes > 0) checked = device.CheckMemory(operation.output);
  if (checked.ok()) return checked;
  return {checked.code(), "tensor '" + operation.name + "': " + checked.message()};
}

}  // namespace

StagedOperations::StagedOperations(FindDevices find, Events events, uint32_t rank,
                                   Duration stall_after, Duration pinned_limit,
                                   runtime::PrepareDevice prepare)
    : find_(std::move(find)),
      events_(std::move(events)),
      rank_(rank),
      stall_after_(stall_after),
      pinned_limit_(pinned_limit),
      prepare_(std::move(prepare)),
      shut_down_(StatusCode::kShutdown, "the session was shut down"),
      no_memory_(StatusCode::kExhausted, "the host has no memory for the operation") {}

StagedOperations::~StagedOperations() {
  Stop();
  std::thread watch;
  bool has_open = false;
  {
    MutexLock lock(mutex_);
    watch.swap(watch_);
    has_open = !open_.empty();
  }
  if (watch.joinable()) watch.join();
  if (has_open) events_.warn("the end of the session waits for a copy from or to a device");
  MutexLock lock(devices_mutex_);
  devices_.reset();  // before the lines: their threads, and not this one, close devices
  lines_.clear();
}

Result<device::Devices*> StagedOperations::Find() {
  MutexLock lock(devices_mutex_);
  if (devices_ == nullptr && !why_none_.has_value()) {
    Result<std::unique_ptr<device::Devices>> found = find_();
    if (found.ok()) {
      devices_ = std::move(found).value();
    } else {
      why_none_ = found.status();
    }
  }
  if (devices_ == nullptr) return *why_none_;
  return devices_.get();
}

Result<DeviceLines*> StagedOperations::LinesOf(int device) {
  Result<device::Devices*> devices = Find();
  if (!devices.ok()) {
    return Status(StatusCode::kInvalidArgument,
                  "memory of a device cannot be used: " + devices.status().message());
  }
  MutexLock lock(devices_mutex_);
  if (auto found = lines_.find(device); found != lines_.end()) return found->second.get();
  Result<device::Device*> opened = devices.value()->Open(device);
  if (!opened.ok()) return opened.status();
  try {
    const std::shared_ptr<device::Device> of(devices_, opened.value());
    auto made = std::make_unique<DeviceLines>(of, device, kPinnedBytesMax, events_.warn);
    return (lines_[device] = std::move(made)).get();
  } catch (const std::system_error& failure) {
    return NoThread(failure);
  }
}

Status StagedOperations::StartWatch() {
  if (watch_.joinable()) return Status::Ok();
  try {
    watch_ = std::thread([this] { Watch(); });
  } catch (const std::system_error& failure) {
    return NoThread(failure);
  }
  return Status::Ok();
}

Status StagedOperations::Start(protocol::Operation operation, uint64_t output_bytes, Duration limit,
                               const DevicePlace& place, Done done) {
  Result<DeviceLines*> lines = LinesOf(place.device);
  if (!lines.ok()) return lines.status();
  auto staged = std::make_shared<StagedOperation>();
  staged->lines = lines.value();
  staged->input_bytes = operations::InputBytes(operation.spec, operation.rows).value_or(0);
  staged->output_bytes = output_bytes;
  staged->by_pieces = GoesByPieces(operation, staged->input_bytes);
  staged->operation = std::move(operation);
  staged->begun = std::chrono::steady_clock::now();
  staged->limit = limit;
  staged->pinned_limit = pinned_limit_;
  staged->done = std::move(done);
  device::Device& device = staged->lines->device;
  if (Status checked = CheckMemory(device, *staged); !checked.ok()) return checked;
  std::unique_ptr<device::Mark> mark;
  if (place.stream.has_value()) {
    Result<std::unique_ptr<device::Mark>> noted = device.MarkOf(*place.stream);
    if (!noted.ok()) return noted.status();
    mark = std::move(noted).value();
  }
  bool is_ready = false;
  Status accepted = Accept(staged, place.stream, std::move(mark), is_ready);
  if (!accepted.ok() || !is_ready || Submit(staged, Status::Ok())) return accepted;
  MutexLock lock(mutex_);
  open_.erase(staged->id);
  return no_memory_;
}

// Keeps the operation, and begins its first stage. `is_ready`: it can be submitted at once.
Status StagedOperations::Accept(const Staged& staged, std::optional<void*> stream,
                                std::unique_ptr<device::Mark> mark, bool& is_ready) {
  MutexLock lock(mutex_);
  if (stops_) return shut_down_;
  if (Status watched = StartWatch(); !watched.ok()) return watched;
  staged->id = next_id_++;
  open_[staged->id] = staged;
  Status begun;
  try {
    if (mark != nullptr) {
      begun = Await(staged, *stream, std::move(mark));
    } else {
      is_ready = BeginCopy(staged);
    }
  } catch (const std::bad_alloc&) {
    begun = no_memory_;
  }
  if (begun.ok()) {
    ++unbegun_;
  } else {
    open_.erase(staged->id);
  }
  return begun;
}

void StagedOperations::Enter(StagedOperation& staged, Stage stage) {
  staged.stage = stage;
  staged.since = std::chrono::steady_clock::now();
  WakeWatchFor(staged);
}

void StagedOperations::WakeWatchFor(const StagedOperation& staged) {
  const Time now = std::chrono::steady_clock::now();
  if (staged.NextLook(now) < watch_sleeps_until_) watch_wakes_.notify_all();
}

Status StagedOperations::Await(const Staged& staged, void* stream,
                               std::unique_ptr<device::Mark> mark) {
  Enter(*staged, Stage::kWaiting);
  return staged->lines->ready.Await(
      staged->id, stream, std::move(mark),
      [this, staged](const Status& how) { Guarded(staged, [&] { OnReady(staged, how); }); });
}

// Returns whether the engine copies the operation's pieces. The front keeps the input of an atomic
// operation that is in place, which it cannot do in a device's memory.
bool StagedOperations::GoesByPieces(const protocol::Operation& operation, uint64_t bytes) const {
  const bool reduces = static_cast<int>(operation.spec.op) < wire::kReductionCount;
  const bool is_kept = operation.spec.atomic && operation.input == operation.output;
  return prepare_ != nullptr && reduces && !is_kept && bytes > kWholeBytesMax;
}

// Asks the driver for the block that the operation needs.
void StagedOperations::AskForMemory(const Staged& staged) {
  staged->lines->pinned.Make(staged->id, staged->BytesInHost(),
                             [this, staged](device::PinnedMemory::Block block) {
                               Guarded(staged, [&] { OnMemory(staged, std::move(block)); });
                             });
  Enter(*staged, Stage::kTaking);
}

// Returns whether the driver is known to give no pinned memory now. If every operation asked, each
// of a step would wait for the limit. Half of the limit: the driver may have been asked a moment
// after the operation that has waited.
bool StagedOperations::NeedNotAsk(DeviceLines& lines) const {
  return lines.pinned.HasWaited(pinned_limit_ / 2);
}

// Makes sure that the engine has memory for pieces. Returns true if there is nothing to wait for.
// The first operations wait for a block of their own, which comes after this memory.
bool StagedOperations::PreparePieces(const Staged& staged) {
  if (staged->block.data() != nullptr || prepare_(*staged->lines)) return true;
  if (NeedNotAsk(*staged->lines)) return true;
  AskForMemory(staged);
  return false;
}

// Takes memory in the host and begins the copy of the input. Returns true if there is nothing to
// wait for.
bool StagedOperations::BeginCopy(const Staged& staged) {
  if (staged->by_pieces) return PreparePieces(staged);
  DeviceLines& lines = *staged->lines;
  const size_t bytes = staged->BytesInHost();
  if (staged->block.data() == nullptr) staged->block = lines.pinned.TakeUnused(bytes);
  if (staged->block.data() == nullptr && NeedNotAsk(lines)) {
    staged->block = device::PinnedMemory::Ordinary(bytes);
  }
  if (staged->block.data() == nullptr && bytes > 0) {
    AskForMemory(staged);
    return false;
  }
  if (staged->input_bytes == 0) return true;
  lines.down.Copy(
      staged->id, staged->host_input(), staged->operation.input, staged->input_bytes,
      [this, staged](const Status& how) { Guarded(staged, [&] { OnCopied(staged, how); }); });
  Enter(*staged, Stage::kCopying);
  return false;
}

// The stream has come to the mark.
void StagedOperations::OnReady(const Staged& staged, const Status& status) {
  Status input = status;
  try {
    MutexLock lock(mutex_);
    staged->stage = Stage::kElsewhere;
    // Under the mutex, so that Stop sees either the next stage or this one.
    if (!stops_ && input.ok() && !BeginCopy(staged)) return;
  } catch (const std::bad_alloc&) {
    input = no_memory_;
  }
  SubmitOrGiveUp(staged, input);
}

// There is memory in the host; no block: there is none.
void StagedOperations::OnMemory(const Staged& staged, device::PinnedMemory::Block block) {
  if (block.data() == nullptr) return OnReady(staged, no_memory_);
  staged->block = std::move(block);
  OnReady(staged, Status::Ok());
}

void StagedOperations::OnCopied(const Staged& staged, const Status& status) {
  {
    MutexLock lock(mutex_);
    if (staged->stage != Stage::kCopying) return;  // it was left
    staged->stage = Stage::kElsewhere;
  }
  SubmitOrGiveUp(staged, status);
}

// Submits an operation without its input, although the copy may be under way.
void StagedOperations::LeaveCopy(const Staged& staged, const Status& why) {
  {
    MutexLock lock(mutex_);
    if (staged->stage != Stage::kCopying) return;
    staged->stage = Stage::kElsewhere;
    staged->copy_is_left = true;
  }
  staged->lines->down.CallOff(staged->id, [this, staged] {
    {
      MutexLock lock(mutex_);
      staged->copy_is_left = false;
      if (!staged->has_outcome) return;
    }
    End(staged, std::move(staged->outcome));
  });
  SubmitOrGiveUp(staged, why);
}

// Gives the operation to the engine. `input`: whether the input is in the host's memory, and else
// why there is none. Other ranks count on this rank's part, so an operation without input is
// submitted, too. Returns false if there is no memory to submit it; then nothing was accepted.
bool StagedOperations::Submit(const Staged& staged, const Status& input) {
  const Telling telling(*this);
  if (telling.stops()) {
    End(staged, Failed(shut_down_));
    return true;
  }
  bool has_memory = true;
  try {
    protocol::Operation submitted = staged->operation;
    if (staged->by_pieces) {
      submitted.memory = Memory::kDevice;
      submitted.device = {staged->lines, staged->id};
    } else if (input.ok()) {
      submitted.input = staged->host_input();
      submitted.output = staged->host_output();
    }
    if (!input.ok()) {
      submitted.no_input = {input.code(), "rank " + std::to_string(rank_) +
                                              " has no input for tensor '" + submitted.name +
                                              "': " + input.message()};
    }
    events_.submit(std::move(submitted), [this, staged](protocol::Outcome outcome) {
      Guarded(staged, [&] { OnResult(staged, std::move(outcome)); });
    });
  } catch (const std::bad_alloc&) {  // nothing was accepted
    has_memory = false;
  }
  NoteBegun(*staged);
  return has_memory;
}

void StagedOperations::SubmitOrGiveUp(const Staged& staged, const Status& input) {
  if (!Submit(staged, input)) GiveUp(staged, no_memory_);
}

// The engine has the operation, or will never get it.
void StagedOperations::NoteBegun(StagedOperation& staged) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(staged.has_begun, true)) return;
    WakeWatchFor(staged);
    if (--unbegun_ > 0) return;
  }
  const Telling telling(*this);
  if (!telling.stops()) events_.all_begun();
}

// The operation has ended in the engine; on a thread of the engine.
void StagedOperations::OnResult(const Staged& staged, protocol::Outcome outcome) {
  {
    MutexLock lock(mutex_);
    staged->outcome = std::move(outcome);
    staged->has_outcome = true;
    if (staged->copy_is_left) return;
  }
  if (staged->by_pieces) return EndWhenOver(staged);
  if (!staged->outcome.status.ok() || staged->output_bytes == 0) {
    return End(staged, std::move(staged->outcome));
  }
  staged->lines->up.Copy(staged->id, staged->operation.output, staged->host_output(),
                         staged->output_bytes, [this, staged](const Status& how) {
                           Guarded(staged, [&] {
                             if (!how.ok()) return GiveUp(staged, how);
                             End(staged, std::move(staged->outcome));
                           });
                         });
  MutexLock lock(mutex_);
  if (!staged->has_ended) Enter(*staged, Stage::kReturning);
}

// Ends an operation that went by pieces. Copies of pieces that lanes have abandoned may still use
// its memory, and launches of a group of GPUs.
void StagedOperations::EndWhenOver(const Staged& staged) {
  staged->lines->down.WhenOver(staged->id, [this, staged] {
    staged->lines->up.WhenOver(staged->id, [this, staged] {
      staged->lines->launches.WhenOver(staged->id,
                                       [this, staged] { End(staged, std::move(staged->outcome)); });
    });
  });
  MutexLock lock(mutex_);
  if (!staged->has_ended) Enter(*staged, Stage::kReturning);
}

// Other ranks count on this rank's part and will not get it, or have the result, which this rank
// does not have. Nobody can tell them, so the job loses this rank.
void StagedOperations::GiveUp(const Staged& staged, const Status& status) {
  Status why = status;
  bool stops = false;
  {
    MutexLock lock(mutex_);
    stops = stops_ || staged->has_ended;
  }
  try {
    why = {status.code(), "tensor '" + staged->operation.name + "': " + status.message()};
    if (!stops) events_.give_up(why.message());  // else this process leaves anyway
  } catch (const std::bad_alloc&) {  // the operation ends, and its user must end the job
  }
  End(staged, Failed(why));
}

void StagedOperations::End(const Staged& staged, protocol::Outcome outcome) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(staged->has_ended, true)) return;
    staged->stage = Stage::kElsewhere;
  }
  NoteBegun(*staged);
  staged->block = device::PinnedMemory::Block();
  if (outcome.status.ok()) {
    outcome.begun = staged->begun;
    outcome.ended = std::chrono::steady_clock::now();
  }
  std::exchange(staged->done, nullptr)(std::move(outcome));
  MutexLock lock(mutex_);
  open_.erase(staged->id);
  changed_.notify_all();
}

bool StagedOperations::HasUnbegun() {
  MutexLock lock(mutex_);
  return unbegun_ > 0;
}

bool StagedOperations::HasOpen(uint32_t process_set) {
  MutexLock lock(mutex_);
  return std::ranges::any_of(open_, [&](const auto& entry) {
    const StagedOperation& staged = *entry.second;
    return !staged.has_ended && staged.operation.spec.process_set == process_set;
  });
}

void StagedOperations::Stop() {
  std::vector<std::pair<Staged, Stage>> all;
  {
    MutexLock lock(mutex_);
    stops_ = true;
    watch_wakes_.notify_all();
    for (const auto& [id, staged] : open_) all.emplace_back(staged, staged->stage);
  }
  for (const auto& [staged, stage] : all) {
    DeviceLines& lines = *staged->lines;
    auto end = [this, staged = staged] { End(staged, Failed(shut_down_)); };
    if (stage == Stage::kWaiting && lines.ready.CallOff(staged->id)) end();
    if (stage == Stage::kTaking && lines.pinned.CallOff(staged->id)) end();
    if (stage == Stage::kCopying) lines.down.CallOff(staged->id, end);
  }
}

bool StagedOperations::WaitForEnd(Time deadline) {
  MutexLock lock(mutex_);
  while (!open_.empty() || telling_ > 0) {
    if (!lock.WaitUntil(changed_, deadline)) return open_.empty() && telling_ == 0;
  }
  return true;
}

}  // namespace byteps::session
