// The rounds that the ranks of a machine have begun, in memory that they share. By them a rank sees
// whether other ranks are still missing; then it need not wake the carrier for its own word. The
// carrier hears the word when the last rank, or anything else, wakes the carrier.
//
// A rank may read old values here, with one effect only: it may believe that another rank has
// begun, and wake the carrier for nothing. spec/signs.pml checks that the carrier never sleeps on a
// complete round. Belongs to one thread of one process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "src/local/rank_set.h"
#include "src/machine/room/words.h"

namespace byteps::machine {

inline constexpr uint32_t kSigns = 64;

// The contents of the shared memory, which is all zero at first.
struct SignWords {
  // The rounds that one rank has begun and that have not ended for it; only this rank writes. A
  // word contains one round, or says that it stands for several.
  struct alignas(64) OfRank {
    std::array<std::atomic<uint64_t>, kSigns> rounds;
  };
  std::array<OfRank, local::kLocalRanksMax> ranks;
  // The ranks that nobody waits for, because they have joined or leave. Each rank adds and removes
  // itself.
  alignas(64) std::atomic<uint64_t> excused;
  // Not 0 while the carrier keeps an error for ranks that begin the round later. Only the carrier
  // writes.
  std::atomic<uint32_t> keeps_errors;
};

class BegunSigns {
 public:
  BegunSigns(SignWords& words, uint32_t rank) : words_(words), rank_(rank) {}

  // Shows that this rank has begun a round of these ranks. REQUIRES: the carrier can hear this
  // rank's word for the round. True: this rank must wake the carrier, because all others may have
  // begun the round, too, or because the carrier may have an answer already.
  bool Begin(const RoundKey& key, RankSet ranks);
  // Shows that the round has ended for this rank.
  void End(const RoundKey& key);
  // Shows that nobody waits for this rank. Must be called before the rank tells the carrier.
  void Excuse() { words_.excused.fetch_or(local::Bit(rank_)); }
  void TakePartAgain() { words_.excused.fetch_and(~local::Bit(rank_)); }
  // Shows whether the carrier keeps errors. Must be called by the carrier, before it tells ranks of
  // the error.
  void KeepErrors(bool keeps) { words_.keeps_errors.store(keeps ? 1 : 0); }

 private:
  SignWords& words_;
  const uint32_t rank_;
  std::array<uint32_t, kSigns> open_{};  // the number of rounds that each word stands for
};

}  // namespace byteps::machine
