#include "src/protocol/control/members/roster.h"

#include <algorithm>
#include <set>

namespace byteps::protocol {

Member& Roster::Add(ConnectionId connection, const wire::Join& join) {
  Member& member = members_[connection];
  member.connection = connection;
  member.join = join;
  if (join.rank >= 0) member.index = static_cast<uint32_t>(join.rank);
  connection_of_[join.incarnation] = connection;
  latest_of_[join.incarnation] = connection;
  return member;
}

void Roster::Remove(ConnectionId connection) {
  auto found = members_.find(connection);
  if (found == members_.end()) return;
  connection_of_.erase(found->second.incarnation());
  members_.erase(found);
}

bool Roster::IsOld(ConnectionId connection, uint64_t incarnation) const {
  auto found = latest_of_.find(incarnation);
  return found != latest_of_.end() && connection < found->second;
}

Member* Roster::At(ConnectionId connection) {
  auto found = members_.find(connection);
  return found == members_.end() ? nullptr : &found->second;
}

const Member* Roster::Find(uint64_t incarnation) const {
  auto found = connection_of_.find(incarnation);
  return found == connection_of_.end() ? nullptr : &members_.at(found->second);
}

Member* Roster::Find(uint64_t incarnation) {
  auto found = connection_of_.find(incarnation);
  return found == connection_of_.end() ? nullptr : &members_.at(found->second);
}

uint32_t Roster::Count(Role role, bool in_view_only) const {
  return static_cast<uint32_t>(std::count_if(members_.begin(), members_.end(), [&](auto& entry) {
    const Member& member = entry.second;
    return member.role() == role && member.presence != Presence::kLeft &&
           (!in_view_only || member.presence == Presence::kIn);
  }));
}

bool Roster::AnyWaits(Role role) const {
  return std::any_of(members_.begin(), members_.end(), [&](const auto& entry) {
    return entry.second.role() == role && entry.second.presence == Presence::kWaiting;
  });
}

void Roster::GiveIndices() {
  for (Role role : {Role::kWorker, Role::kServer}) {
    std::set<uint32_t> taken;
    auto counts = [&](const Member& member) {
      return member.role() == role && member.presence != Presence::kLeft;
    };
    for (auto& [id, member] : members_) {
      if (counts(member)) taken.insert(member.index);
    }
    uint32_t next = 0;
    for (auto& [id, member] : members_) {
      if (!counts(member) || member.index != kNoSlot) continue;
      while (taken.contains(next)) ++next;
      member.index = next++;
    }
  }
}

void Roster::TakeBackIndices(bool servers_too) {
  for (auto& [id, member] : members_) {
    if (member.presence != Presence::kWaiting || member.join.rank >= 0) continue;
    if (member.role() != Role::kServer || servers_too) member.index = kNoSlot;
  }
}

const wire::Join* JoinOfAWorker(const Roster& roster) {
  for (const auto& [id, member] : roster.all()) {
    bool counts = member.role() == Role::kWorker && member.presence != Presence::kLeft;
    if (counts) return &member.join;
  }
  return nullptr;
}

const char* WordFor(Role role) {
  switch (role) {
    case Role::kWorker: return "worker";
    case Role::kServer: return "server";
    case Role::kCoordinator: return "coordinator";
  }
  return "member";
}

std::string NameOf(const Member& member) {
  std::string text = WordFor(member.role());
  if (member.index != kNoSlot) text += " " + std::to_string(member.index);
  text += " (process " + std::to_string(member.join.process);
  if (!member.join.node.empty()) text += " on " + member.join.node;
  return text + ")";
}

}  // namespace byteps::protocol
