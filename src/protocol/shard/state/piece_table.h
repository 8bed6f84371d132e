// The pieces of a shard: of each, since when the shard owns it, its last verdict, and the round in
// progress. And the tensors that are retired, because the ranks disagree about their name: no round
// of them begins from the use in which they disagree on. The rounds before it end like all others,
// because some rank has their verdicts. And the tensors that are forgotten, because all ranks have
// let go of them: what a member still says of one, perhaps late, counts for nothing.
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
  std::unique_ptr<Round> round;  // null: none is in progress
};

// One thread at a time. A piece stays where it is until it is erased.
class PieceTable {
 public:
  // Null: nothing is known of it.
  Piece* Find(const wire::PieceRef& ref) {
    auto found = pieces_.find(KeyOf(ref));
    return found == pieces_.end() ? nullptr : &found->second;
  }
  const Piece* Find(const wire::PieceRef& ref) const {
    auto found = pieces_.find(KeyOf(ref));
    return found == pieces_.end() ? nullptr : &found->second;
  }
  // Makes the piece if nothing is known of it; it is owned since `since`.
  Piece& At(const wire::PieceRef& ref, ShardId home, uint64_t since) {
    Piece& piece = pieces_[KeyOf(ref)];
    if (!retired_.empty() && IsRetired(ref.tensor)) of_retired_.insert(KeyOf(ref));
    piece.tensor = ref.tensor;
    piece.index = ref.piece;
    piece.home = home;
    piece.since = since;
    return piece;
  }
  // The piece if `ref` is its round in progress, null otherwise.
  Piece* FindOpen(const wire::PieceRef& ref) {
    Piece* piece = Find(ref);
    bool open = piece != nullptr && piece->round != nullptr && piece->round->ref() == ref;
    return open ? piece : nullptr;
  }

  template <typename Do>
  void ForEach(Do&& act) {
    for (auto& [key, piece] : pieces_) act(piece);
  }
  // Erases those of which `is_unwanted` says so. Its rounds must be ended by then.
  template <typename IsUnwanted>
  void EraseIf(IsUnwanted&& is_unwanted) {
    for (auto it = pieces_.begin(); it != pieces_.end();) {
      it = is_unwanted(it->second) ? pieces_.erase(it) : std::next(it);
    }
  }
  // A generation begins.
  void Clear();

  // The ranks disagree about what their name stands for in this use (wire/round.h).
  void Retire(const std::vector<TensorId>& tensors, uint64_t use);
  bool IsRetired(TensorId tensor) const { return retired_.contains(tensor); }
  // The round is of the use in which the ranks disagree, or of a later one.
  bool IsVoid(const wire::PieceRef& ref) const {
    auto found = retired_.find(ref.tensor);
    return found != retired_.end() && wire::UseOf(ref.round) >= found->second;
  }
  // All ranks have let go of these. Their pieces must be erased by then.
  void Forget(const std::vector<TensorId>& tensors);
  bool IsForgotten(TensorId tensor) const { return forgotten_.Contains(tensor); }
  // Pieces of retired tensors; `act` erases none.
  template <typename Do>
  void ForEachOfRetired(Do&& act) {
    for (uint64_t key : of_retired_) {
      auto found = pieces_.find(key);
      if (found != pieces_.end()) act(found->second);
    }
  }
  // Erases those of them that nobody waits for any more: they have no round, and a stable verdict
  // that `is_unwanted` says need not be remembered, or none.
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

  // Pieces with a verdict that somebody may still lack. Takes time.
  size_t unstable_count() const;

 private:
  static uint64_t KeyOf(const wire::PieceRef& ref) {
    return (uint64_t{ref.tensor} << 32) | ref.piece;
  }

  std::unordered_map<uint64_t, Piece> pieces_;
  std::unordered_map<TensorId, uint64_t> retired_;  // with the use
  std::unordered_set<uint64_t> of_retired_;         // keys; some may be erased
  NumberRanges forgotten_;
};

}  // namespace byteps::protocol
