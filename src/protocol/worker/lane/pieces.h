// The pieces that a lane carries, by tensor and number, and who owns them.
//
// A piece is in the lane of the shard that owns it; while no shard lives, in that of its home. What
// this lane does not carry is kAway here. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/plan/ownership.h"
#include "src/plan/priority_credit_queue.h"
#include "src/protocol/worker/exchange/moved_piece.h"
#include "src/protocol/worker/lane/exchange_part.h"
#include "src/protocol/worker/lane/piece_path.h"
#include "src/wire/data.h"

namespace byteps::protocol {

inline constexpr ShardId kNoShard = UINT32_MAX;

enum class PieceStep : uint8_t {
  kAway,      // in another lane, or it has never been used
  kQueued,    // waits for credit
  kUnderWay,  // walks its path
  kDone,
};

struct LanePiece {
  ShardId home = 0;
  ShardId owner = kNoShard;
  uint64_t since = 0;  // the epoch in which it came to its owner
  PieceStep step = PieceStep::kAway;
  plan::PriorityCreditQueue::Ticket ticket = 0;
  uint64_t round = 0;  // that it is pushed for
  // While the exchange is open: where its bytes lie, where on its path it is, and what stages have
  // made of it.
  Spans spans;
  size_t at = 0;
  PieceBytes contribution;
  PieceBytes answer;
  // Of the stage in which it waits: what that makes, and which entry of the lane this is; 0: none.
  PieceBytes output;
  uint64_t entry = 0;
  // Its owner is asked for this error instead of pushed to.
  std::unique_ptr<Status> failure;
  HeldVerdict held;
  // Of the held verdict, while others may lack it and the user's memory is the user's.
  BufferRef copy;
  uint32_t copy_bytes = 0;
};

inline const PiecePath kOnlyTheExchange;

struct LaneTensor {
  TensorFacts facts;
  std::vector<LanePiece> pieces;  // by number; those of earlier cuts stay
  uint64_t last_round = 0;        // of the last exchange, its first attempt
  bool retired = false;           // its name has failed: only its verdicts count
  // The exchange that is going on, while pieces of it are to be done here.
  const Exchange* exchange = nullptr;
  const PiecePath* path = &kOnlyTheExchange;  // of the pieces of it
  ExchangePart part;                          // of it

  bool IsOpen(uint32_t number) const {
    return exchange != nullptr && number >= exchange->first_piece && number < exchange->end() &&
           pieces[number].step != PieceStep::kAway;
  }
  bool HoldsAny() const;  // a verdict
  // Others may lack a verdict of it.
  bool HoldsUnstable() const;
  // It has set out and its verdict is not here.
  bool HasCredit(const LanePiece& piece) const {
    return piece.step == PieceStep::kUnderWay && piece.at <= path->before.size();
  }
  // It has been pushed, or shall be when its owner is connected.
  bool AtExchange(const LanePiece& piece) const {
    return piece.step == PieceStep::kUnderWay && piece.at == path->before.size();
  }
  // The same, in this round.
  bool IsExpected(const wire::PieceRef& ref) const {
    return IsOpen(ref.piece) && AtExchange(pieces[ref.piece]) &&
           ref.round == pieces[ref.piece].round;
  }
};

class Pieces {
 public:
  Pieces(uint32_t lane, uint32_t lanes) : lane_(lane), lanes_(lanes) {}

  void Clear();
  void SetOwnership(plan::Ownership ownership) { ownership_ = std::move(ownership); }
  const plan::Ownership& ownership() const { return ownership_; }

  LaneTensor* Find(TensorId tensor);
  LaneTensor& FindOrAdd(const TensorFacts& facts);
  // Its name has failed. It stays if it has a verdict: others may lack that, or not know that
  // nobody does.
  void Retire(TensorId tensor);
  // All ranks have let go of it. REQUIRES: no exchange of it is open.
  void Forget(TensorId tensor);
  void EraseEmpty();  // retired ones whose verdicts are in other lanes now
  // Every tensor, in a fixed order.
  const std::map<TensorId, std::unique_ptr<LaneTensor>>& all() const { return tensors_; }

  // The lane that carries the piece by the present view.
  uint32_t LaneOf(const LanePiece& piece) const {
    return (piece.owner == kNoShard ? piece.home : piece.owner) % lanes_;
  }
  bool IsHere(const LanePiece& piece) const { return LaneOf(piece) == lane_; }
  // Who owns it now, and since when.
  void FindOwner(TensorId tensor, uint32_t number, LanePiece& piece) const;
  // Finds the owners of all pieces of the exchange that are not carried here yet; those that are
  // to be carried here become kDone, to be queued.
  void Meet(LaneTensor& tensor, const Exchange& exchange) const;

 private:
  const uint32_t lane_;
  const uint32_t lanes_;
  plan::Ownership ownership_;
  std::map<TensorId, std::unique_ptr<LaneTensor>> tensors_;
  std::unordered_map<TensorId, LaneTensor*> by_id_;  // the same, found faster
};

}  // namespace byteps::protocol
