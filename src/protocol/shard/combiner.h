// Contributions to verdict: the arithmetic of a decided round.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/shard/members.h"
#include "src/protocol/shard/round.h"

namespace byteps::protocol {

// One thread at a time; steady state allocates nothing.
class Combiner {
 public:
  // Both outlive it.
  Combiner(Arithmetic& arithmetic, const Members& members)
      : arithmetic_(arithmetic), members_(members) {}

  // The verdict's bytes. Contributions are combined in slot order, whatever the order of arrival:
  // same inputs, same bits. `divisor`: of an average. The buffer is one of the round's own.
  // REQUIRES: a contribution has arrived.
  BufferRef Combine(const Round& round, uint32_t divisor);

 private:
  BufferRef LastOf(const Round& round) const;

  Arithmetic& arithmetic_;
  const Members& members_;
  std::vector<const std::byte*> inputs_;  // scratch
};

}  // namespace byteps::protocol
