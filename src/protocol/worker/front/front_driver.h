// The calls of a front to its driver. The runtime and the simulator implement them.
#pragma once

#include <cstdint>

#include "src/protocol/worker/exchange/mail.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/wire/control.h"

namespace byteps::protocol {

// The front calls these methods on its thread. No method blocks or calls back into the front. After
// Complete the same thread may call Submit later.
class FrontDriver {
 public:
  virtual ~FrontDriver() = default;
  virtual void SendControl(const wire::Message& message) = 0;
  // Delivers the mail to the lane. A lane gets its mail in the order of the calls.
  virtual void ToLane(uint32_t lane, LaneMail mail) = 0;
  // The operation has ended: nothing touches its memory any more. The front calls this exactly once
  // for each operation.
  virtual void Complete(OperationId id, Outcome outcome) = 0;
  // See Front::Settle.
  virtual void OnSettled() = 0;
};

}  // namespace byteps::protocol
