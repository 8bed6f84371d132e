// Signs of life between the ranks of a machine, in memory that they share: each rank counts up a
// word of its own while its thread runs. A rank whose word stands still for long is frozen; it is
// given up, for nobody goes on without it.
//
// Time counts only while the rank that looks runs itself: one that was frozen gives up nobody for
// that. Belongs to one thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "src/local/window.h"

namespace byteps::machine {

// Why a rank was lost.
enum class LossCause : uint8_t { kNone, kEnded, kSilent, kFailed };

// What stands in the memory, which is all zero at first.
struct PulseWords {
  struct alignas(64) OfRank {
    std::atomic<uint64_t> beats;  // it alone writes
  };
  // The rank that was lost first: others may end because of that. The rank, and the cause in the
  // upper half; whoever sees it first writes.
  alignas(64) std::atomic<uint64_t> first_loss;
  std::array<OfRank, local::kLocalRanksMax> ranks;
  std::atomic<uint64_t> meeting;  // SharedRoom::MeetingNumber
};

class Pulse {
 public:
  // Of `rank` of so many. A rank is given up after so many looks at which it stood still.
  Pulse(PulseWords& words, uint32_t rank, uint32_t ranks, uint32_t looks_max)
      : words_(words), rank_(rank), looks_max_(looks_max), seen_(ranks) {}

  // Gives a sign of life, and looks for those of the others, of which those in `without` need none.
  // Returns those of which there was none for too long.
  local::RankSet Beat(local::RankSet without);

  // A rank was lost. Of several only the first is kept. Any thread.
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
  PulseWords& words_;
  const uint32_t rank_;
  const uint32_t looks_max_;
  std::vector<Seen> seen_;  // by rank
};

}  // namespace byteps::machine
