#include "src/session/device/staged_operations.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "src/base/text.h"
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

}  // namespace

// The threads and the memory for one device.
struct StagedOperations::Lines {
  Lines(device::Device& of, int number, const std::function<void(const std::string&)>& warn)
      : name("cuda:" + std::to_string(number)),
        device(of),
        pinned(of, kPinnedBytesMax, warn),
        ready(of),
        down(of),
        up(of) {}

  const std::string name;
  device::Device& device;
  device::PinnedMemory pinned;
  device::ReadyLine ready;
  device::CopyLine down;  // from the device
  device::CopyLine up;
};

struct StagedOperations::Staged {
  uint64_t id = 0;
  Lines* lines = nullptr;
  protocol::Operation operation;  // in the device's memory
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  Time begun;
  Duration limit{};
  Done done;
  protocol::Outcome outcome;
  device::PinnedMemory::Block input;
  device::PinnedMemory::Block output;  // none if the output lies in the input
  std::byte* host_output = nullptr;
  // The mutex of StagedOperations guards these.
  Stage stage = Stage::kElsewhere;
  bool has_begun = false;  // it was submitted
  bool is_told = false;    // a warning has named it
  bool has_ended = false;

  bool OutputLiesInInput() const {
    return operation.output >= operation.input && operation.output < operation.input + input_bytes;
  }
};

StagedOperations::StagedOperations(FindDevices find, Events events, uint32_t rank,
                                   Duration stall_after)
    : find_(std::move(find)),
      events_(std::move(events)),
      rank_(rank),
      stall_after_(stall_after),
      shut_down_(StatusCode::kShutdown, "the session was shut down") {}

