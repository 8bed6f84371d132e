// Which ranks of the job the workers of a machine have, by local rank. They go up with the local
// ranks, and need not follow one another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/machine/room/words.h"
#include "src/wire/control.h"

namespace byteps::machine {

// A value. Knows nothing before the first view.
class MachineRanks {
 public:
  // A view's workers of one slot, which are those of the machine. Who is in it no more keeps its
  // rank.
  void Take(const std::vector<wire::WorkerInfo>& workers, Slot slot);

  // The local rank; none for ranks of other machines.
  std::optional<uint32_t> LocalRankOf(uint32_t rank) const;
  // The rank of the job; kNoRank before a view has said it.
  uint32_t RankOf(uint32_t local_rank) const;
  // "worker 5", or before a view has said it "the worker with local rank 1".
  std::string NameOf(uint32_t local_rank) const;
  // "4, 6": ranks of the job.
  std::string NamesOf(RankSet local_ranks) const;

 private:
  std::vector<uint32_t> ranks_;  // by local rank
};

}  // namespace byteps::machine
