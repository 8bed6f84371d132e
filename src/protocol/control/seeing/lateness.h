// Who comes late to operations, and by how much.
//
// All ranks come to the end of an operation at about the same time. So a rank that took less time
// for it than another one has begun it later, by the difference; no clocks are compared. One round
// says little (a rank may be late once), so what counts is the mean of the latest rounds.
//
// A value without I/O.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/base/types.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class Lateness {
 public:
  struct Late {
    double mean_ms = 0;  // behind the first, over the latest rounds
    double last_ms = 0;
    TensorId tensor = UINT32_MAX;  // to which it came last most recently, by this much
    double tensor_ms = 0;
    uint64_t rounds = 0;  // that were compared
  };
  // Later rounds count more: so many rounds ago, half.
  static constexpr double kWeight = 0.3;
  // Rounds of which not all ranks have told yet; the oldest make room.
  static constexpr size_t kOpenMax = 4096;

  // `ranks`: how many will tell of each round of all ranks.
  void Take(uint32_t rank, const std::vector<wire::Took>& took, size_t ranks);
  void Forget(uint32_t rank) { late_.erase(rank); }
  // Rounds count from 1 again: those that are still open have other numbers now. What is known of
  // the ranks stays.
  void BeginGeneration();

  const std::map<uint32_t, Late>& by_rank() const { return late_; }

 private:
  using Key = std::pair<TensorId, uint64_t>;
  void Compare(const Key& key, const std::vector<std::pair<uint32_t, uint32_t>>& took);

  std::map<Key, std::vector<std::pair<uint32_t, uint32_t>>> open_;  // rank, us
  std::vector<Key> order_;                                          // of `open_`, oldest first
  size_t first_ = 0;                                                // in `order_`
  std::map<uint32_t, Late> late_;
};

}  // namespace byteps::protocol
