// RoundBook: the ranks of a machine that have begun each round, and those that have joined or left.
// Both kinds of carrier keep one. It decides nothing and tells nobody: each carrier looks at its
// rounds by its own rules.
//
// `Extra`: the state that a carrier keeps of each round beside that. A value; one thread at a time.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "src/machine/room/words.h"
#include "src/wire/join_word.h"

namespace byteps::machine {

template <typename Extra>
class RoundBook {
 public:
  struct Round {
    RankSet ranks = 0;  // the ranks of the process set
    bool is_join = false;
    RankSet begun = 0;
    wire::LastToJoin last;
    // The carrier has let the round go on with the ranks that have begun it: it waits for no more.
    bool is_decided = false;
    Extra extra{};
  };

  // Notes that `rank` has begun the round. Returns null if nobody takes part in it any more,
  // because the tensor was retired, and if the rank has said before that it leaves: then it never
  // brings its part. The first rank of a round says which ranks it has.
  Round* Begin(uint32_t rank, const RoundKey& key, RankSet ranks, bool is_join,
               uint32_t operations) {
    auto retired = retired_.find(key.tensor);
    if (retired != retired_.end() && key.use >= retired->second) return nullptr;
    if (Has(left_, rank)) return nullptr;
    auto [place, is_new] = rounds_.try_emplace(key);
    Round& round = place->second;
    if (is_new) {
      round.ranks = ranks;
      round.is_join = is_join;
    }
    round.begun |= Bit(rank);
    round.last.Take(rank, operations);
    return &round;
  }

  // Notes that the rank takes part in nothing but joins, until all ranks have joined (EndJoin).
  void Join(uint32_t rank) { joined_ |= Bit(rank); }
  void EndJoin() { joined_ = 0; }
  RankSet joined() const { return joined_; }

  // Notes that the rank has left. It takes the rank out of every round that the carrier has not
  // decided: the rank never brings its part.
  void Leave(uint32_t rank) {
    left_ |= Bit(rank);
    for (auto& [key, round] : rounds_) {
      if (!round.is_decided) round.begun &= ~Bit(rank);
    }
  }
  RankSet left() const { return left_; }

  // Returns the ranks that the round waits for. A join waits for every rank.
  RankSet Missing(const Round& round) const {
    return round.ranks & ~round.begun & ~(round.is_join ? RankSet{0} : joined_);
  }
  // Returns those of them that never come.
  RankSet Gone(const Round& round) const { return Missing(round) & left_; }
  // Returns whether no rank will begin the round later, so that nobody has still to hear its end.
  bool IsLast(const Round& round) const { return (Missing(round) & ~left_) == 0; }

  // From this use on the ranks disagree about the tensor: nobody begins its rounds any more. The
  // carrier ends those that are open.
  void Retire(TensorId tensor, uint64_t from_use) { retired_.try_emplace(tensor, from_use); }
  bool IsRetired(TensorId tensor) const { return retired_.contains(tensor); }
  // All ranks have let go of the tensor.
  void Forget(TensorId tensor) { retired_.erase(tensor); }

  // Returns null if the round is not known.
  Round* Find(const RoundKey& key) {
    auto found = rounds_.find(key);
    return found == rounds_.end() ? nullptr : &found->second;
  }
  void Erase(const RoundKey& key) { rounds_.erase(key); }
  // Returns the rounds at this moment. A caller that ends one round may end others by that.
  std::vector<RoundKey> Keys() const {
    std::vector<RoundKey> keys;
    keys.reserve(rounds_.size());
    for (const auto& [key, round] : rounds_) keys.push_back(key);
    return keys;
  }
  // Returns the rounds of a tensor from this use on.
  std::vector<RoundKey> KeysOf(TensorId tensor, uint64_t from_use) const {
    std::vector<RoundKey> keys;
    for (auto place = rounds_.lower_bound({tensor, from_use, 0});
         place != rounds_.end() && place->first.tensor == tensor; ++place) {
      keys.push_back(place->first);
    }
    return keys;
  }
  // Forgets all but the ranks that have left.
  void Clear() {
    rounds_.clear();
    retired_.clear();
    joined_ = 0;
  }

 private:
  std::map<RoundKey, Round> rounds_;
  std::map<TensorId, uint64_t> retired_;  // from which use on
  RankSet joined_ = 0;
  RankSet left_ = 0;
};

}  // namespace byteps::machine
