#include "src/machine/room/life_signs.h"

namespace byteps::machine {

local::RankSet LifeSigns::Beat(local::RankSet without) {
  words_.ranks[rank_].beats.fetch_add(1);
  local::RankSet gone = 0;
  for (uint32_t rank = 0; rank < seen_.size(); ++rank) {
    if (rank == rank_ || local::Has(without, rank)) continue;
    Seen& seen = seen_[rank];
    uint64_t beats = words_.ranks[rank].beats.load();
    bool moves = beats != seen.beats;
    seen.beats = beats;
    seen.still = moves ? 0 : seen.still + 1;
    if (seen.still >= looks_max_) gone |= local::Bit(rank);
  }
  return gone;
}

void LifeSigns::NoteLoss(uint32_t rank, LossCause cause) {
  uint64_t none = 0;
  words_.first_loss.compare_exchange_strong(none, static_cast<uint64_t>(cause) << 32 | rank);
}

LifeSigns::Loss LifeSigns::first_loss() const {
  uint64_t word = words_.first_loss.load();
  return {static_cast<uint32_t>(word), static_cast<LossCause>(word >> 32)};
}

}  // namespace byteps::machine
