#include "src/protocol/control/changes/latecomers.h"

#include <utility>

#include "src/protocol/control/members/waiting_contributors.h"

namespace byteps::protocol {

// While the job gathers, Gathering tells the workers which members are missing. While the
// coordinator asks what was decided, nobody knows which workers wait.
void Latecomers::Tell() {
  if (views_.IsRecovering()) return;
  std::map<ConnectionId, std::string> before = std::exchange(told_, {});
  if (gathering_.IsOn()) return;
  for (const WaitingContributor& one : WaitingContributors(roster_)) {
    std::string text = "the job runs without this worker";
    text += one.IsWhole() || one.meets ? "; it" : ": " + LackOf(one) + "; when all are here, it";
    text += " is let in when all others call shutdown and init, or suspend and resume";
    for (const Member* member : one.processes) {
      if (views_.IsProposed(member->incarnation())) continue;  // it is being let in
      bool knows = before.contains(member->connection) && before[member->connection] == text;
      if (!knows) driver_.Send(member->connection, wire::Waiting{text});
      told_[member->connection] = text;
    }
  }
}

}  // namespace byteps::protocol
