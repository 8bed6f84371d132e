// How the rounds of a piece are numbered, here and nowhere else.
//
// Workers and the coordinator count **uses** of a name: from 1 in each generation and after each
// failure of the name, and anew each time all workers have joined (Op::kJoin), so that a rank that
// took no part for a while counts as the others do. On the wire a **round** is a use and the
// attempt at it. Both are plain numbers, so that a later one is a larger one to whoever only
// compares them:
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

// Attempts at one use of an atomic tensor, and joins in one generation.
inline constexpr uint32_t kAttemptsMax = uint32_t{1} << kAttemptBits;
inline constexpr uint32_t kJoinsMax = (uint32_t{1} << kJoinBits) - 1;

// The use before the first one after so many joins. REQUIRES: joins <= kJoinsMax.
constexpr uint64_t FirstRoundAfter(uint32_t joins) { return uint64_t{joins} << kCountBits; }
constexpr uint32_t JoinsOfUse(uint64_t use) { return static_cast<uint32_t>(use >> kCountBits); }

// REQUIRES: attempt < kAttemptsMax.
constexpr uint64_t RoundOf(uint64_t use, uint32_t attempt) {
  return (use << kAttemptBits) + attempt;
}
constexpr uint64_t UseOf(uint64_t round) { return round >> kAttemptBits; }
constexpr uint32_t JoinsOf(uint64_t round) { return JoinsOfUse(UseOf(round)); }

}  // namespace byteps::wire
