// The calls that a coordinator makes to the process that drives it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/protocol/control/members/roster.h"
#include "src/wire/control.h"

namespace byteps::protocol {

// The driver of a coordinator. No call comes back into the coordinator.
class CoordinatorDriver {
 public:
  virtual ~CoordinatorDriver() = default;
  virtual void Send(ConnectionId to, const wire::Message& message) = 0;
  // Closes the connection after everything that was sent is out. OnLost for this connection may
  // follow or not.
  virtual void Disconnect(ConnectionId id) = 0;
  // Shows people a line, for example which members are missing or lost.
  virtual void Report(const std::string& text) = 0;
  // Shows a line to people who ask for more than news.
  virtual void Inform(const std::string& text) { (void)text; }
  // Says which members are missing, again and again while the job gathers. Begun says that the job
  // has begun.
  virtual void Waiting(const std::string& who) { Report("waiting: " + who); }
  virtual void Begun() {}
  // The job is over. Comes once, after all members have been told.
  virtual void Finish(const Status& how) = 0;
};

// A process that a launcher has started and seen end.
struct EndedProcess {
  std::string host;
  uint32_t process = 0;
  std::optional<uint32_t> rank;  // the rank of a worker; nobody starts it again
};

}  // namespace byteps::protocol
