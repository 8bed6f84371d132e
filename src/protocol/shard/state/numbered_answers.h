// The answers on one connection, numbered from 1. The subject of each answer is kept until every
// member has its verdict. An acknowledgement of a number acknowledges all answers up to it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "src/base/ring_queue.h"
#include "src/wire/data.h"

namespace byteps::protocol {

struct Answered {
  wire::PieceRef ref;
  uint64_t since = 0;  // the epoch since which this shard owned the piece
};

// One thread at a time; steady state allocates nothing.
class NumberedAnswers {
 public:
  // Adds an answer that leaves. Returns its number.
  uint64_t Add(const Answered& answered) {
    kept_.push_back(answered);
    return ++sent_;
  }
  uint64_t sent() const { return sent_; }

  // Returns whether an answer about this round is kept.
  bool Keeps(const wire::PieceRef& ref) {
    return KeepsAny([&](const Answered& answered) { return answered.ref == ref; });
  }
  template <typename IsMeant>
  bool KeepsAny(IsMeant&& is_meant) {
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (is_meant(kept_[i])) return true;
    }
    return false;
  }

  // Returns the oldest answer that `number` acknowledges and that was not returned yet; nothing if
  // there is none. Skips forgotten answers.
  std::optional<Answered> NextAcknowledged(uint64_t number) {
    uint64_t forgotten = sent_ - kept_.size();
    acknowledged_ = std::max(acknowledged_, std::min(number, forgotten));
    if (acknowledged_ >= std::min(number, sent_)) return std::nullopt;
    return kept_[acknowledged_++ - forgotten];
  }

  // Forgets the oldest answers while `is_stable` says that every member has their verdict. Returns
  // the number of the last forgotten answer.
  template <typename IsStable>
  uint64_t ForgetStable(IsStable&& is_stable) {
    while (!kept_.empty() && is_stable(kept_.front())) kept_.pop_front();
    return sent_ - kept_.size();
  }

  // Returns the number up to which the receiver was told that its answers are stable.
  uint64_t stable_told() const { return stable_told_; }
  void NoteStableTold(uint64_t number) { stable_told_ = number; }
  // Returns whether an answer has left since the last call.
  bool LookForNew() { return std::exchange(sent_at_last_look_, sent_) != sent_; }

  // Forgets all answers, because the connection is gone. The next connection counts from 1 again.
  void Restart() {
    while (!kept_.empty()) kept_.pop_front();
    sent_ = acknowledged_ = stable_told_ = sent_at_last_look_ = 0;
  }

 private:
  RingQueue<Answered> kept_;  // the latest ones, up to number sent_
  uint64_t sent_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t stable_told_ = 0;
  uint64_t sent_at_last_look_ = 0;
};

}  // namespace byteps::protocol
