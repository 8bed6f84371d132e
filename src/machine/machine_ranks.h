// Which ranks of the job the ranks of a machine are. They need not follow one another; who has a
// lower number on the machine has a lower rank of the job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/machine/words.h"
#include "src/wire/control.h"

namespace byteps::machine {

// A value. Knows nothing before the first view.
class MachineRanks {
 public:
  // A view's workers of one slot, which are those of the machine. Who is in it no more keeps its
  // rank.
  void Take(const std::vector<wire::WorkerInfo>& workers, Slot slot);

  // Numbers on the machine, which those of `RankSet` are.
  std::optional<uint32_t> NumberOf(uint32_t rank) const;
  // The rank of the job; kNoRank before a view has said it.
  uint32_t RankOf(uint32_t number) const;
  // "worker 5", or before a view has said it "the worker with local rank 1".
  std::string NameOf(uint32_t number) const;
  // "4, 6": ranks of the job.
  std::string NamesOf(RankSet numbers) const;

 private:
  std::vector<uint32_t> ranks_;  // by number
};

}  // namespace byteps::machine
