#include "src/protocol/control/quorum.h"

#include <algorithm>
#include <utility>

namespace byteps::protocol {
namespace {

struct Votes {
  size_t all = 0;
  size_t given = 0;
  bool lowest = false;
};

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

std::vector<Voter> VotersOf(const wire::View& view) {
  std::vector<std::pair<uint64_t, Voter>> ordered;  // workers before servers
  ordered.reserve(view.workers.size() + view.servers.size());
  for (const wire::WorkerInfo& one : view.workers) {
    if (one.left) continue;
    ordered.push_back({one.slot, {Role::kWorker, one.rank, one.incarnation, one.process}});
  }
  for (const wire::ServerInfo& one : view.servers) {
    if (!one.alive) continue;
    uint64_t order = (uint64_t{1} << 32) + one.index;
    ordered.push_back({order, {Role::kServer, one.index, one.incarnation, one.process}});
  }
  std::sort(ordered.begin(), ordered.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Voter> voters;
  voters.reserve(ordered.size());
  for (const auto& [order, voter] : ordered) voters.push_back(voter);
  return voters;
}

bool IsIn(const wire::View& view, uint64_t incarnation) {
  auto is = [&](const auto& one) { return one.incarnation == incarnation; };
  return std::any_of(view.workers.begin(), view.workers.end(),
                     [&](const auto& worker) { return is(worker) && !worker.left; }) ||
         std::any_of(view.servers.begin(), view.servers.end(),
                     [&](const auto& server) { return is(server) && server.alive; });
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
