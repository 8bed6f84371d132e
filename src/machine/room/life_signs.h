// Signs of life between the ranks of a machine, in memory that they share. Each rank counts up a
// word of its own while its thread runs. A rank whose word stands still for long is frozen; the
// others give it up, because nobody can go on without it.
//
// Time counts only while the rank that looks runs itself, so a rank that was frozen does not give
// up others for that. Belongs to one thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "src/local/window.h"

namespace byteps::machine {

// The reason why a rank was lost.
enum class LossCause : uint8_t { kNone, kEnded, kSilent, kFailed };

// The contents of the shared memory, which is all zero at first.
struct LifeSignWords {
  struct alignas(64) OfRank {
    std::atomic<uint64_t> beats;  // only this rank writes
  };
  // The rank that was lost first, because other ranks may end as a consequence; the upper half has
  // the cause. The rank that sees the loss first writes.
  alignas(64) std::atomic<uint64_t> first_loss;
  std::array<OfRank, local::kLocalRanksMax> ranks;
  std::atomic<uint64_t> meeting;  // SharedRoom::MeetingNumber
};

class LifeSigns {
 public:
  // Serves `rank` of `ranks` ranks. Gives up a rank after `looks_max` looks at which it stood
  // still.
  LifeSigns(LifeSignWords& words, uint32_t rank, uint32_t ranks, uint32_t looks_max)
      : words_(words), rank_(rank), looks_max_(looks_max), seen_(ranks) {}

  // Gives a sign of life, and looks for the signs of the others; the ranks in `without` need none.
  // Returns the ranks that have given no sign for too long.
  local::RankSet Beat(local::RankSet without);

  // Notes that a rank was lost. Only the first loss is kept. May be called from any thread.
  void NoteLoss(uint32_t rank, LossCause cause);
  struct Loss {
    uint32_t rank = 0;
    LossCause cause = LossCause::kNone;
  };
  Loss first_loss() const;

 private:
  struct Seen {
    uint64_t beats = 0;
    uint32_t still = 0;  // looks since it changed
  };
  LifeSignWords& words_;
  const uint32_t rank_;
  const uint32_t looks_max_;
  std::vector<Seen> seen_;  // by rank
};

}  // namespace byteps::machine
