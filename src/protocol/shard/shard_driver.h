// What a shard asks of whoever drives it: the runtime with sockets, the simulator with a virtual
// network, a test with a list.
#pragma once

#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/types.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// Called on the shard's thread. No call comes back into the shard, and none blocks.
class ShardDriver {
 public:
  virtual ~ShardDriver() = default;
  // Sends a verdict; `payload` lives as long as `keep`.
  virtual void SendAnswer(Slot to, const wire::DataHeader& header, ConstByteSpan payload,
                          BufferRef keep) = 0;
  // Names pieces that are waited for; they pass the receiver's credit.
  virtual void SendWant(Slot to, const std::vector<wire::PieceRef>& pieces) = 0;
  // All answers to `to` up to this number are with every member.
  virtual void SendStable(Slot to, const wire::Progress& stable) = 0;
};

}  // namespace byteps::protocol
