// Sleeping on a word of memory that processes share.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/time.h"

namespace byteps::local {

// Sleeps while `word` is `seen`, until somebody wakes it or the deadline passes. Returns early at
// times: the caller looks again.
void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, Time deadline);

// Wakes who sleeps on `word`, in any process. Does not block.
void FutexWake(std::atomic<uint32_t>& word);

// Who sleeps on `from` sleeps on `to` from now on, if `from` is `seen`. Does not block.
void FutexMove(std::atomic<uint32_t>& from, uint32_t seen, std::atomic<uint32_t>& to);

}  // namespace byteps::local
