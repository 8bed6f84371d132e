#include "src/protocol/control/changes/state.h"

namespace byteps::protocol {

void SendAnswers(const CoordinatorState& state, const SyncPoints::Answers& answers) {
  for (const auto& [to, go_on] : answers) {
    const Member* member = state.members.roster.Find(to);
    if (member != nullptr) state.around.driver.Send(member->connection, go_on);
  }
}

}  // namespace byteps::protocol
