#include "src/machine/member/machine_ranks.h"

#include <algorithm>
#include <bit>

#include "src/base/sum_place.h"

namespace byteps::machine {

void MachineRanks::Take(const std::vector<wire::WorkerInfo>& workers, Slot slot) {
  for (const wire::WorkerInfo& worker : workers) {
    if (worker.slot != slot || worker.local_rank >= local::kLocalRanksMax) continue;
    if (ranks_.size() <= worker.local_rank) ranks_.resize(worker.local_rank + 1, kNoRank);
    ranks_[worker.local_rank] = worker.rank;
  }
}

std::optional<uint32_t> MachineRanks::LocalRankOf(uint32_t rank) const {
  auto found = std::ranges::find(ranks_, rank);
  if (found == ranks_.end()) return std::nullopt;
  return static_cast<uint32_t>(found - ranks_.begin());
}

uint32_t MachineRanks::RankOf(uint32_t local_rank) const {
  return local_rank < ranks_.size() ? ranks_[local_rank] : kNoRank;
}

std::vector<uint32_t> MachineRanks::Places(uint32_t sum_group) const {
  return PlacesOf(ranks_, sum_group);
}

std::string MachineRanks::NameOf(uint32_t local_rank) const {
  const uint32_t rank = RankOf(local_rank);
  if (rank != kNoRank) return "worker " + std::to_string(rank);
  return "the worker with local rank " + std::to_string(local_rank);
}

std::string MachineRanks::NamesOf(RankSet local_ranks) const {
  std::string text;
  for (; local_ranks != 0; local_ranks &= local_ranks - 1) {
    const uint32_t rank = RankOf(static_cast<uint32_t>(std::countr_zero(local_ranks)));
    text += (text.empty() ? "" : ", ") + std::to_string(rank);
  }
  return text;
}

}  // namespace byteps::machine
