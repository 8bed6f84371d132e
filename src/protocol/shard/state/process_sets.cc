#include "src/protocol/shard/state/process_sets.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "src/base/text.h"
#include "src/wire/frame.h"

namespace byteps::protocol {
namespace {

Status Contradiction(const std::string& what) {
  return {StatusCode::kProtocol, what + "; add the same ranks under the same number everywhere"};
}

}  // namespace

void ProcessSet::Review(const Members& members) {
  by_slot_.assign(members.size(), {});
  for (uint32_t rank = 0; rank < members.rank_count(); ++rank) {
    const Slot slot = members.SlotOf(rank);
    if (slot == kNoSlot || !IncludesRank(rank)) continue;
    Ranks& ranks = by_slot_[slot];
    if (ranks.count++ == 0) ranks.first = rank;
  }
  if (number_ == 0) {
    all_ = members.everybody();
    present_count_ = members.present_count();
    return;
  }
  auto all = std::make_shared<SlotSet>();
  for (Slot slot = 0; slot < members.size(); ++slot) {
    if (members.IsPresent(slot) && Includes(slot)) all->Insert(slot);
  }
  present_count_ = all->count();
  all_ = std::move(all);
}

uint32_t ProcessSet::LeftRankOf(Slot slot, const Members& members) const {
  for (uint32_t rank : members.RanksOf(slot)) {
    if (IncludesRank(rank) && members.left_ranks().Contains(rank)) return rank;
  }
  return UINT32_MAX;
}

void ProcessSets::OnView(bool begins) {
  if (begins) {
    sets_.clear();
    told_.clear();
    everybody_.ForgetRounds();
  }
  told_.resize(members_.size());
  everybody_.Review(members_);
  for (auto& [number, set] : sets_) set.Review(members_);
}

const ProcessSet* ProcessSets::Find(uint32_t number) const {
  if (number == 0) return &everybody_;
  auto found = sets_.find(number);
  return found == sets_.end() ? nullptr : &found->second;
}

ProcessSet* ProcessSets::For(Slot from, uint32_t number) {
  if (number == 0) return &everybody_;
  auto found = sets_.find(number);
  bool told = found != sets_.end() && found->second.tellers().Contains(from);
  return told ? &found->second : nullptr;
}

Status ProcessSets::NotTold(Slot from, uint32_t number) const {
  return {StatusCode::kProtocol, "push refused: " + members_.NameOf(from) +
                                     " has not told of process set " + std::to_string(number)};
}

Status ProcessSets::Tell(Slot from, uint64_t number, ConstByteSpan bitmap) {
  bool valid = number > 0 && number <= UINT32_MAX;
  if (valid && bitmap.empty()) {
    Remove(from, static_cast<uint32_t>(number));
    return Status::Ok();
  }
  // Ranks that are not in this generation are in no round, so they are dropped.
  size_t bytes_max = (members_.rank_count() + 7) / 8;
  RankSet ranks = RankSet::FromBitmap(bitmap.first(std::min(bitmap.size(), bytes_max)));
  const std::vector<uint32_t>& own = members_.RanksOf(from);
  bool in_it =
      std::any_of(own.begin(), own.end(), [&](uint32_t rank) { return ranks.Contains(rank); });
  if (!valid || !in_it) {
    return Contradiction(members_.NameOf(from) + " tells of process set " + std::to_string(number) +
                         ", which it is not in");
  }
  return Add(from, static_cast<uint32_t>(number), std::move(ranks));
}

// We cannot know which of the two members is right, so the error names both.
Status ProcessSets::Add(Slot from, uint32_t number, RankSet ranks) {
  auto found = sets_.find(number);
  bool known = found != sets_.end();
  bool same = known && found->second.ranks() == ranks;
  if (same && found->second.tellers().Contains(from)) return Status::Ok();
  const std::string who = members_.NameOf(from);
  if (known && !same) {
    std::vector<Slot> tellers = found->second.tellers().List();
    std::string other = tellers.empty() ? "another one" : members_.NameOf(tellers[0]);
    return Contradiction("process set " + std::to_string(number) + " has ranks " +
                         ListText(ranks.List()) + " on " + who + " and " +
                         ListText(found->second.ranks().List()) + " on " + other);
  }
  if (told_[from] >= wire::kProcessSetsMax) {
    return {StatusCode::kProtocol, who + " is in more than " +
                                       std::to_string(wire::kProcessSetsMax) +
                                       " process sets at a time"};
  }
  if (!known) {
    found = sets_.emplace(number, ProcessSet(number, std::move(ranks))).first;
    found->second.Review(members_);
  }
  found->second.AddTeller(from);
  ++told_[from];
  return Status::Ok();
}

void ProcessSets::Remove(Slot from, uint32_t number) {
  auto found = sets_.find(number);
  if (found == sets_.end() || !found->second.RemoveTeller(from)) return;
  --told_[from];
  if (!found->second.IsNeeded()) sets_.erase(found);
}

void ProcessSets::ForgetConnection(Slot from) {
  if (std::exchange(told_[from], 0) == 0) return;
  for (auto it = sets_.begin(); it != sets_.end();) {
    bool told = it->second.RemoveTeller(from);
    it = told && !it->second.IsNeeded() ? sets_.erase(it) : std::next(it);
  }
}

void ProcessSets::EndRound(ProcessSet& set) {
  set.EndRound();
  if (!set.IsNeeded()) sets_.erase(set.number());
}

}  // namespace byteps::protocol
