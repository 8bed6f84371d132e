#include "src/protocol/control/members/quorum.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace byteps::protocol {
namespace {

struct Votes {
  size_t all = 0;
  size_t given = 0;
  bool lowest = false;
};

struct Place {
  uint64_t number = 0;  // the slot of a contributor; servers come after all slots
  Voter member;
};

bool IsMember(const wire::View& view, const wire::WorkerInfo& worker) {
  if (!worker.left) return true;
  bool others_stay = false;
  for (const wire::WorkerInfo& one : view.workers) {
    if (one.slot != worker.slot) continue;
    if (one.rank < worker.rank) return false;  // it is not the carrier
    others_stay = others_stay || !one.left;
  }
  return others_stay;
}

std::vector<Place> PlacesOf(const wire::View& view) {
  std::vector<Place> places;
  places.reserve(view.workers.size() + view.servers.size());
  for (const wire::WorkerInfo& one : view.workers) {
    if (!IsMember(view, one)) continue;
    places.push_back({one.slot, {Role::kWorker, one.rank, one.incarnation, one.process}});
  }
  for (const wire::ServerInfo& one : view.servers) {
    if (!one.alive) continue;
    uint64_t number = (uint64_t{1} << 32) + one.index;
    places.push_back({number, {Role::kServer, one.index, one.incarnation, one.process}});
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::pair(a.number, a.member.index) < std::pair(b.number, b.member.index);
  });
  return places;
}

Votes CountVotes(const wire::View& view, const Incarnations& given, const Incarnations& ignored) {
  Votes votes;
  for (const Voter& voter : VotersOf(view)) {
    if (ignored.contains(voter.incarnation)) continue;
    bool gave = given.contains(voter.incarnation);
    if (votes.all == 0) votes.lowest = gave;
    ++votes.all;
    votes.given += gave ? 1 : 0;
  }
  return votes;
}

}  // namespace

std::vector<Voter> MembersOf(const wire::View& view) {
  std::vector<Place> places = PlacesOf(view);
  std::vector<Voter> members;
  members.reserve(places.size());
  for (const Place& place : places) members.push_back(place.member);
  return members;
}

std::vector<Voter> VotersOf(const wire::View& view) {
  std::vector<Voter> voters;
  std::optional<uint64_t> last;
  for (const Place& place : PlacesOf(view)) {
    if (std::exchange(last, place.number) != place.number) voters.push_back(place.member);
  }
  return voters;
}

bool IsIn(const wire::View& view, uint64_t incarnation) {
  auto is = [&](const auto& one) { return one.incarnation == incarnation; };
  return std::any_of(view.workers.begin(), view.workers.end(),
                     [&](const auto& worker) { return is(worker) && IsMember(view, worker); }) ||
         std::any_of(view.servers.begin(), view.servers.end(),
                     [&](const auto& server) { return is(server) && server.alive; });
}

Incarnations ContributorOf(const wire::View& view, uint64_t incarnation) {
  Incarnations processes = {incarnation};
  auto found = std::find_if(view.workers.begin(), view.workers.end(), [&](const auto& one) {
    return one.incarnation == incarnation && IsMember(view, one);
  });
  if (found == view.workers.end()) return processes;
  for (const wire::WorkerInfo& one : view.workers) {
    bool same = one.slot == found->slot && IsMember(view, one);
    if (same) processes.insert(one.incarnation);
  }
  return processes;
}

bool HasLeft(const wire::View& view, uint64_t incarnation) {
  return std::any_of(view.workers.begin(), view.workers.end(), [&](const auto& worker) {
    return worker.incarnation == incarnation && worker.left;
  });
}

bool IsWriteQuorum(const wire::View& view, const Incarnations& promised, const Incarnations& dead) {
  Votes votes = CountVotes(view, promised, dead);
  if (votes.all == 0) return false;
  return 2 * votes.given > votes.all || (2 * votes.given == votes.all && votes.lowest);
}

bool IsReadQuorum(const wire::View& view, const Incarnations& reported) {
  return IsWriteQuorum(view, reported, {});
}

std::string NameOf(const Voter& voter) {
  return std::string(voter.role == Role::kWorker ? "worker " : "server ") +
         std::to_string(voter.index) + " (process " + std::to_string(voter.process) + ")";
}

}  // namespace byteps::protocol
