// Circles within one name, between process sets. A rank has a name open in one process set at a
// time. Say that A waits for round a of set G. B is in G, waits for round b of another set H, and
// has begun no round of G as late as a. That is an arrow from A to B: A's operation needs a part
// that B gives only when B's own operation has ended. A circle of arrows is a mismatch.
//
// This holds however old the reports are. Say A's operation is the first of the circle to end, now
// or at any other time. It had B's part then, so B had begun round a of G. B had not begun it when
// it reported, and B reported out of its own operation. So B's operation had ended before, and A's
// was not the first.
//
// An operation ends without the part of B only in these cases:
//
//   * B has joined. It did not join before its operation had ended. When it comes back, its rounds
//     count one join more, so both sides must count the same number of joins.
//   * B was lost or has left. Then its report is forgotten (ForgetIf).
//   * The operation ends in an error. Then the worker takes back what it reported of the operation.
//     Only if that word and another rank's report cross on their way, a name can fail again that
//     has just failed.
#include "src/protocol/control/names/wait_circles.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "src/wire/data.h"

namespace byteps::protocol {
namespace {

// The limits of what a message names of a circle.
constexpr size_t kSidesMax = 4;
constexpr size_t kRanksOfCircleMax = 8;

// Keeps the earliest round of each attempt, because an attempt fails from its earliest round on.
// The circle is in order.
StuckRanks::Circle Earliest(const StuckRanks::Circle& circle) {
  StuckRanks::Circle earliest;
  std::unique_copy(circle.begin(), circle.end(), std::back_inserter(earliest),
                   [](const wire::NamedUse& a, const wire::NamedUse& b) {
                     return a.name == b.name && a.use.process_set == b.use.process_set &&
                            a.use.lifetime == b.use.lifetime && a.use.attempt == b.use.attempt;
                   });
  return earliest;
}

}  // namespace

void WaitCircles::Clear() {
  waits_.clear();
  stuck_.Clear();
}

std::optional<WaitCircles::Mismatch> WaitCircles::Add(uint32_t rank, const std::string& name,
                                                      const Wait& wait) {
  Waits& waits = waits_[name];
  waits[rank] = wait;
  std::vector<uint32_t> circle = FindCircle(waits, rank);
  if (circle.empty()) return std::nullopt;
  return Within(name, waits, circle);
}

std::vector<WaitCircles::Question> WaitCircles::AddStuck(uint32_t rank, const std::string& name) {
  const Wait& wait = waits_.at(name).at(rank);
  return stuck_.Add(rank, {wait.incarnation, {name, wait.use}, wait.tensor, wait.ranks});
}

bool WaitCircles::OnUnbegun(uint32_t rank, uint64_t incarnation, const wire::Unbegun& answer) {
  return stuck_.OnUnbegun(rank, incarnation, answer);
}

std::optional<WaitCircles::Mismatch> WaitCircles::Judge() const {
  for (const StuckRanks::Circle& circle : stuck_.Circles()) {
    // A circle is old if one of its uses has failed since: no rank is stuck there any more.
    bool old = std::any_of(circle.begin(), circle.end(),
                           [&](const wire::NamedUse& use) { return stuck_.In(use).empty(); });
    if (old) continue;
    std::string text = "ranks wait for each other: ";
    for (size_t i = 0; i < std::min(circle.size(), kSidesMax); ++i) {
      text += (i == 0 ? "" : "; ") + SideOf(circle[i], circle);
    }
    text += "; make the same calls in the same order on every rank";
    return Mismatch{Earliest(circle), StatusCode::kOutOfStep, text};
  }
  return std::nullopt;
}

void WaitCircles::Forget(uint32_t rank, uint64_t incarnation, const std::string& name,
                         bool stuck_anywhere) {
  ForgetWait(rank, name);
  stuck_.Remove(rank, incarnation, name);
  if (stuck_anywhere) stuck_.Remove(rank, incarnation);
}

void WaitCircles::ForgetWait(uint32_t rank, const std::string& name) {
  auto found = waits_.find(name);
  if (found == waits_.end()) return;
  found->second.erase(rank);
  if (found->second.empty()) waits_.erase(found);
}

void WaitCircles::ForgetUses(const std::string& name, const wire::Use& use) {
  auto over = [&](const wire::Use& one) {
    return one.process_set == use.process_set &&
           std::tie(one.lifetime, one.attempt) <= std::tie(use.lifetime, use.attempt);
  };
  auto found = waits_.find(name);
  if (found != waits_.end()) {
    std::erase_if(found->second, [&](const auto& entry) { return over(entry.second.use); });
    if (found->second.empty()) waits_.erase(found);
  }
  stuck_.RemoveIf(
      [&](const StuckRanks::Wait& wait) { return wait.use.name == name && over(wait.use.use); });
}

void WaitCircles::ForgetIf(const std::function<bool(uint64_t)>& gone) {
  for (auto& [name, waits] : waits_) {
    std::erase_if(waits, [&](const auto& entry) { return gone(entry.second.incarnation); });
  }
  std::erase_if(waits_, [](const auto& entry) { return entry.second.empty(); });
  stuck_.RemoveIf([&](const StuckRanks::Wait& wait) { return gone(wait.incarnation); });
}

// Returns whether there is an arrow from `wait` to `other`. REQUIRES: the rank of `other` is in the
// process set of `wait`.
bool WaitCircles::WaitsInVain(const Wait& wait, const Wait& other) {
  const wire::Use& use = wait.use;
  const wire::Use& others = other.use;
  if (use.process_set == others.process_set ||
      wire::JoinsOfUse(use.round) != wire::JoinsOfUse(others.round))
    return false;
  auto last =
      std::find_if(other.elsewhere.begin(), other.elsewhere.end(),
                   [&](const wire::Use& one) { return one.process_set == use.process_set; });
  return last == other.elsewhere.end() || *last < use;
}

// Returns the ranks of a circle of arrows, in their order, from `from` on. Returns nothing if there
// is no circle.
std::vector<uint32_t> WaitCircles::FindCircle(const Waits& waits, uint32_t from) {
  std::map<uint32_t, uint32_t> reached_from;
  std::vector<uint32_t> next = {from};
  while (!next.empty()) {
    uint32_t rank = next.back();
    next.pop_back();
    const Wait& wait = waits.at(rank);
    auto look = [&](uint32_t to, const Wait& other) {
      if (to == rank || reached_from.contains(to) || !WaitsInVain(wait, other)) return;
      reached_from[to] = rank;
      next.push_back(to);
    };
    if (wait.ranks == nullptr) {
      for (const auto& [to, other] : waits) look(to, other);
    } else {
      for (uint32_t to : *wait.ranks) {
        auto other = waits.find(to);
        if (other != waits.end()) look(to, other->second);
      }
    }
    if (!reached_from.contains(from)) continue;
    std::vector<uint32_t> circle;
    for (uint32_t at = reached_from.at(from); at != from; at = reached_from.at(at)) {
      circle.push_back(at);
    }
    circle.push_back(from);
    std::reverse(circle.begin(), circle.end());
    return circle;
  }
  return {};
}

// The attempts in all process sets of the circle fail as one. The text names two sides.
WaitCircles::Mismatch WaitCircles::Within(const std::string& name, const Waits& waits,
                                          const std::vector<uint32_t>& circle) const {
  std::map<uint32_t, wire::Use> uses;  // the earliest use, by process set
  std::string sides;
  for (size_t i = 0; i < circle.size(); ++i) {
    const Wait& what = waits.at(circle[i]);
    auto [found, fresh] = uses.try_emplace(what.use.process_set, what.use);
    if (!fresh) found->second = std::min(found->second, what.use);
    if (i >= 2) continue;
    sides += (i == 0 ? "rank " : ", rank ") + std::to_string(circle[i]) + " has " +
             describe_({name, what.use}, what.tensor) +
             (what.use.process_set == 0 ? " of all ranks" : "");
  }
  Mismatch mismatch;
  for (const auto& [process_set, use] : uses) mismatch.uses.push_back({name, use});
  mismatch.text = "ranks disagree about tensor '" + name + "': " + sides +
                  "; use the same name, shape, dtype, operation and process set on every rank";
  return mismatch;
}

std::string WaitCircles::SideOf(const wire::NamedUse& use, const StuckRanks::Circle& circle) const {
  auto in = stuck_.In(use);
  std::string text = in.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(in.size(), kRanksOfCircleMax); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(in[i].first);
  }
  if (in.size() > kRanksOfCircleMax) text += " and others";
  text += (in.size() == 1 ? " waits for '" : " wait for '") + use.name + "'";
  std::string what = describe_(use, in[0].second->tensor);
  if (!what.empty()) text += " (" + what + ")";
  return text + ", which rank " + std::to_string(stuck_.Lacking(use, circle)) + " has not begun";
}

}  // namespace byteps::protocol
