// OpenRounds: the rounds that a rank has begun and that have not ended for it, by key and by the
// serial of their exchange. A rank lets go of an exchange's memory here and nowhere else; copies
// from and to devices that have begun go on (BlockWork::Forget).
//
// `Extra`: the state that a lane keeps of each round beside its exchange. A value; one thread at a
// time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "src/base/time.h"
#include "src/machine/room/block_work.h"
#include "src/machine/room/words.h"
#include "src/protocol/worker/exchange/exchange.h"
#include "src/protocol/worker/exchange/mail.h"
#include "src/wire/join_word.h"

namespace byteps::machine {

inline RoundKey KeyOf(const protocol::Exchange& exchange) {
  return {exchange.tensor.id, exchange.use, exchange.first_piece};
}

template <typename Extra>
class OpenRounds {
 public:
  struct Round {
    const protocol::Exchange* exchange = nullptr;
    Extra extra{};
  };

  // `work` outlives this object. It hears when an exchange's memory goes.
  explicit OpenRounds(BlockWork& work) : work_(work) {}

  // Adds the round of `exchange`, which the front keeps until it is withdrawn or has ended.
  Round& Begin(const protocol::Exchange& exchange) {
    const RoundKey key = machine::KeyOf(exchange);
    keys_[exchange.serial] = key;
    return rounds_[key] = {&exchange, {}};
  }
  // Returns null if the round is not open.
  Round* Find(const RoundKey& key) {
    auto found = rounds_.find(key);
    return found == rounds_.end() ? nullptr : &found->second;
  }
  // Returns the round of the exchange with this serial, if it is open.
  std::optional<RoundKey> KeyOf(uint64_t serial) const {
    auto found = keys_.find(serial);
    return found == keys_.end() ? std::nullopt : std::optional(found->second);
  }
  template <typename Predicate>
  bool Any(const Predicate& predicate) const {
    return std::ranges::any_of(rounds_, [&](const auto& one) { return predicate(one.second); });
  }

  // Ends the round here: BlockWork forgets the exchange. Returns what the lane
  // knew of it. REQUIRES: the round is open.
  Extra End(const RoundKey& key) {
    auto round = rounds_.extract(key);
    work_.Forget(*round.mapped().exchange);
    keys_.erase(round.mapped().exchange->serial);
    return std::move(round.mapped().extra);
  }

 private:
  BlockWork& work_;
  std::map<RoundKey, Round> rounds_;
  std::map<uint64_t, RoundKey> keys_;
};

// Returns the operations that a rank has taken part in, if the exchange is its join; 0: it is none.
inline uint32_t OperationsOf(const protocol::Exchange& exchange) {
  if (exchange.tensor.combine != Combine::kLast) return 0;
  return wire::OperationsOfJoin(exchange.spans->SpansOf(exchange.first_piece).push);
}

// Return the errors of a rank whose copy from or to a device has failed. `rank`: of the job.
inline Status ErrorOfNoInput(uint32_t rank, const protocol::Exchange& exchange, const Status& why) {
  return {why.code(), "rank " + std::to_string(rank) + " has no input for tensor '" +
                          std::string(exchange.name) + "': " + why.message()};
}
inline Status ErrorOfNoResult(const protocol::Exchange& exchange, const Status& why) {
  return {why.code(), "tensor '" + std::string(exchange.name) + "': " + why.message()};
}

// Returns the word to the front that an exchange that it has withdrawn is out of use.
inline protocol::to_front::Released ReleasedOf(const protocol::Exchange& exchange) {
  return {0, exchange.serial, exchange.tensor.id};
}

// Returns the word to the front that all pieces of an exchange have ended so; the lane adds the
// receipt.
inline protocol::to_front::PartDone PartOf(const protocol::Exchange& exchange, const Status& how,
                                           Time now) {
  protocol::to_front::PartDone part;
  part.serial = exchange.serial;
  part.tensor = exchange.tensor.id;
  part.pieces = exchange.count;
  part.status = how;
  part.now = now;
  if (!how.ok()) part.failed_piece = exchange.first_piece;
  return part;
}

}  // namespace byteps::machine
