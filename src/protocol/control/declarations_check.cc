// What ranks say of operations that do not end, and what follows from it. stuck_ranks.h has
// circles over several names, of ranks that can do nothing else meanwhile.
//
// In one group: ranks that mean different tensors in one round disagree (declarations.h).
//
// Between groups: a rank has a name open in one group at a time. Say that A waits for round a of
// group G; B is in G and waits for round b of another group H; and B has begun no round of G as
// late as a. That is an arrow from A to B: A's operation needs a part that B gives only when B's
// own operation has ended. A circle of arrows is a mismatch: none of its operations can ever end.
//
// That holds however old the reports are. Say A's operation is the first of the circle to end, now
// or at any other time. It had B's part then, so B had begun round a of G, which it had not when it
// reported; and since it reported out of its own operation, that one had ended before: A's was not
// the first. Only these end an operation without the part of B. B has joined: not before its
// operation has ended, and when it comes back its rounds count one join more, so both sides must
// count the same. B was lost or has left: then its report is forgotten (ForgetOverdue). Or the
// operation ends in an error: the worker takes back what it reported of such a one; only when that
// word and another rank's report cross on their way can a name fail again that has just failed.
#include <algorithm>
#include <iterator>
#include <utility>

#include "src/operations/row.h"
#include "src/protocol/control/declarations.h"
#include "src/wire/data.h"

