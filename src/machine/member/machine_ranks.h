// The ranks that the workers of a machine have in the job, by local rank. They ascend with the
// local ranks, and need not follow one another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/machine/room/words.h"
#include "src/wire/view.h"

namespace byteps::machine {

// A value. Knows no rank before the first view.
class MachineRanks {
 public:
  // Takes the view's workers of this slot, which are the workers of the machine. A worker that is
  // not in the view any more keeps its rank.
  void Take(const std::vector<wire::WorkerInfo>& workers, Slot slot);

  // Returns the local rank; nothing for ranks of other machines.
  std::optional<uint32_t> LocalRankOf(uint32_t rank) const;
  // Returns the rank in the job; kNoRank before a view has told it.
  uint32_t RankOf(uint32_t local_rank) const;
  // Returns the places of the ranks in the tree of sums, by local rank.
  std::vector<uint32_t> Places(uint32_t sum_group) const;
  // Returns "worker 5", or before a view has told the rank "the worker with local rank 1".
  std::string NameOf(uint32_t local_rank) const;
  // Returns "4, 6": ranks of the job.
  std::string NamesOf(RankSet local_ranks) const;

 private:
  std::vector<uint32_t> ranks_;  // by local rank
};

}  // namespace byteps::machine
