// Contributions to verdict: the arithmetic of a decided round, and of what is encoded.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/codec.h"
#include "src/protocol/shard/state/members.h"
#include "src/protocol/shard/state/round.h"

namespace byteps::protocol {

// One thread at a time; steady state allocates nothing.
class Combiner {
 public:
  // All of them outlive it.
  Combiner(BufferPool& pool, Arithmetic& arithmetic, const Codecs& codecs, const Members& members)
      : pool_(pool), arithmetic_(arithmetic), codecs_(codecs), members_(members) {}

  // The bytes of a verdict, as they travel.
  struct Combined {
    BufferRef buffer;
    uint32_t bytes = 0;
  };
  // Contributions are combined in slot order, whatever the order of arrival: same inputs, same
  // bits. `divisor`: of an average. With a codec they are decoded, and the result is encoded once;
  // an error: one of them could not be decoded. Without one the buffer is one of the round's own.
  // REQUIRES: a contribution has arrived, and none lacks; the round's codec is among `codecs`.
  Result<Combined> Combine(const Round& round, uint32_t divisor);

 private:
  Status Collect(const Round& round);
  static const BufferRef* FirstOf(const Round& round);
  Combined LastOf(const Round& round) const;

  BufferPool& pool_;
  Arithmetic& arithmetic_;
  const Codecs& codecs_;
  const Members& members_;
  std::vector<const std::byte*> inputs_;  // scratch, as the next one
  std::vector<BufferRef> decoded_;
};

}  // namespace byteps::protocol
