// The view in force, as one shard sees it: the shard's own number, and which pieces it owns since
// when.
#pragma once

#include <cstdint>
#include <optional>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/plan/follows_ranks.h"
#include "src/plan/ownership.h"
#include "src/protocol/shard/state/shard_rules.h"
#include "src/wire/data.h"
#include "src/wire/view.h"

namespace byteps::protocol {

// One thread at a time.
class ShardView {
 public:
  // `rules` must outlive this object.
  explicit ShardView(const ShardRules& rules) : rules_(rules) {}

  // Takes the view. Returns true if it begins a generation.
  bool Set(const wire::View& view, ShardId self);

  uint64_t epoch() const { return epoch_; }  // 0: there is no view yet
  uint32_t generation() const { return generation_; }
  uint64_t began() const { return ownership_.began(); }
  ShardId self() const { return self_; }

  const plan::SumRules& sum_rules() const { return sum_rules_; }
  // Returns the reason against sums that depend on more than ranks alone. Ok: the job allows them,
  // or no sum of this generation does.
  const Status& sums() const { return sums_; }

  bool IsShard(ShardId home) const { return home < ownership_.shards().size(); }
  // Returns since when this shard owns the piece, if a report of `epoch` about the piece counts
  // here. REQUIRES: IsShard(home).
  std::optional<uint64_t> Counts(const wire::PieceRef& ref, ShardId home, uint64_t epoch) const;
  // Returns whether the knowledge that this shard had of the piece in the view `old_epoch` still
  // counts. REQUIRES: IsShard(home).
  bool Stays(TensorId tensor, uint32_t piece, ShardId home, uint64_t old_epoch) const;
  // Returns whether no other shard has owned, in this generation, a piece that this shard owns
  // since `since`.
  bool AlwaysMine(uint64_t since) const { return since == ownership_.began(); }

 private:
  const ShardRules& rules_;
  uint64_t epoch_ = 0;
  uint32_t generation_ = 0;
  ShardId self_ = 0;
  plan::Ownership ownership_;
  plan::SumRules sum_rules_;
  Status sums_;
};

}  // namespace byteps::protocol
