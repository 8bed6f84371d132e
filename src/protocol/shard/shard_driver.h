// The calls of a shard to its driver: the runtime with sockets, the simulator with a virtual
// network, or a test with a list.
#pragma once

#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/types.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// The shard calls these methods on its thread. No call comes back into the shard, and none blocks.
class ShardDriver {
 public:
  virtual ~ShardDriver() = default;
  // Sends a verdict; `payload` lives as long as `keep`.
  virtual void SendAnswer(Slot to, const wire::DataHeader& header, ConstByteSpan payload,
                          BufferRef keep) = 0;
  // Names pieces that the shard waits for. They pass the receiver's credit.
  virtual void SendWant(Slot to, const std::vector<wire::PieceRef>& pieces) = 0;
  // Tells `to` that every member has the verdicts of all its answers up to this number.
  virtual void SendStable(Slot to, const wire::Progress& stable) = 0;
};

}  // namespace byteps::protocol
