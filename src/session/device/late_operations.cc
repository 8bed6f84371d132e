// The watch of StagedOperations: ends stages that take too long, and tells of them.
#include <algorithm>
#include <new>
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

// Tells the engine, whose job makes the stall reports, and the user of this process.
void StagedOperations::TellLateOnes(Time now) {
  std::vector<std::string> names;
  std::string warning;
  size_t others = 0;
  const Telling telling(*this);
  if (telling.stops()) return;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, staged] : open_) {
      if (!staged->IsLate(now)) continue;
      if (!staged->HasInput()) names.push_back(staged->operation.name);
      const bool is_stalled =
          stall_after_ > Duration::zero() && now >= staged->since + stall_after_;
      if (!is_stalled || std::exchange(staged->is_told, true)) continue;
      if (warning.empty()) {
        warning = staged->WhyLate(now);
      } else {
        ++others;
      }
    }
  }
  if (others > 0) warning += "; the same holds for " + std::to_string(others) + " more";
  if (!warning.empty()) events_.warn(warning);
  if (names != told_late_) {
    told_late_ = names;
    events_.late(std::move(names));
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
    Time next = now + (told_late_.empty() ? kLongSleep : Duration(seconds(1)));
    for (const auto& [id, staged] : open_) next = std::min(next, staged->NextLook(now));
    watch_sleeps_until_ = next;
    lock.WaitUntil(watch_wakes_, next);
    watch_sleeps_until_ = Time();
  }
}

}  // namespace byteps::session
