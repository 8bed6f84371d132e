#include "src/protocol/shard/state/verdict.h"

#include <algorithm>
#include <utility>

#include "src/wire/data.h"

namespace byteps::protocol {

void Verdict::Begin(const VerdictTerms& terms, const Receipt& receipt, const Members& members) {
  terms_ = terms;
  stable_ = false;
  empty_ = false;
  SetReceipt(receipt_, receipt);
  held_.Clear();
  idle_.reset();
  bool none_joined =
      members.last_join() <= wire::JoinsOf(terms.round) || terms.combine == Combine::kLast;
  if (receipt_ == members.everybody() && none_joined) {
    lacking_ = members.served_count();
    return;
  }
  lacking_ = 0;
  for (Slot slot = 0; slot < members.size(); ++slot) lacking_ += Needs(slot, members) ? 1 : 0;
}

void Verdict::SetBytes(const VerdictTerms& terms, const Receipt& receipt, const Members& members,
                       BufferRef buffer, uint32_t bytes) {
  errors_.Clear();
  errors_held_.clear();
  buffer_ = std::move(buffer);
  bytes_ = bytes;
  Begin(terms, receipt, members);
}

void Verdict::SetEmpty(const VerdictTerms& terms, const Receipt& receipt, const Members& members) {
  SetBytes(terms, receipt, members, BufferRef(), 0);
  empty_ = true;
}

void Verdict::AddError(const VerdictTerms& terms, const Receipt& receipt, const Members& members,
                       const Status& why) {
  for (Slot slot : IsError() ? held_.List() : std::vector<Slot>()) {
    AddErrorHolder(slot, terms_.round);
  }
  wire::ErrorRow errors = std::move(errors_);
  std::vector<uint64_t> errors_held = std::move(errors_held_);
  errors.Add(terms.round, why);
  SetErrors(terms, receipt, members, std::move(errors));
  errors_held_ = std::move(errors_held);
}

void Verdict::SetErrors(const VerdictTerms& terms, const Receipt& receipt, const Members& members,
                        wire::ErrorRow errors) {
  SetBytes(terms, receipt, members, BufferRef(), 0);
  terms_.piece_bytes = 0;
  terms_.codec = 0;
  errors_ = std::move(errors);
}

void Verdict::SetStable(uint64_t round) {
  terms_.round = round;
  if (!stable_) BecomeStable();
}

bool Verdict::Covers(uint64_t round) const {
  if (round == terms_.round) return true;
  return round < terms_.round && errors_.Of(round) != nullptr;
}

bool Verdict::Needs(Slot slot, const Members& members) const {
  if (!members.IsServed(slot) || !receipt_->Contains(slot)) return false;
  if (terms_.combine == Combine::kLast) return true;
  return members.joined(slot) <= wire::JoinsOf(terms_.round) || !members.HaveAllJoined(slot);
}

bool Verdict::AddHolder(Slot slot, const Members& members) {
  if (!held_.Insert(slot) || !Needs(slot, members)) return false;
  --lacking_;
  return true;
}

void Verdict::AddErrorHolder(Slot slot, uint64_t round) {
  if (slot >= errors_held_.size()) errors_held_.resize(slot + 1);
  errors_held_[slot] = std::max(errors_held_[slot], round);
}

bool Verdict::IsWithAll(uint64_t round, const Members& members) const {
  if (stable_ || !IsError()) return stable_;
  for (Slot slot = 0; slot < members.size(); ++slot) {
    bool has = held_.Contains(slot) || (slot < errors_held_.size() && errors_held_[slot] >= round);
    if (Needs(slot, members) && !has) return false;
  }
  return true;
}

void Verdict::Recount(const Members& members) {
  lacking_ = 0;
  for (Slot slot = 0; slot < members.size(); ++slot) {
    if (Needs(slot, members) && !held_.Contains(slot)) ++lacking_;
  }
}

void Verdict::BecomeStable() {
  stable_ = true;
  errors_.Clear();
  errors_held_.clear();
  buffer_ = BufferRef();
  bytes_ = 0;
  idle_.reset();
}

bool Verdict::IsWaitedForBy(Slot slot) const { return idle_ != nullptr && idle_->Waits(slot); }

IdleMembers& Verdict::NeedIdle() {
  if (idle_ == nullptr) idle_ = std::make_unique<IdleMembers>();
  return *idle_;
}

}  // namespace byteps::protocol
