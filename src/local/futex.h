// Lets threads sleep on a word of memory that processes share.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/time.h"

namespace byteps::local {

// Blocks while `word` is `seen`, until a thread wakes this one or the deadline passes. May return
// early, so the caller looks again.
void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, Time deadline);

// Wakes all threads that sleep on `word`, in any process. Does not block.
void FutexWake(std::atomic<uint32_t>& word);

// Moves the threads that sleep on `from` to `to`, if `from` still has the value `seen`. Does not
// block.
void FutexMove(std::atomic<uint32_t>& from, uint32_t seen, std::atomic<uint32_t>& to);

}  // namespace byteps::local
