// What a front asks of its driver. The runtime and the simulator implement it.
#pragma once

#include <cstdint>

#include "src/protocol/worker/exchange/mail.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/wire/control.h"

namespace byteps::protocol {

// Called on the front's thread. Nothing blocks, and no call comes back into the front, except that
// Complete may be followed by Submit from the same thread later.
class FrontDriver {
 public:
  virtual ~FrontDriver() = default;
  virtual void SendControl(const wire::Message& message) = 0;
  // To each lane in the order of the calls.
  virtual void ToLane(uint32_t lane, LaneMail mail) = 0;
  // The operation has ended: nothing touches its memory any more. Exactly once for each.
  virtual void Complete(OperationId id, Outcome outcome) = 0;
  // See Front::Settle.
  virtual void OnSettled() = 0;
};

}  // namespace byteps::protocol
