#include "src/local/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace byteps::local {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) &&
              std::atomic<uint32_t>::is_always_lock_free);

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, Time deadline) {
  // FUTEX_WAIT_BITSET takes a point of time on the clock of `Time`; FUTEX_WAIT would take a
  // duration.
  int64_t ns = std::max<int64_t>(deadline.time_since_epoch().count(), 0);
  timespec until = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, seen, &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void FutexWake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void FutexMove(std::atomic<uint32_t>& from, uint32_t seen, std::atomic<uint32_t>& to) {
  // This call has the number of threads to move where the other calls have a time.
  constexpr long kMoved = INT_MAX;
  syscall(SYS_futex, &from, FUTEX_CMP_REQUEUE, 0, kMoved, &to, seen);
}

}  // namespace byteps::local
