// Combines the contributions of a decided round into a verdict, with arithmetic, decoding and
// encoding.
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
  // All of them must outlive this object.
  Combiner(BufferPool& pool, Arithmetic& arithmetic, const Codecs& codecs, const Members& members)
      : pool_(pool), arithmetic_(arithmetic), codecs_(codecs), members_(members) {}

  // The bytes of a verdict, in the form in which they travel.
  struct Combined {
    BufferRef buffer;
    uint32_t bytes = 0;
  };
  // Combines the contributions in slot order, whatever the order of arrival, so the same inputs
  // give the same bits. `divisor`: the divisor of an average. With a codec the contributions are
  // decoded, and the result is encoded once; an error says that one contribution could not be
  // decoded. Without a codec the buffer is one of the round's own. REQUIRES: a contribution has
  // arrived, and none lacks; the round's codec is among `codecs`.
  Result<Combined> Combine(const Round& round, uint32_t divisor);

 private:
  Status Collect(const Round& round);
  static const BufferRef* FirstOf(const Round& round);
  Combined LastOf(const Round& round) const;

  BufferPool& pool_;
  Arithmetic& arithmetic_;
  const Codecs& codecs_;
  const Members& members_;
  std::vector<const std::byte*> inputs_;  // scratch, like `decoded_`
  std::vector<BufferRef> decoded_;
};

}  // namespace byteps::protocol