StagedOperations::~StagedOperations() {
  Stop();
  std::thread watch;
  {
    MutexLock lock(mutex_);
    watch.swap(watch_);
  }
  if (watch.joinable()) watch.join();
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

Result<StagedOperations::Lines*> StagedOperations::LinesOf(int device) {
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
    auto made = std::make_unique<Lines>(*opened.value(), device, events_.warn);
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

Status StagedOperations::CheckMemory(device::Device& device, const Staged& staged) const {
  const protocol::Operation& operation = staged.operation;
  Status checked = Status::Ok();
  if (staged.input_bytes > 0) checked = device.CheckMemory(operation.input);
  if (checked.ok() && staged.output_bytes > 0) checked = device.CheckMemory(operation.output);
  if (checked.ok()) return checked;
  return {checked.code(), "tensor '" + operation.name + "': " + checked.message()};
}

Status StagedOperations::Start(protocol::Operation operation, uint64_t output_bytes, Duration limit,
                               const DevicePlace& place, Done done) {
  Result<Lines*> lines = LinesOf(place.device);
  if (!lines.ok()) return lines.status();
  auto staged = std::make_shared<Staged>();
  staged->lines = lines.value();
  staged->input_bytes = operations::InputBytes(operation.spec, operation.rows).value_or(0);
  staged->output_bytes = output_bytes;
  staged->operation = std::move(operation);
  staged->begun = std::chrono::steady_clock::now();
  staged->limit = limit;
  staged->done = std::move(done);
  device::Device& device = staged->lines->device;
  if (Status checked = CheckMemory(device, *staged); !checked.ok()) return checked;
  std::unique_ptr<device::Mark> mark;
  if (place.stream.has_value()) {
    Result<std::unique_ptr<device::Mark>> noted = device.MarkOf(*place.stream);
    if (!noted.ok()) return noted.status();
    mark = std::move(noted).value();
  }
  {
    MutexLock lock(mutex_);
    if (stops_) return shut_down_;
    staged->id = next_id_++;
    open_[staged->id] = staged;
    Status awaited = mark == nullptr ? Status::Ok() : Await(staged, *place.stream, std::move(mark));
    if (!awaited.ok()) {
      open_.erase(staged->id);
      return awaited;
    }
    ++unbegun_;
  }
  if (!place.stream.has_value()) OnReady(staged, Status::Ok());
  return Status::Ok();
}

Status StagedOperations::Await(const std::shared_ptr<Staged>& staged, void* stream,
                               std::unique_ptr<device::Mark> mark) {
  if (Status watched = StartWatch(); !watched.ok()) return watched;
  staged->stage = Stage::kWaiting;
  if (NextLook(*staged) < watch_sleeps_until_) watch_wakes_.notify_all();
  return staged->lines->ready.Await(staged->id, stream, std::move(mark),
                                    [this, staged](const Status& how) { OnReady(staged, how); });
}

// Takes the operation's memory in the host.
void StagedOperations::TakeMemory(Staged& staged) {
  device::PinnedMemory& pinned = staged.lines->pinned;
  staged.input = pinned.Take(staged.input_bytes);
  if (staged.OutputLiesInInput()) {
    staged.host_output = staged.input.data() + (staged.operation.output - staged.operation.input);
  } else {
    staged.output = pinned.Take(staged.output_bytes);
    staged.host_output = staged.output.data();
  }
}

// The stream has come to the mark; on a line's thread, or inside Start.
void StagedOperations::OnReady(const std::shared_ptr<Staged>& staged, const Status& status) {
  {
    MutexLock lock(mutex_);
    staged->stage = Stage::kElsewhere;
  }
  if (!status.ok()) return OnCopied(staged, status);
  try {
    TakeMemory(*staged);
  } catch (const std::bad_alloc&) {
    return OnCopied(staged, {StatusCode::kExhausted, "the host has no memory for its copy"});
  }
  bool stops = false;
  {
    MutexLock lock(mutex_);
    stops = stops_;
    if (!stops && staged->input_bytes > 0) {
      // Under the mutex, so that Stop sees either the copy or the stage before it.
      staged->stage = Stage::kCopying;
      staged->lines->down.Copy(staged->id, staged->input.data(), staged->operation.input,
                               staged->input_bytes,
                               [this, staged](const Status& how) { OnCopied(staged, how); });
      return;
    }
  }
  if (stops) return End(staged, Failed(shut_down_));
  OnCopied(staged, Status::Ok());
}

// The input is in the host's memory, or there will be none. Other ranks count on this rank's part,
// so the operation is submitted in any case.
void StagedOperations::OnCopied(const std::shared_ptr<Staged>& staged, const Status& status) {
  bool stops = false;
  {
    MutexLock lock(mutex_);
    stops = stops_;
    staged->stage = Stage::kElsewhere;
    if (!stops) ++telling_;
  }
  if (stops) return End(staged, Failed(shut_down_));
  bool has_memory = true;
  try {
    protocol::Operation in_host = staged->operation;
    if (status.ok()) {
      in_host.input = staged->input.data();
      in_host.output = staged->host_output;
    } else {
      in_host.no_input = {status.code(), "rank " + std::to_string(rank_) +
                                             " has no input for tensor '" + in_host.name +
                                             "': " + status.message()};
    }
    events_.submit(std::move(in_host), [this, staged](protocol::Outcome outcome) {
      OnResult(staged, std::move(outcome));
    });
  } catch (const std::bad_alloc&) {  // nothing was accepted
    has_memory = false;
  }
  NoteBegun(*staged);
  {
    MutexLock lock(mutex_);
    --telling_;
    changed_.notify_all();
  }
  if (!has_memory) GiveUp(staged, {StatusCode::kExhausted, "there is no memory to begin it"});
}

// The engine has the operation, or will never get it.
void StagedOperations::NoteBegun(Staged& staged) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(staged.has_begun, true) || --unbegun_ > 0 || stops_) return;
    ++telling_;
  }
  events_.all_begun();
  MutexLock lock(mutex_);
  --telling_;
  changed_.notify_all();
}

// The operation has ended in the host's memory; on a thread of the engine.
void StagedOperations::OnResult(const std::shared_ptr<Staged>& staged, protocol::Outcome outcome) {
  if (!outcome.status.ok() || staged->output_bytes == 0) return End(staged, std::move(outcome));
  staged->outcome = std::move(outcome);
  staged->lines->up.Copy(staged->id, staged->operation.output, staged->host_output,
                         staged->output_bytes, [this, staged](const Status& how) {
                           if (!how.ok()) return GiveUp(staged, how);
                           End(staged, std::move(staged->outcome));
                         });
}

// Other ranks count on this rank's part and will not get it, or have the result, which this rank
// does not have. Nobody can tell them, so the job loses this rank.
void StagedOperations::GiveUp(const std::shared_ptr<Staged>& staged, const Status& status) {
  const Status why(status.code(), "tensor '" + staged->operation.name + "': " + status.message());
  bool stops = false;
  {
    MutexLock lock(mutex_);
    stops = stops_;
  }
  if (!stops) events_.give_up(why.message());  // else this process leaves anyway
  End(staged, Failed(why));
}

