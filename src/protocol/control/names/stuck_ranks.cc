#include "src/protocol/control/names/stuck_ranks.h"

#include <algorithm>
#include <iterator>

#include "src/wire/data.h"

namespace byteps::protocol {
namespace {

using Arrows = std::map<wire::NamedUse, std::set<wire::NamedUse>>;

std::set<wire::NamedUse> Reached(const Arrows& arrows, const wire::NamedUse& from) {
  std::set<wire::NamedUse> reached;
  std::vector<const wire::NamedUse*> next = {&from};
  while (!next.empty()) {
    auto found = arrows.find(*next.back());
    next.pop_back();
    if (found == arrows.end()) continue;
    for (const wire::NamedUse& to : found->second) {
      auto [place, fresh] = reached.insert(to);
      if (fresh) next.push_back(&*place);
    }
  }
  return reached;
}

}  // namespace

std::vector<StuckRanks::Question> StuckRanks::Add(uint32_t rank, const Wait& wait) {
  Stuck& stuck = stuck_[rank];
  stuck = {wait, {}};
  if (wait.ranks != nullptr) {
    auto sorted = std::make_shared<std::vector<uint32_t>>(*wait.ranks);
    std::sort(sorted->begin(), sorted->end());
    stuck.wait.ranks = sorted;
  }
  std::vector<Question> questions;
  for (const auto& [number, other] : stuck_) Ask(rank, stuck, other.wait, questions);
  for (auto& [number, other] : stuck_) Ask(number, other, stuck.wait, questions);
  return questions;
}

void StuckRanks::Ask(uint32_t rank, Stuck& of, const Wait& about,
                     std::vector<Question>& questions) {
  uint64_t rounds = wire::FirstRoundAfter(1);  // as workers count rounds: the rounds of one join
  bool meets = about.use != of.wait.use &&
               about.use.use.round / rounds == of.wait.use.use.round / rounds &&
               (about.ranks == nullptr ||
                std::binary_search(about.ranks->begin(), about.ranks->end(), rank));
  if (!meets || !of.asked.try_emplace(about.use, false).second) return;
  bool same = !questions.empty() && questions.back().to == of.wait.incarnation;
  if (!same) questions.push_back({of.wait.incarnation, {of.wait.use, {}}});
  questions.back().message.uses.push_back(about.use);
}

void StuckRanks::Remove(uint32_t rank, uint64_t incarnation, const std::string& name) {
  auto found = stuck_.find(rank);
  if (found != stuck_.end() && found->second.wait.use.name == name) Remove(rank, incarnation);
}

void StuckRanks::Remove(uint32_t rank, uint64_t incarnation) {
  auto found = stuck_.find(rank);
  bool same = found != stuck_.end() && found->second.wait.incarnation == incarnation;
  if (same) stuck_.erase(found);
}

void StuckRanks::RemoveIf(const std::function<bool(const Wait&)>& gone) {
  std::erase_if(stuck_, [&](const auto& entry) { return gone(entry.second.wait); });
}

bool StuckRanks::OnUnbegun(uint32_t rank, uint64_t incarnation, const wire::Unbegun& answer) {
  auto found = stuck_.find(rank);
  if (found == stuck_.end()) return false;
  Stuck& stuck = found->second;
  bool meant = stuck.wait.incarnation == incarnation && stuck.wait.use == answer.stuck;
  bool lacks = false;
  for (const wire::NamedUse& use : meant ? answer.uses : std::vector<wire::NamedUse>()) {
    auto asked = stuck.asked.find(use);
    if (asked == stuck.asked.end()) continue;
    asked->second = true;
    lacks = true;
  }
  return lacks;
}

std::vector<StuckRanks::Circle> StuckRanks::Circles() const {
  Arrows arrows, backwards;
  for (const auto& [rank, stuck] : stuck_) {
    for (const auto& [use, lacks] : stuck.asked) {
      if (!lacks) continue;
      arrows[use].insert(stuck.wait.use);
      backwards[stuck.wait.use].insert(use);
    }
  }
  std::vector<Circle> circles;
  std::set<wire::NamedUse> seen;
  for (const auto& [use, to] : arrows) {
    if (seen.contains(use)) continue;
    std::set<wire::NamedUse> after = Reached(arrows, use);
    std::set<wire::NamedUse> before = Reached(backwards, use);
    Circle circle;
    std::set_intersection(after.begin(), after.end(), before.begin(), before.end(),
                          std::back_inserter(circle));
    if (circle.empty()) continue;
    seen.insert(circle.begin(), circle.end());
    circles.push_back(std::move(circle));
  }
  return circles;
}

std::vector<std::pair<uint32_t, const StuckRanks::Wait*>> StuckRanks::In(
    const wire::NamedUse& use) const {
  std::vector<std::pair<uint32_t, const Wait*>> in;
  for (const auto& [rank, stuck] : stuck_) {
    if (stuck.wait.use == use) in.emplace_back(rank, &stuck.wait);
  }
  return in;
}

uint32_t StuckRanks::Lacking(const wire::NamedUse& use, const Circle& circle) const {
  for (const auto& [rank, stuck] : stuck_) {
    auto asked = stuck.asked.find(use);
    bool in_circle = std::find(circle.begin(), circle.end(), stuck.wait.use) != circle.end();
    if (in_circle && asked != stuck.asked.end() && asked->second) return rank;
  }
  return UINT32_MAX;
}

}  // namespace byteps::protocol
