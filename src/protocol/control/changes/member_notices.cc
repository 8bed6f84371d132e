#include "src/protocol/control/changes/member_notices.h"

#include <vector>

namespace byteps::protocol {

void MemberNotices::SettleAll() {
  for (const auto& [who, why] : departures_.lost()) {
    if (!IsIn(views_.in_force(), who)) why_[who] = why;
  }
  std::vector<ConnectionId> connections;
  for (const auto& [id, member] : roster_.all()) connections.push_back(id);
  for (ConnectionId id : connections) Settle(*roster_.At(id));
}

void MemberNotices::Settle(Member& member) {
  uint64_t incarnation = member.incarnation();
  const wire::View& view = views_.in_force();
  bool leaves = departures_.IsLeaving(incarnation);
  if (IsIn(view, incarnation)) {
    if (member.presence == Presence::kLeft) {  // it left while it was let in
      departures_.Leave(incarnation);
    } else {
      member.presence = Presence::kIn;
    }
    TakePlace(member);
    return driver_.Send(member.connection, wire::Commit{views_.term(), view});
  }
  bool waits = member.presence == Presence::kWaiting;
  if (waits || (member.presence == Presence::kLeft && !leaves)) return;
  if (!HasLeft(view, incarnation) && !leaves) return TellOut(member);
  TakePlace(member);
  member.presence = Presence::kLeft;
  driver_.Send(member.connection, wire::Leave{});  // the member may close now
}

void MemberNotices::TellOut(const Member& member) {
  ConnectionId id = member.connection;
  auto why = why_.find(member.incarnation());
  if (why != why_.end() && member.join.contributor_size > 1) {
    driver_.Send(id, wire::JobOver{StatusCode::kEvicted,
                                   "the others went on without this process: " + why->second +
                                       "; the processes of a contributor come and go together"});
  }
  driver_.Send(id, wire::Commit{views_.term(), views_.in_force()});
  driver_.Disconnect(id);
  roster_.Remove(id);
}

void MemberNotices::TakePlace(Member& member) const {
  for (const wire::WorkerInfo& one : views_.in_force().workers) {
    if (one.incarnation == member.incarnation()) member.index = one.rank;
  }
  for (const wire::ServerInfo& one : views_.in_force().servers) {
    if (one.incarnation == member.incarnation()) member.index = one.index;
  }
}

}  // namespace byteps::protocol
