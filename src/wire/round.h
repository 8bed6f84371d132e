// Numbers the rounds of a piece. Only this file knows how.
//
// Workers and the coordinator count **uses** of a name: from 1 in each generation and after each
// failure of the name, and anew each time all workers have joined (Op::kJoin), so that a rank that
// took no part for a while counts like the others. On the wire a **round** is a use and the attempt
// at it. Both are plain numbers, so that code that only compares them sees a later one as a larger
// one:
//
//   use       | joins: 16 bits | count: 40 bits |
//   round     | joins: 16 bits | count: 40 bits | attempt: 8 bits |
#pragma once

#include <cstdint>

namespace byteps::wire {

inline constexpr int kAttemptBits = 8;
inline constexpr int kCountBits = 40;
inline constexpr int kJoinBits = 16;
static_assert(kAttemptBits + kCountBits + kJoinBits == 64);

// The most attempts at one use of an atomic tensor, and the most joins in one generation.
inline constexpr uint32_t kAttemptsMax = uint32_t{1} << kAttemptBits;
inline constexpr uint32_t kJoinsMax = (uint32_t{1} << kJoinBits) - 1;

// Returns the use before the first one after so many joins. REQUIRES: joins <= kJoinsMax.
constexpr uint64_t FirstRoundAfter(uint32_t joins) { return uint64_t{joins} << kCountBits; }
constexpr uint32_t JoinsOfUse(uint64_t use) { return static_cast<uint32_t>(use >> kCountBits); }

// REQUIRES: attempt < kAttemptsMax.
constexpr uint64_t RoundOf(uint64_t use, uint32_t attempt) {
  return (use << kAttemptBits) + attempt;
}
constexpr uint64_t UseOf(uint64_t round) { return round >> kAttemptBits; }
constexpr uint32_t JoinsOf(uint64_t round) { return JoinsOfUse(UseOf(round)); }

}  // namespace byteps::wire
