// Hears about the rounds of a shard, for timelines. The shard decides nothing by it.
#pragma once

#include <cstdint>

#include "src/base/types.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// The moments in the order in which a round that ends in a sum passes them. Other rounds end
// earlier.
enum class RoundMoment : uint8_t {
  kBegun,     // the header of its first push is here
  kComplete,  // the last contribution is whole
  kSummed,
  kAnswered,  // the transport has the answers
};

struct RoundEvent {
  RoundMoment moment = RoundMoment::kBegun;
  wire::PieceRef ref;
  Slot last = kNoSlot;  // the member whose contribution came last; not set in kBegun
  uint32_t bytes = 0;   // bytes of the piece
};

class RoundWatch {
 public:
  virtual ~RoundWatch() = default;
  // Hears an event on the shard's thread. Does not block, and does not call back into the shard.
  virtual void On(const RoundEvent& event) = 0;
};

}  // namespace byteps::protocol
