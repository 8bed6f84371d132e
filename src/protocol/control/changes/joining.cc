#include "src/protocol/control/changes/joining.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/protocol/control/changes/join_check.h"

namespace byteps::protocol {
namespace {

void Accept(CoordinatorState& state, ConnectionId from, const wire::Join& join) {
  bool worker = join.role == Role::kWorker;
  if (worker) state.gathering.OnWorker(join);
  std::optional<uint32_t> index;
  if (!worker && state.views.in_force().epoch > 0) {
    const wire::ServerInfo place = *PlaceFor(state, join);
    index = place.index;
    bool dead = IsSuccessor(join, place);
    if (place.alive) {
      state.losses.Lose(place.incarnation, "another process has taken its place", dead);
    }
  }
  Member& member = state.members.roster.Add(from, join);
  if (index.has_value()) member.index = *index;
  state.losses.Watch();
}

void Refuse(const CoordinatorState& state, ConnectionId id, const std::string& text) {
  state.around.driver.Send(
      id, wire::Refused{StatusCode::kRefused, "the job refused this process: " + text});
  state.around.driver.Disconnect(id);
}

}  // namespace

void OnJoin(CoordinatorState& state, ConnectionId from, const wire::Join& join) {
  Member* here = state.members.roster.At(from);
  if (here != nullptr && here->presence != Presence::kLeft) {
    return Refuse(state, from, "it has joined already");
  }
  // The earlier connection of the process is not closed yet.
  const Member* earlier = state.members.roster.Find(join.incarnation);
  if (earlier != nullptr) {
    ConnectionId old = earlier->connection;
    state.members.roster.Remove(old);
    if (old != from) state.around.driver.Disconnect(old);
  }
  state.members.roster.Remove(from);
  if (state.views.IsRecovering()) {  // it is judged when the view in force is known again
    state.members.roster.Add(from, join);
    return state.around.driver.Send(from, wire::Query{state.views.term()});
  }
  if (IsIn(state.views.in_force(), join.incarnation)) {  // it was let in and never heard so
    Member& member = state.members.roster.Add(from, join);
    state.members.suspicions.Back(join.incarnation, state.around.clock.now());
    state.notices.Settle(member);
    return state.names.TakeKnown(join.incarnation, state.views.in_force());  // it knows nothing
  }
  std::optional<std::string> reason = ReasonAgainst(state, join);
  if (!reason.has_value()) return Accept(state, from, join);
  std::string who = WordFor(join.role);
  if (join.rank >= 0) who += " " + std::to_string(join.rank);
  std::string process = " (process " + std::to_string(join.process) + " on " + join.node + ")";
  state.gathering.NoteRefusal({who + process, who + " on " + join.node, *reason, true});
  Refuse(state, from, *reason);
}

void JudgeAllWhoWait(CoordinatorState& state) {
  std::vector<std::pair<ConnectionId, wire::Join>> waiting;
  for (const auto& [id, member] : state.members.roster.all()) {
    if (member.presence == Presence::kWaiting) waiting.emplace_back(id, member.join);
  }
  for (const auto& [id, join] : waiting) state.members.roster.Remove(id);
  for (const auto& [id, join] : waiting) OnJoin(state, id, join);
}

}  // namespace byteps::protocol
