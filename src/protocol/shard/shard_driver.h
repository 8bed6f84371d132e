// The calls of a shard to its driver: the runtime with sockets, the simulator with a virtual
// network, or a test with a list.
#pragma once

#include "src/base/types.h"
#include "src/wire/frame.h"

namespace byteps::protocol {

// The shard calls these methods on its thread. No call comes back into the shard, and none blocks.
class ShardDriver {
 public:
  virtual ~ShardDriver() = default;
  // Sends an answer.
  virtual void SendData(Slot to, wire::DataFrame frame) = 0;
  // Sends a want or a stable frame.
  virtual void Send(Slot to, const wire::Frame& frame) = 0;
};

}  // namespace byteps::protocol
