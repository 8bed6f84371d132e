// The end of the job: is the job over, and how did it end? Tells each connected member once.
//
// One thread; no I/O: the driver sends.
#pragma once

#include <string>

#include "src/base/status.h"
#include "src/protocol/control/members/coordinator_driver.h"
#include "src/protocol/control/members/roster.h"
#include "src/wire/membership.h"

namespace byteps::protocol {

class JobEnd {
 public:
  JobEnd(CoordinatorDriver& driver, const Roster& roster) : driver_(driver), roster_(roster) {}

  bool IsOver() const { return over_; }
  // The message for a process that comes later. REQUIRES: IsOver().
  const wire::JobOver& message() const { return message_; }

  // Ends the job with an error. Only the first end counts.
  void End(const Status& why);
  // Ends the job in order; `text` says why now.
  void EndInOrder(const std::string& text);

 private:
  void Tell(const Status& how, wire::JobOver message);

  CoordinatorDriver& driver_;
  const Roster& roster_;
  bool over_ = false;
  wire::JobOver message_;
};

}  // namespace byteps::protocol
