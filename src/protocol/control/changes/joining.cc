#include "src/protocol/control/changes/joining.h"

#include <optional>
#include <utility>
#include <vector>

namespace byteps::protocol {

Joining::Joining(const Parts& parts)
    : parts_(parts),
      check_(parts.options, parts.roster, parts.views.in_force(), parts.departures,
             parts.suspicions) {}

void Joining::OnJoin(ConnectionId from, const wire::Join& join) {
  Member* here = parts_.roster.At(from);
  if (here != nullptr && here->presence != Presence::kLeft) {
    return Refuse(from, "it has joined already");
  }
  // Its earlier connection is not closed yet.
  const Member* earlier = parts_.roster.Find(join.incarnation);
  if (earlier != nullptr) {
    ConnectionId old = earlier->connection;
    parts_.roster.Remove(old);
    if (old != from) parts_.driver.Disconnect(old);
  }
  parts_.roster.Remove(from);
  if (parts_.views.IsRecovering()) {  // judged when it is known what there is to join
    parts_.roster.Add(from, join);
    return parts_.driver.Send(from, wire::Query{parts_.views.term()});
  }
  if (IsIn(parts_.views.in_force(), join.incarnation)) {  // it was let in and never heard of it
    Member& member = parts_.roster.Add(from, join);
    parts_.suspicions.Back(join.incarnation, parts_.clock.now());
    parts_.notices.Settle(member);
    return parts_.names.TakeKnown(join.incarnation, parts_.views.in_force());  // nothing
  }
  std::optional<std::string> reason =
      check_.ReasonAgainst(join, parts_.gathering.worker_count(), !parts_.gathering.IsOn());
  if (!reason.has_value()) return Accept(from, join);
  std::string who = WordFor(join.role);
  if (join.rank >= 0) who += " " + std::to_string(join.rank);
  std::string process = " (process " + std::to_string(join.process) + " on " + join.node + ")";
  parts_.gathering.NoteRefusal({who + process, who + " on " + join.node, *reason, true});
  Refuse(from, *reason);
}

void Joining::Accept(ConnectionId from, const wire::Join& join) {
  bool worker = join.role == Role::kWorker;
  if (worker) parts_.gathering.OnWorker(join);
  std::optional<uint32_t> index;
  if (!worker && parts_.views.in_force().epoch > 0) {
    const wire::ServerInfo place = *check_.PlaceFor(join);
    index = place.index;
    bool dead = JoinCheck::IsSuccessor(join, place);
    if (place.alive) {
      parts_.losses.Lose(place.incarnation, "another process has taken its place", dead);
    }
  }
  Member& member = parts_.roster.Add(from, join);
  if (index.has_value()) member.index = *index;
  parts_.losses.Watch();
}

void Joining::Refuse(ConnectionId id, const std::string& text) {
  parts_.driver.Send(id,
                     wire::Refused{StatusCode::kRefused, "the job refused this process: " + text});
  parts_.driver.Disconnect(id);
}

void Joining::JudgeAllWhoWait() {
  std::vector<std::pair<ConnectionId, wire::Join>> waiting;
  for (const auto& [id, member] : parts_.roster.all()) {
    if (member.presence == Presence::kWaiting) waiting.emplace_back(id, member.join);
  }
  for (const auto& [id, join] : waiting) parts_.roster.Remove(id);
  for (const auto& [id, join] : waiting) OnJoin(id, join);
}

}  // namespace byteps::protocol
