// The answers on one connection: each has a number, from 1, and what each was about is kept until
// its verdict is with every member. An acknowledgement of a number stands for all up to it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "src/base/ring.h"
#include "src/wire/data.h"

namespace byteps::protocol {

struct Answered {
  wire::PieceRef ref;
  uint64_t since = 0;  // of the piece when it was answered
};

// One thread at a time; steady state allocates nothing.
class NumberedAnswers {
 public:
  // One more answer leaves; its number.
  uint64_t Add(const Answered& answered) {
    kept_.push_back(answered);
    return ++sent_;
  }
  uint64_t sent() const { return sent_; }

  // One of those that are kept was about this round.
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

  // What the next answer was about that an acknowledgement of `number` stands for, in order; none
  // when it has taken them all. Skips those that are forgotten.
  std::optional<Answered> NextAcknowledged(uint64_t number) {
    uint64_t forgotten = sent_ - kept_.size();
    acknowledged_ = std::max(acknowledged_, std::min(number, forgotten));
    if (acknowledged_ >= std::min(number, sent_)) return std::nullopt;
    return kept_[acknowledged_++ - forgotten];
  }

  // Forgets the oldest answers while `is_stable` says that every member has their verdict. The
  // number up to which that is so.
  template <typename IsStable>
  uint64_t ForgetStable(IsStable&& is_stable) {
    while (!kept_.empty() && is_stable(kept_.front())) kept_.pop_front();
    return sent_ - kept_.size();
  }

  // The number up to which the receiver has been told that its answers are stable.
  uint64_t stable_told() const { return stable_told_; }
  void NoteStableTold(uint64_t number) { stable_told_ = number; }
  // An answer has left since the last look.
  bool LookForNew() { return std::exchange(sent_at_last_look_, sent_) != sent_; }

  // The connection is gone; the next one counts from 1 again.
  void Restart() {
    while (!kept_.empty()) kept_.pop_front();
    sent_ = acknowledged_ = stable_told_ = sent_at_last_look_ = 0;
  }

 private:
  Ring<Answered> kept_;  // the latest ones, up to number sent_
  uint64_t sent_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t stable_told_ = 0;
  uint64_t sent_at_last_look_ = 0;
};

}  // namespace byteps::protocol
