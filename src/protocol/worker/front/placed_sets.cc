#include "src/protocol/worker/front/placed_sets.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "src/operations/place.h"
#include "src/wire/frame.h"

namespace byteps::protocol {
namespace {

Status InvalidSet(const std::string& text) { return {StatusCode::kInvalidArgument, text}; }

std::string NameOf(uint32_t number) { return "process set " + std::to_string(number); }

}  // namespace

Receipt PlacedSet::RanksIn(const Receipt& receipt) const {
  if (slots_are_ranks) return receipt;
  auto found = std::make_shared<RankSet>();
  for (size_t place = 0; place < present.size(); ++place) {
    if (receipt->Contains(slot_of[place])) found->Insert(present[place]);
  }
  return found;
}

void PlacedSets::Begin(const std::vector<wire::WorkerInfo>& roster, uint32_t rank,
                       const plan::SumRules& sums) {
  roster_ = roster;
  sums_ = sums;
  rank_ = rank;
  everybody_.ranks.clear();
  for (const wire::WorkerInfo& worker : roster_) everybody_.ranks.push_back(worker.rank);
  Resolve(everybody_);
  inside_ = 0;
  for (auto& [number, set] : sets_) {
    Resolve(set);
    if (set.self != kNoPlace) ++inside_;
  }
}

void PlacedSets::Resolve(PlacedSet& set) const {
  std::sort(set.ranks.begin(), set.ranks.end());
  set.present.clear();
  set.slot_of.clear();
  set.self = kNoPlace;
  set.slots = SlotSet();
  set.slots_are_ranks = true;
  for (uint32_t rank : set.ranks) {
    auto found = std::find_if(roster_.begin(), roster_.end(),
                              [&](const wire::WorkerInfo& worker) { return worker.rank == rank; });
    if (found == roster_.end()) continue;
    if (rank == rank_) set.self = static_cast<uint32_t>(set.present.size());
    set.present.push_back(rank);
    set.slot_of.push_back(found->slot);
    set.slots.Insert(found->slot);
    set.slots_are_ranks = set.slots_are_ranks && found->slot == rank;
  }
  set.turns = operations::TurnsByContributor(set.slot_of);
  std::map<Slot, plan::Summands> contributors;
  for (size_t i = 0; i < set.present.size(); ++i) {
    contributors[set.slot_of[i]].push_back(set.present[i]);
  }
  std::vector<plan::Summands> summands;
  for (auto& [slot, ranks] : contributors) summands.push_back(std::move(ranks));
  set.sum_bits = plan::BitsOf(summands, sums_);
}

Status PlacedSets::Add(uint32_t number, const std::vector<uint32_t>& ranks) {
  if (number == 0) return InvalidSet("process set 0 is all ranks; choose another number");
  if (sets_.contains(number) || removed_.Contains(number)) {
    return InvalidSet(NameOf(number) + " was added before; numbers are never used again");
  }
  if (ranks.empty()) return InvalidSet(NameOf(number) + " has no ranks");
  PlacedSet set;
  set.ranks = ranks;
  Resolve(set);
  if (set.present.size() != ranks.size()) {
    return InvalidSet(NameOf(number) + " has a rank that is not in the job, which has ranks 0 to " +
                      std::to_string(roster_.size() - 1));
  }
  if (std::adjacent_find(set.ranks.begin(), set.ranks.end()) != set.ranks.end()) {
    return InvalidSet(NameOf(number) + " has a rank twice");
  }
  bool inside = set.self != kNoPlace;
  if (inside && inside_ >= wire::kProcessSetsMax) {
    return {StatusCode::kExhausted, NameOf(number) + " cannot be added: this rank is in " +
                                        std::to_string(inside_) +
                                        " process sets, the most there can be; remove others"};
  }
  sets_[number] = std::move(set);
  if (inside) ++inside_;
  return Status::Ok();
}

Status PlacedSets::Remove(uint32_t number) {
  auto found = sets_.find(number);
  if (found == sets_.end()) {
    return InvalidSet("there is no " + NameOf(number) + " to remove");
  }
  if (found->second.self != kNoPlace) --inside_;
  sets_.erase(found);
  removed_.Insert(number);
  return Status::Ok();
}

const PlacedSet& PlacedSets::Of(uint32_t number) const {
  return number == 0 ? everybody_ : sets_.at(number);
}

Status PlacedSets::Check(const std::string& operation, uint32_t number) const {
  if (number == 0) return Status::Ok();
  auto found = sets_.find(number);
  if (found == sets_.end()) {
    return InvalidSet("'" + operation + "' is of " + NameOf(number) +
                      ", which this rank does not know; add it on every rank first");
  }
  const PlacedSet& set = found->second;
  if (set.self != kNoPlace) return Status::Ok();
  std::string ranks;
  for (uint32_t rank : set.ranks) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  return InvalidSet("'" + operation + "' is of " + NameOf(number) + ", which has ranks " + ranks +
                    " and not rank " + std::to_string(rank_));
}

std::vector<uint32_t> PlacedSets::Numbers() const {
  std::vector<uint32_t> numbers;
  for (const auto& [number, set] : sets_) numbers.push_back(number);
  return numbers;
}

}  // namespace byteps::protocol