void StagedOperations::End(const std::shared_ptr<Staged>& staged, protocol::Outcome outcome) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(staged->has_ended, true)) return;
  }
  NoteBegun(*staged);
  staged->input = device::PinnedMemory::Block();
  staged->output = device::PinnedMemory::Block();
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
    const Staged& staged = *entry.second;
    return !staged.has_ended && staged.operation.spec.process_set == process_set;
  });
}

void StagedOperations::Stop() {
  std::vector<std::pair<std::shared_ptr<Staged>, Stage>> all;
  {
    MutexLock lock(mutex_);
    stops_ = true;
    watch_wakes_.notify_all();
    for (const auto& [id, staged] : open_) all.emplace_back(staged, staged->stage);
  }
  for (const auto& [staged, stage] : all) {
    auto end = [this, staged = staged] { End(staged, Failed(shut_down_)); };
    if (stage == Stage::kWaiting && staged->lines->ready.CallOff(staged->id)) end();
    if (stage == Stage::kCopying) staged->lines->down.CallOff(staged->id, end);
  }
}

bool StagedOperations::WaitForEnd(Time deadline) {
  MutexLock lock(mutex_);
  while (!open_.empty() || telling_ > 0) {
    if (!lock.WaitUntil(changed_, deadline)) return open_.empty() && telling_ == 0;
  }
  return true;
}

// Returns when the watch must look at an operation that waits.
Time StagedOperations::NextLook(const Staged& waiting) const {
  Time next = waiting.begun + kLateAfter;
  if (waiting.limit > Duration::zero()) next = std::min(next, waiting.begun + waiting.limit);
  return next;
}

void StagedOperations::EndLateOnes(Time now) {
  std::vector<std::shared_ptr<Staged>> late;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, staged] : open_) {
      const bool is_late = staged->limit > Duration::zero() && now >= staged->begun + staged->limit;
      if (is_late && staged->stage == Stage::kWaiting) late.push_back(staged);
    }
  }
  for (const auto& staged : late) {
    if (!staged->lines->ready.CallOff(staged->id)) continue;
    const auto waited = std::chrono::duration_cast<milliseconds>(now - staged->begun);
    OnCopied(staged,
             {StatusCode::kDeadlineExceeded, "it was not ready on " + staged->lines->name +
                                                 " after " + std::to_string(waited.count()) +
                                                 " ms: the work of its stream has not ended"});
  }
}

// Tells the engine, whose job makes the stall reports, and the user of this process.
void StagedOperations::TellLateOnes(Time now) {
  std::vector<std::string> names;
  std::string warning;
  size_t others = 0;
  {
    MutexLock lock(mutex_);
    if (stops_) return;
    ++telling_;
    for (const auto& [id, staged] : open_) {
      const Duration age = now - staged->begun;
      if (staged->stage != Stage::kWaiting || age < kLateAfter) continue;
      names.push_back(staged->operation.name);
      if (stall_after_ == Duration::zero() || age < stall_after_ || staged->is_told) continue;
      staged->is_told = true;
      if (!warning.empty() && ++others > 0) continue;
      warning = "tensor '" + staged->operation.name + "' has waited for its input on " +
                staged->lines->name + " for " + SecondsText(age) +
                ": the work of its stream has not ended";
    }
  }
  if (others > 0) warning += "; the same holds for " + std::to_string(others) + " more";
  if (!warning.empty()) events_.warn(warning);
  if (names != told_late_) {
    told_late_ = names;
    events_.late(std::move(names));
  }
  MutexLock lock(mutex_);
  --telling_;
  changed_.notify_all();
}

void StagedOperations::Watch() {
  for (;;) {
    Time now = std::chrono::steady_clock::now();
    EndLateOnes(now);
    TellLateOnes(now);
    MutexLock lock(mutex_);
    if (stops_) return;
    now = std::chrono::steady_clock::now();
    Time next = now + (told_late_.empty() ? seconds(60) : kLateAfter);
    for (const auto& [id, staged] : open_) {
      if (staged->stage != Stage::kWaiting) continue;
      const Time its = NextLook(*staged);
      const Time limit = staged->begun + staged->limit;
      // An operation that is late already is looked at from time to time, and at its limit.
      next = std::min(next, its > now ? its : now + kLateAfter);
      if (staged->limit > Duration::zero() && limit > now) next = std::min(next, limit);
    }
    watch_sleeps_until_ = next;
    lock.WaitUntil(watch_wakes_, next);
    watch_sleeps_until_ = Time();
  }
}

}  // namespace byteps::session
