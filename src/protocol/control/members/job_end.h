// Whether the job is over, and how it ended. Everybody who is connected is told once.
// One thread; no I/O: what is to be sent goes through the driver.
#pragma once

#include <string>

#include "src/base/status.h"
#include "src/protocol/control/members/coordinator_driver.h"
#include "src/protocol/control/members/roster.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class JobEnd {
 public:
  JobEnd(CoordinatorDriver& driver, const Roster& roster) : driver_(driver), roster_(roster) {}

  bool IsOver() const { return over_; }
  // For who comes later. REQUIRES: IsOver().
  const wire::JobOver& message() const { return message_; }

  // With an error; only the first end counts.
  void End(const Status& why);
  // As it should; `text` says why now.
  void EndInOrder(const std::string& text);

 private:
  void Tell(const Status& how, wire::JobOver message);

  CoordinatorDriver& driver_;
  const Roster& roster_;
  bool over_ = false;
  wire::JobOver message_;
};

}  // namespace byteps::protocol
