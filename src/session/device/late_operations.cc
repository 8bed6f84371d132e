// The watch of StagedOperations: ends stages that take too long, and tells of them.
#include <algorithm>
#include <new>
#include <set>
#include <utility>

#include "src/session/device/staged_operations.h"

namespace byteps::session {
namespace {

// The sleep of the watch if nothing waits.
constexpr Duration kLongSleep = seconds(60);

}  // namespace

void StagedOperations::EndLateOnes(Time now) {
  std::vector<LateOne> late;
  {
    MutexLock lock(mutex_);
    if (stops_) return;
    for (const auto& [id, staged] : open_) {
      const bool is_at_limit = staged->IsAtLimit(now);
      if (!is_at_limit && !staged->HasNoPinnedMemory(now)) continue;
      late.push_back({staged, staged->stage, is_at_limit});
    }
  }
  for (const LateOne& one : late) {
    Guarded(one.staged, [&] { EndLateOne(one, now); });
  }
}

// Ends a stage that takes too long. If the stage ends by itself meanwhile, that counts.
void StagedOperations::EndLateOne(const LateOne& one, Time now) {
  const auto& [staged, stage, is_at_limit] = one;
  DeviceLines& lines = *staged->lines;
  const auto waited = std::chrono::duration_cast<milliseconds>(now - staged->begun);
  const std::string after = " after " + std::to_string(waited.count()) + " ms: ";
  auto late = [](const std::string& why) { return Status(StatusCode::kDeadlineExceeded, why); };
  if (stage == Stage::kWaiting) {
    if (!lines.ready.CallOff(staged->id)) return;
    OnReady(staged, late("it was not ready on " + lines.name + after +
                         "the work of its stream has not ended"));
  } else if (stage == Stage::kTaking) {
    if (!lines.pinned.CallOff(staged->id)) return;
    if (!is_at_limit) return OnMemory(staged, lines.pinned.Ordinary(staged->BytesInHost()));
    OnReady(staged, late("there was no memory for its copy from " + lines.name + after +
                         "the CUDA driver has not answered"));
  } else {
    LeaveCopy(staged, late("its copy from " + lines.name + " had not ended" + after +
                           "the CUDA driver has not answered, or the GPU is busy"));
  }
}

// Returns whether the user has to hear that the operation has waited since then, and notes it.
bool StagedOperations::IsWorthAWarning(StagedOperation& staged, Time since, Time now) const {
  const bool is_stalled = stall_after_ > Duration::zero() && now >= since + stall_after_;
  return is_stalled && !std::exchange(staged.is_told, true);
}

// Notes the oldest copy of each direction: all others of this direction wait for it.
void StagedOperations::NoteSlowCopies(DeviceLines& lines, Time now, protocol::DeviceWaits& waits,
                                      std::vector<std::string>& warnings) {
  for (device::CopyLine* line : {&lines.down, &lines.up}) {
    const std::optional<device::CopyLine::UnderWay> oldest = line->Oldest();
    if (!oldest.has_value() || now < oldest->since + StagedOperation::kLateAfter) continue;
    auto found = open_.find(oldest->owner);
    if (found == open_.end()) continue;
    const bool to_device = line == &lines.up;
    StagedOperation& staged = *found->second;
    if (IsWorthAWarning(staged, oldest->since, now)) {
      warnings.push_back(staged.WhyLateCopy(to_device, now - oldest->since));
    }
    const auto age = std::chrono::duration_cast<milliseconds>(now - oldest->since).count();
    waits.copies.push_back({staged.operation.name, lines.name, to_device,
                            static_cast<uint32_t>(std::min<int64_t>(age, UINT32_MAX))});
  }
}

protocol::DeviceWaits StagedOperations::LateOnes(Time now, std::vector<std::string>& warnings) {
  protocol::DeviceWaits waits;
  std::set<DeviceLines*> used;
  for (const auto& [id, staged] : open_) {
    used.insert(staged->lines);
    if (!staged->IsLate(now)) continue;
    if (!staged->HasInput()) waits.late_inputs.push_back(staged->operation.name);
    if (IsWorthAWarning(*staged, staged->since, now)) warnings.push_back(staged->WhyLate(now));
  }
  for (DeviceLines* lines : used) {
    if (waits.copies.size() + 2 > wire::kCopiesInAccountMax) break;
    NoteSlowCopies(*lines, now, waits, warnings);
  }
  return waits;
}

// Tells the engine, whose job makes the stall reports, and the user of this process.
void StagedOperations::TellLateOnes(Time now) {
  std::vector<std::string> warnings;
  protocol::DeviceWaits waits;
  const Telling telling(*this);
  if (telling.stops()) return;
  {
    MutexLock lock(mutex_);
    waits = LateOnes(now, warnings);
  }
  if (!warnings.empty()) {
    std::string warning = warnings.front();
    const size_t others = warnings.size() - 1;
    if (others > 0) warning += "; the same holds for " + std::to_string(others) + " more";
    events_.warn(warning);
  }
  if (waits != told_late_) {
    told_late_ = waits;
    events_.late(std::move(waits));
  }
}

void StagedOperations::Watch() {
  for (;;) {
    Time now = std::chrono::steady_clock::now();
    try {
      EndLateOnes(now);
      TellLateOnes(now);
    } catch (const std::bad_alloc&) {  // the next look may have memory
    }
    MutexLock lock(mutex_);
    if (stops_) return;
    now = std::chrono::steady_clock::now();
    const bool tells = told_late_ != protocol::DeviceWaits();
    Time next = now + (tells ? Duration(seconds(1)) : kLongSleep);
    for (const auto& [id, staged] : open_) next = std::min(next, staged->NextLook(now));
    watch_sleeps_until_ = next;
    lock.WaitUntil(watch_wakes_, next);
    watch_sleeps_until_ = Time();
  }
}

}  // namespace byteps::session
