// Finds out which ranks come late to operations, and by how much.
//
// All ranks come to the end of an operation at about the same time. So a rank that took less time
// for it than another one has begun it later, by the difference. No clocks are compared. One round
// says little, because a rank may be late once, so the mean of the latest rounds counts.
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
#include "src/wire/accounts.h"

namespace byteps::protocol {

class Lateness {
 public:
  struct Late {
    double mean_ms = 0;  // behind the first rank, as a mean of the latest rounds
    double last_ms = 0;
    TensorId tensor = UINT32_MAX;  // the tensor to which it came last most recently, by tensor_ms
    double tensor_ms = 0;
    uint64_t rounds = 0;  // the number of rounds that were compared
  };
  // The weight of the latest round. A round counts half as much as the one two rounds later.
  static constexpr double kWeight = 0.3;
  // The most rounds of which not all ranks have told yet. The oldest rounds make room.
  static constexpr size_t kOpenMax = 4096;

  // `ranks`: the number of ranks that will tell of each round of all ranks.
  void Take(uint32_t rank, const std::vector<wire::Took>& took, size_t ranks);
  void Forget(uint32_t rank) { late_.erase(rank); }
  // Begins a generation. Rounds count from 1 again, so rounds that are still open have other
  // numbers now. Everything that is known of the ranks stays.
  void BeginGeneration();

  const std::map<uint32_t, Late>& by_rank() const { return late_; }

 private:
  using Key = std::pair<TensorId, uint64_t>;
  void Compare(const Key& key, const std::vector<std::pair<uint32_t, uint32_t>>& took);

  std::map<Key, std::vector<std::pair<uint32_t, uint32_t>>> open_;  // rank and microseconds
  std::vector<Key> order_;  // the keys of `open_`, the oldest first
  size_t first_ = 0;        // the first key of `order_` that counts
  std::map<uint32_t, Late> late_;
};

}  // namespace byteps::protocol
