#include "src/protocol/shard/wants.h"

#include <algorithm>

namespace byteps::protocol {

void Wants::ForgetEnded(Waiting& waiting) {
  while (!waiting.empty() && facts_.pieces.FindOpen(waiting.front().first) == nullptr) {
    waiting.pop_front();
  }
}

void Wants::ForgetEnded() {
  ForgetEnded(waiting_);
  ForgetEnded(asked_);
}

void Wants::Clear() {
  while (!waiting_.empty()) waiting_.pop_front();
  while (!asked_.empty()) asked_.pop_front();
}

std::optional<Time> Wants::NextTick() {
  ForgetEnded();
  std::optional<Time> next;
  if (!waiting_.empty()) next = waiting_.front().second + times_.after;
  if (asked_.empty()) return next;
  Time again = asked_.front().second + times_.again_after;
  return next.has_value() ? std::min(*next, again) : again;
}

void Wants::Collect(Waiting& waiting, Duration after, Time now) {
  while (!waiting.empty() && waiting.front().second + after <= now) {
    wire::PieceRef ref = waiting.front().first;
    waiting.pop_front();
    const Piece* piece = facts_.pieces.FindOpen(ref);
    if (piece == nullptr) continue;
    asked_.push_back({ref, now});
    for (Slot slot = 0; slot < facts_.members.size(); ++slot) {
      if (facts_.attendance.IsWaitedFor(*piece, slot)) wanted_[slot].push_back(ref);
    }
  }
}

void Wants::Tick(Time now) {
  wanted_.resize(facts_.members.size());
  for (auto& wanted : wanted_) wanted.clear();
  Collect(asked_, times_.again_after, now);
  Collect(waiting_, times_.after, now);
  for (Slot slot = 0; slot < wanted_.size(); ++slot) {
    const std::vector<wire::PieceRef>& wanted = wanted_[slot];
    for (size_t at = 0; at < wanted.size(); at += wire::kWantCountMax) {
      auto first = wanted.begin() + static_cast<ptrdiff_t>(at);
      size_t count = std::min(wire::kWantCountMax, wanted.size() - at);
      driver_.Send(slot, wire::Want{{first, first + static_cast<ptrdiff_t>(count)}});
    }
  }
}

}  // namespace byteps::protocol
