// Combines the contributions of a decided round into a verdict, with arithmetic, decoding and
// encoding.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/codec.h"
#include "src/protocol/shard/state/members.h"
#include "src/protocol/shard/state/round.h"
#include "src/protocol/shard/state/shard_rules.h"

namespace byteps::protocol {

// One thread at a time; steady state allocates nothing.
class Combiner {
 public:
  // All of them must outlive this object.
  Combiner(BufferPool& pool, Arithmetic& arithmetic, const Codecs& codecs, const Members& members,
           const ShardRules& rules)
      : pool_(pool), arithmetic_(arithmetic), codecs_(codecs), members_(members), rules_(rules) {}

  // The bytes of a verdict, in the form in which they travel.
  struct Combined {
    BufferRef buffer;
    uint32_t bytes = 0;
  };
  // Combines the contributions in the tree over the places of ranks, whatever slots they have and
  // in whatever order they arrived: so the same inputs give the same bits. `divisor`: the divisor
  // of an average. With a codec the contributions are decoded, and the result is encoded once; an
  // error says that one contribution could not be decoded. Without a codec the buffer is one of the
  // round's own. REQUIRES: a contribution has arrived, and none lacks; the round's codec is among
  // `codecs`.
  Result<Combined> Combine(const Round& round, uint32_t divisor);

 private:
  void Order(const Round& round);
  Status Collect(const Round& round);
  Combined LastOf(const Round& round) const;

  BufferPool& pool_;
  Arithmetic& arithmetic_;
  const Codecs& codecs_;
  const Members& members_;
  const ShardRules& rules_;
  // Scratch, by input. Contributors have places.
  std::vector<std::pair<uint32_t, Slot>> order_;
  std::vector<uint32_t> places_;
  std::vector<const std::byte*> inputs_;
  std::vector<BufferRef> decoded_;
  kernels::SumTree tree_;
};

}  // namespace byteps::protocol