namespace byteps::protocol {
namespace {

// What a message names of a circle.
constexpr size_t kSidesMax = 4;
constexpr size_t kRanksMax = 8;

// An attempt fails from its earliest round on. The circle is in order.
StuckRanks::Circle Earliest(const StuckRanks::Circle& circle) {
  StuckRanks::Circle earliest;
  std::unique_copy(circle.begin(), circle.end(), std::back_inserter(earliest),
                   [](const wire::NamedUse& a, const wire::NamedUse& b) {
                     return a.name == b.name && a.use.group == b.use.group &&
                            a.use.attempt == b.use.attempt;
                   });
  return earliest;
}

// Of a round as workers count them, not of one on the wire (wire/data.h).

}  // namespace

Declarations::Answers Declarations::OnOverdue(const Rank& rank, const wire::Overdue& overdue) {
  std::map<uint32_t, std::shared_ptr<const std::vector<uint32_t>>> groups;
  for (const wire::GroupRanks& group : overdue.groups) {
    groups[group.number] = std::make_shared<const std::vector<uint32_t>>(group.ranks);
  }
  Answers answers;
  for (const wire::OverdueUse& use : overdue.uses) {
    auto found = names_.find(use.name);
    if (found == names_.end()) continue;
    Name& name = found->second;
    name.waits.erase(rank.number);
    stuck_.Remove(rank.number, rank.incarnation, use.name);
    if (use.stuck) stuck_.Remove(rank.number, rank.incarnation);
    Answers more = CheckUse(rank, use);
    auto ranks = groups.find(use.use.group);
    bool whole = use.use.group == 0 || ranks != groups.end();
    Attempt* attempt = FindAttempt(name, use.use.group, use.use.attempt);
    bool waits = attempt != nullptr && !attempt->failed.has_value() && whole &&
                 FindTensor(*attempt, use.tensor) != nullptr;
    if (waits) {
      name.waits[rank.number] = {rank.incarnation, use.use, use.tensor, use.elsewhere,
                                 use.use.group == 0 ? nullptr : ranks->second};
      std::vector<uint32_t> circle = FindCircle(name, rank.number);
      if (!circle.empty()) {
        more = FailCircle(use.name, name, circle);
      } else if (use.stuck) {
        more = AddStuck(rank, use);
      }
    }
    answers.insert(answers.end(), more.begin(), more.end());
  }
  return answers;
}

Declarations::Answers Declarations::CheckUse(const Rank& rank, const wire::OverdueUse& use) {
  Name& name = names_.at(use.name);
  Attempt* attempt = FindAttempt(name, use.use.group, use.use.attempt);
  if (attempt == nullptr) return {};
  if (attempt->failed.has_value()) return {{rank.incarnation, *attempt->failed}};
  const auto* variant = FindTensor(*attempt, use.tensor);
  if (variant == nullptr || use.use.round < attempt->round) return {};
  if (use.use.round == attempt->round && attempt->meant != nullptr) {
    if (variant == attempt->meant) return {};
    attempt->told.insert(rank.incarnation);
    return Fail(name, Mismatch(use.name, use.use, *attempt, rank, variant->first));
  }
  attempt->round = use.use.round;
  attempt->meant = variant;
  attempt->by = rank.number;
  return {};
}

// The arrow from `wait` to `other`, whose rank is in the group of `wait`.
bool Declarations::WaitsInVain(const Wait& wait, const Wait& other) {
  const wire::Use& use = wait.use;
  const wire::Use& others = other.use;
  if (use.group == others.group || wire::JoinsOfUse(use.round) != wire::JoinsOfUse(others.round))
    return false;
  auto last = std::find_if(other.elsewhere.begin(), other.elsewhere.end(),
                           [&](const wire::Use& one) { return one.group == use.group; });
  return last == other.elsewhere.end() || *last < use;
}

// The ranks of a circle of arrows, in their order, from `from` on; none: there is none.
std::vector<uint32_t> Declarations::FindCircle(const Name& name, uint32_t from) {
  std::map<uint32_t, uint32_t> reached_from;
  std::vector<uint32_t> next = {from};
  while (!next.empty()) {
    uint32_t rank = next.back();
    next.pop_back();
    const Wait& wait = name.waits.at(rank);
    auto look = [&](uint32_t to, const Wait& other) {
      if (to == rank || reached_from.contains(to) || !WaitsInVain(wait, other)) return;
      reached_from[to] = rank;
      next.push_back(to);
    };
    if (wait.ranks == nullptr) {
      for (const auto& [to, other] : name.waits) look(to, other);
    } else {
      for (uint32_t to : *wait.ranks) {
        auto other = name.waits.find(to);
        if (other != name.waits.end()) look(to, other->second);
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

// The attempts in all groups of the circle fail as one. Two sides are named.
Declarations::Answers Declarations::FailCircle(const std::string& text, Name& name,
                                               const std::vector<uint32_t>& circle) {
  std::map<uint32_t, wire::Use> uses;  // by group: the earliest
  std::string sides;
  for (size_t i = 0; i < circle.size(); ++i) {
    const Wait& what = name.waits.at(circle[i]);
    auto [found, fresh] = uses.try_emplace(what.use.group, what.use);
    if (!fresh) found->second = std::min(found->second, what.use);
    if (i >= 2) continue;
    const Attempt& attempt = *FindAttempt(name, what.use.group, what.use.attempt);
    const wire::TensorSpec& spec = FindTensor(attempt, what.tensor)->first;
    sides += (i == 0 ? "rank " : ", rank ") + std::to_string(circle[i]) + " has " +
             operations::Describe(spec) + (spec.group == 0 ? " of all ranks" : "");
  }
  std::vector<wire::NamedUse> named;
  for (const auto& [group, use] : uses) named.push_back({text, use});
  return FailAll(named, StatusCode::kMismatch,
                 "ranks disagree about tensor '" + text + "': " + sides +
                     "; use the same name, shape, dtype, operation and process set on "
                     "every rank");
}

// As one failure.
Declarations::Answers Declarations::FailAll(const std::vector<wire::NamedUse>& uses,
                                            StatusCode code, const std::string& text) {
  Answers answers;
  for (const wire::NamedUse& one : uses) {
    wire::DeclareFailed failed{one.name, one.use, {}, code, text, uses};
    std::erase(failed.also, one);
    Answers more = Fail(names_.at(one.name), std::move(failed));
    answers.insert(answers.end(), more.begin(), more.end());
  }
  return answers;
}

Declarations::Answers Declarations::AddStuck(const Rank& rank, const wire::OverdueUse& use) {
  const Wait& wait = names_.at(use.name).waits.at(rank.number);
  Answers answers;
  for (StuckRanks::Question& question :
       stuck_.Add(rank.number, {rank.incarnation, {use.name, use.use}, use.tensor, wait.ranks})) {
    answers.push_back({question.to, std::move(question.message)});
  }
  return answers;
}

bool Declarations::OnUnbegun(const Rank& rank, const wire::Unbegun& answer) {
  return stuck_.OnUnbegun(rank.number, rank.incarnation, answer);
}

Declarations::Answers Declarations::JudgeStuck() {
  Answers answers;
  for (const StuckRanks::Circle& circle : stuck_.Circles()) {
    // Those of one that failed before it are not stuck any more.
    bool old = std::any_of(circle.begin(), circle.end(),
                           [&](const wire::NamedUse& use) { return stuck_.In(use).empty(); });
    if (old) continue;
    std::string text = "ranks wait for each other: ";
    for (size_t i = 0; i < std::min(circle.size(), kSidesMax); ++i) {
      text += (i == 0 ? "" : "; ") + SideOf(circle[i], circle);
    }
    text += "; make the same calls in the same order on every rank";
    Answers more = FailAll(Earliest(circle), StatusCode::kOutOfStep, text);
    answers.insert(answers.end(), more.begin(), more.end());
  }
  return answers;
}

std::string Declarations::SideOf(const wire::NamedUse& use, const StuckRanks::Circle& circle) {
  auto in = stuck_.In(use);
  std::string text = in.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(in.size(), kRanksMax); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(in[i].first);
  }
  if (in.size() > kRanksMax) text += " and others";
  text += (in.size() == 1 ? " waits for '" : " wait for '") + use.name + "'";
  const Attempt* attempt = FindAttempt(names_.at(use.name), use.use.group, use.use.attempt);
  const auto* variant = attempt == nullptr ? nullptr : FindTensor(*attempt, in[0].second->tensor);
  if (variant != nullptr) text += " (" + operations::Describe(variant->first) + ")";
  return text + ", which rank " + std::to_string(stuck_.Lacking(use, circle)) + " has not begun";
}

void Declarations::ForgetOverdue(const std::function<bool(uint64_t)>& gone) {
  for (auto& [text, name] : names_) {
    std::erase_if(name.waits, [&](const auto& entry) { return gone(entry.second.incarnation); });
  }
  stuck_.RemoveIf([&](const StuckRanks::Wait& wait) { return gone(wait.incarnation); });
}

}  // namespace byteps::protocol
