// Which rounds the ranks of a machine have begun, in memory that they share: so a rank sees whether
// others are still missing, and then need not wake the carrier for its own word. The carrier hears
// the word when the last rank wakes it, or anybody else.
//
// What a rank reads here may be old in one way only: it may take a rank for one that has begun, and
// wake the carrier for nothing. spec/signs.pml checks that the carrier never sleeps on a complete
// round. Belongs to one thread of one process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "src/local/rank_set.h"
#include "src/machine/room/words.h"

namespace byteps::machine {

inline constexpr uint32_t kSigns = 64;

// What stands in the memory, which is all zero at first.
struct SignWords {
  // Rounds that one rank has begun and that have not ended for it; it alone writes. A word has one
  // round, or says that there are several.
  struct alignas(64) OfRank {
    std::array<std::atomic<uint64_t>, kSigns> rounds;
  };
  std::array<OfRank, local::kLocalRanksMax> ranks;
  // Ranks for which nobody waits, because they have joined or leave; each adds and removes itself.
  alignas(64) std::atomic<uint64_t> excused;
  // Whether the carrier keeps an error for ranks that begin the round later; it writes.
  std::atomic<uint32_t> keeps_errors;
};

class BegunSigns {
 public:
  BegunSigns(SignWords& words, uint32_t rank) : words_(words), rank_(rank) {}

  // This rank has begun a round of these ranks, and its word can be heard. True: the carrier must
  // be woken, because all others may have begun it, too, or because it may have an answer already.
  bool Begin(const RoundKey& key, RankSet ranks);
  // The round has ended for this rank.
  void End(const RoundKey& key);
  // Nobody waits for this rank. Before it says so to the carrier.
  void Excuse() { words_.excused.fetch_or(local::Bit(rank_)); }
  void TakePartAgain() { words_.excused.fetch_and(~local::Bit(rank_)); }
  // Of the carrier, before ranks are told of the error.
  void KeepErrors(bool keeps) { words_.keeps_errors.store(keeps ? 1 : 0); }

 private:
  SignWords& words_;
  const uint32_t rank_;
  std::array<uint32_t, kSigns> open_{};  // how many rounds each word stands for
};

}  // namespace byteps::machine
