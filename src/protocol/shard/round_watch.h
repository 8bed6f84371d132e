// Hears what becomes of the rounds of a shard, for timelines. The shard decides nothing by it.
#pragma once

#include <cstdint>

#include "src/base/types.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// In the order in which a round that ends in a sum passes them; others end earlier.
enum class RoundMoment : uint8_t {
  kBegun,     // the header of its first push is here
  kComplete,  // the last contribution is whole
  kSummed,
  kAnswered,  // the transport has the answers
};

struct RoundEvent {
  RoundMoment moment = RoundMoment::kBegun;
  wire::PieceRef ref;
  Slot last = kNoSlot;  // whose contribution came last; kBegun does not have it
  uint32_t bytes = 0;   // of the piece
};

class RoundWatch {
 public:
  virtual ~RoundWatch() = default;
  // On the shard's thread. Does not block, and does not come back into the shard.
  virtual void On(const RoundEvent& event) = 0;
};

}  // namespace byteps::protocol
