// What the view in force says to one shard: its own number, and which pieces are its own since
// when.
#pragma once

#include <cstdint>
#include <optional>

#include "src/base/types.h"
#include "src/plan/ownership.h"
#include "src/protocol/shard/state/shard_rules.h"
#include "src/wire/control.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// One thread at a time.
class ShardView {
 public:
  // `rules` outlives it.
  explicit ShardView(const ShardRules& rules) : rules_(rules) {}

  // True when this view begins a generation.
  bool Set(const wire::View& view, ShardId self);

  uint64_t epoch() const { return epoch_; }  // 0: there is none yet
  uint32_t generation() const { return generation_; }
  uint64_t began() const { return ownership_.began(); }
  ShardId self() const { return self_; }

  bool IsShard(ShardId home) const { return home < ownership_.shards().size(); }
  // Since when this shard owns the piece, if what was said of it in `epoch` counts here.
  // REQUIRES: IsShard(home).
  std::optional<uint64_t> Counts(const wire::PieceRef& ref, ShardId home, uint64_t epoch) const;
  // What this shard knew of the piece in the view `old_epoch` is still worth something.
  // REQUIRES: IsShard(home).
  bool Stays(TensorId tensor, uint32_t piece, ShardId home, uint64_t old_epoch) const;
  // Nobody else has owned, in this generation, what this shard owns since then.
  bool AlwaysMine(uint64_t since) const { return since == ownership_.began(); }

 private:
  const ShardRules& rules_;
  uint64_t epoch_ = 0;
  uint32_t generation_ = 0;
  ShardId self_ = 0;
  plan::Ownership ownership_;
};

}  // namespace byteps::protocol
