#include "src/session/call_gate.h"

namespace byteps::session {
namespace {

constexpr uint64_t kShut = uint64_t{1} << 63;

}  // namespace

bool CallGate::Enter() {
  if ((state_.fetch_add(1) & kShut) == 0) return true;
  Leave();
  return false;
}

// The last call that leaves wakes Shut, under the lock, so that Shut is not just about to sleep.
void CallGate::Leave() {
  if (state_.fetch_sub(1) != (kShut | 1)) return;
  MutexLock lock(mutex_);
  changed_.notify_all();
}

bool CallGate::ClaimEnd() {
  MutexLock lock(mutex_);
  if (!claimed_) {
    claimed_ = true;
    return true;
  }
  while (!over_) lock.Wait(changed_);
  return false;
}

void CallGate::Shut() {
  state_.fetch_or(kShut);
  MutexLock lock(mutex_);
  while (state_.load() != kShut) lock.Wait(changed_);
}

void CallGate::SetOver() {
  MutexLock lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

}  // namespace byteps::session
