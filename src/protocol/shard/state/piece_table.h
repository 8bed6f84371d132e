// The pieces of a shard. Of each piece the table keeps since when the shard owns it, its last
// verdict, and the round in progress.
//
// The table also keeps the retired tensors, whose ranks disagree about their name. No round of such
// a tensor begins from the use in which the ranks disagree on. The rounds before that use end like
// all others, because some rank has their verdicts. And it keeps the forgotten tensors, which all
// ranks have let go of. A message about a forgotten tensor, which a member may send late, has no
// effect.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "src/base/number_ranges.h"
#include "src/protocol/shard/state/round.h"
#include "src/protocol/shard/state/verdict.h"
#include "src/wire/data.h"
#include "src/wire/round.h"

namespace byteps::protocol {

struct Piece {
  TensorId tensor = 0;
  uint32_t index = 0;
  ShardId home = 0;    // the shard that it was dealt to
  uint64_t since = 0;  // the epoch since which this shard owns it
  Verdict verdict;
  std::unique_ptr<Round> round;  // null: no round is in progress
};

// One thread at a time. A piece stays where it is until it is erased.
class PieceTable {
 public:
  // Returns null if nothing is known of the piece.
  Piece* Find(const wire::PieceRef& ref) {
    auto found = pieces_.find(KeyOf(ref));
    return found == pieces_.end() ? nullptr : &found->second;
  }
  const Piece* Find(const wire::PieceRef& ref) const {
    auto found = pieces_.find(KeyOf(ref));
    return found == pieces_.end() ? nullptr : &found->second;
  }
  // Returns the piece. If nothing is known of it, makes it, owned since `since`.
  Piece& At(const wire::PieceRef& ref, ShardId home, uint64_t since) {
    Piece& piece = pieces_[KeyOf(ref)];
    if (!retired_.empty() && IsRetired(ref.tensor)) of_retired_.insert(KeyOf(ref));
    piece.tensor = ref.tensor;
    piece.index = ref.piece;
    piece.home = home;
    piece.since = since;
    return piece;
  }
  // Returns the piece if `ref` is its round in progress, null otherwise.
  Piece* FindOpen(const wire::PieceRef& ref) {
    Piece* piece = Find(ref);
    bool open = piece != nullptr && piece->round != nullptr && piece->round->ref() == ref;
    return open ? piece : nullptr;
  }

  template <typename Do>
  void ForEach(Do&& act) {
    for (auto& [key, piece] : pieces_) act(piece);
  }
  // Erases the pieces for which `is_unwanted` returns true. `is_unwanted` must end the round of
  // such a piece before it returns.
  template <typename IsUnwanted>
  void EraseIf(IsUnwanted&& is_unwanted) {
    for (auto it = pieces_.begin(); it != pieces_.end();) {
      it = is_unwanted(it->second) ? pieces_.erase(it) : std::next(it);
    }
  }
  // Forgets everything, because a generation begins.
  void Clear();

  // Retires the tensors, because the ranks disagree about what their name means in this use
  // (wire/round.h).
  void Retire(const std::vector<TensorId>& tensors, uint64_t use);
  bool IsRetired(TensorId tensor) const { return retired_.contains(tensor); }
  // Returns whether the round belongs to the use in which the ranks disagree, or to a later use.
  bool IsVoid(const wire::PieceRef& ref) const {
    auto found = retired_.find(ref.tensor);
    return found != retired_.end() && wire::UseOf(ref.round) >= found->second;
  }
  // Forgets the tensors, because all ranks have let go of them. REQUIRES: their pieces are erased.
  void Forget(const std::vector<TensorId>& tensors);
  bool IsForgotten(TensorId tensor) const { return forgotten_.Contains(tensor); }
  // Calls `act` for the pieces of retired tensors. `act` must erase no piece.
  template <typename Do>
  void ForEachOfRetired(Do&& act) {
    for (uint64_t key : of_retired_) {
      auto found = pieces_.find(key);
      if (found != pieces_.end()) act(found->second);
    }
  }
  // Erases the pieces of retired tensors that no member waits for any more. Such a piece has no
  // round. It has no verdict either, or a stable verdict that need not be remembered, as
  // `is_unwanted` says.
  template <typename IsUnwanted>
  void EraseSettled(IsUnwanted&& is_unwanted) {
    std::erase_if(of_retired_, [&](uint64_t key) {
      auto found = pieces_.find(key);
      if (found == pieces_.end()) return true;
      const Piece& piece = found->second;
      if (piece.round != nullptr || !piece.verdict.stable()) return false;
      if (piece.verdict.round() != 0 && !is_unwanted(piece)) return false;
      pieces_.erase(found);
      return true;
    });
  }

  // Counts the pieces with a verdict that a member may still lack. Takes time.
  size_t unstable_count() const;

 private:
  static uint64_t KeyOf(const wire::PieceRef& ref) {
    return (uint64_t{ref.tensor} << 32) | ref.piece;
  }

  std::unordered_map<uint64_t, Piece> pieces_;
  std::unordered_map<TensorId, uint64_t> retired_;  // with the use in which the ranks disagree
  std::unordered_set<uint64_t> of_retired_;         // keys of their pieces; some may be erased
  NumberRanges forgotten_;
};

}  // namespace byteps::protocol
