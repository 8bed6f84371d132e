#include "src/protocol/control/changes/latecomers.h"

#include <utility>

#include "src/protocol/control/members/waiting_contributors.h"

namespace byteps::protocol {

// While it gathers it says itself who is missing; and while it is asked what was decided nobody
// knows who waits.
void Latecomers::Tell() {
  if (views_.IsRecovering()) return;
  std::map<ConnectionId, std::string> before = std::exchange(told_, {});
  if (gathering_.IsOn()) return;
  for (const WaitingContributor& one : WaitingContributors(roster_)) {
    std::string text = "the job runs without this worker";
    text += one.IsWhole() || one.meets ? "; it" : ": " + LackOf(one) + "; when all are here, it";
    text += " is let in when all others call shutdown and init, or suspend and resume";
    for (const Member* member : one.processes) {
      if (views_.IsProposed(member->incarnation())) continue;  // it is let in now
      bool knows = before.contains(member->connection) && before[member->connection] == text;
      if (!knows) driver_.Send(member->connection, wire::Waiting{text});
      told_[member->connection] = text;
    }
  }
}

}  // namespace byteps::protocol
