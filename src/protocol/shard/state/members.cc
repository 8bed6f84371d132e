#include "src/protocol/shard/state/members.h"

#include <algorithm>
#include <utility>

#include "src/protocol/view_parts.h"

namespace byteps::protocol {

std::vector<Slot> Members::SetView(const wire::View& view, bool begins) {
  if (begins) {
    members_.clear();
    last_join_ = 0;
  }
  std::vector<bool> was_present(members_.size());
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    was_present[slot] = std::exchange(members_[slot].present, false);
    members_[slot].ranks.clear();
  }
  slot_of_rank_.clear();
  for (const wire::WorkerInfo& worker : wire::WorkersOfGeneration(view)) {
    if (begins && worker.slot >= members_.size()) members_.resize(worker.slot + 1);
    if (worker.slot >= members_.size()) continue;  // no member joins within a generation
    if (worker.rank >= slot_of_rank_.size()) slot_of_rank_.resize(worker.rank + 1, kNoSlot);
    slot_of_rank_[worker.rank] = worker.slot;
    members_[worker.slot].ranks.push_back(worker.rank);
  }
  left_ranks_ = RankSet();
  for (const wire::WorkerInfo& worker : view.workers) {
    if (worker.slot >= members_.size()) continue;
    Member& member = members_[worker.slot];
    member.left = worker.left && (member.left || !member.present);
    member.present = true;
    if (worker.left) left_ranks_.Insert(worker.rank);
  }
  any_has_left_ = !left_ranks_.empty();
  sum_group_ = view.sum_group;
  same_bits_ = view.same_bits;
  present_count_ = served_count_ = 0;
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    std::sort(members_[slot].ranks.begin(), members_[slot].ranks.end());
    present_count_ += IsPresent(slot) ? 1 : 0;
    served_count_ += IsServed(slot) ? 1 : 0;
  }
  everybody_ = WorkersOf(view);
  std::vector<Slot> gone;
  for (Slot slot = 0; slot < was_present.size(); ++slot) {
    if (was_present[slot] && !members_[slot].present) gone.push_back(slot);
  }
  return gone;
}

std::string Members::NameOf(Slot slot) const {
  bool known = slot < members_.size() && !members_[slot].ranks.empty();
  if (!known) return "the worker of slot " + std::to_string(slot);
  const std::vector<uint32_t>& ranks = members_[slot].ranks;
  std::string text = ranks.size() == 1 ? "worker " : "workers ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

void Members::NoteEpoch(Slot slot, uint64_t epoch) {
  members_[slot].epoch = std::max(members_[slot].epoch, epoch);
}

void Members::NoteResync(Slot slot, uint64_t epoch) {
  NoteEpoch(slot, epoch);
  members_[slot].resynced = std::max(members_[slot].resynced, epoch);
}

void Members::NoteJoin(Slot slot, uint64_t number, RankSet ranks) {
  Member& member = members_[slot];
  if (number >= member.joined) {
    member.joined = number;
    member.joined_ranks = std::move(ranks);
  }
  last_join_ = std::max(last_join_, number);
}

bool Members::HaveAllJoined(Slot slot) const {
  const std::vector<uint32_t>& ranks = members_[slot].ranks;
  return std::ranges::all_of(ranks, [&](uint32_t rank) { return HasJoined(slot, rank); });
}

void Members::ForgetConnection(Slot slot) {
  members_[slot].epoch = 0;
  members_[slot].resynced = 0;
}

}  // namespace byteps::protocol
