// The pieces that a lane carries, by tensor and number, and their owners.
//
// A piece is in the lane of the shard that owns it. While no shard lives, it is in the lane of its
// home. A piece that this lane does not carry is kAway here. One thread at a time.
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
  kAway,      // in another lane, or never used
  kQueued,    // waits for credit
  kUnderWay,  // walks its path
  kDone,
};

struct LanePiece {
  ShardId home = 0;
  ShardId owner = kNoShard;
  uint64_t since = 0;  // the epoch in which its owner got it
  PieceStep step = PieceStep::kAway;
  plan::PriorityCreditQueue::Ticket ticket = 0;
  uint64_t round = 0;  // the round for which it is pushed
  // These are in use while the exchange is open: where the piece's bytes lie, where on its path it
  // is, and the results of the stages.
  Spans spans;
  size_t at = 0;
  PieceBytes contribution;
  PieceBytes answer;
  // The result of the stage in which the piece waits, and the number of this entry into a stage; 0:
  // it does not wait in a stage.
  PieceBytes output;
  uint64_t entry = 0;
  // The error that the owner is asked for, instead of a push.
  std::unique_ptr<Status> failure;
  HeldVerdict held;
  // A copy of the held verdict, while others may lack it and its memory belongs to the user.
  BufferRef copy;
  uint32_t copy_bytes = 0;
};

inline const PiecePath kOnlyTheExchange;

struct LaneTensor {
  TensorFacts facts;
  std::vector<LanePiece> pieces;  // by number; pieces of earlier cuts stay
  uint64_t last_round = 0;        // round of the last exchange, in its first attempt
  bool retired = false;           // its name has failed: only its verdicts count
  // The open exchange, while pieces of it are to be done here.
  const Exchange* exchange = nullptr;
  const PiecePath* path = &kOnlyTheExchange;  // path of the exchange's pieces
  ExchangePart part;                          // this lane's part of the exchange

  bool IsOpen(uint32_t number) const {
    return exchange != nullptr && number >= exchange->first_piece && number < exchange->end() &&
           pieces[number].step != PieceStep::kAway;
  }
  bool HoldsAny() const;  // whether it holds a verdict
  // Returns whether it holds a verdict that others may lack.
  bool HoldsUnstable() const;
  // Returns whether the piece has set out and its verdict is not here.
  bool HasCredit(const LanePiece& piece) const {
    return piece.step == PieceStep::kUnderWay && piece.at <= path->before.size();
  }
  // Returns whether the piece has been pushed, or will be when its owner is connected.
  bool AtExchange(const LanePiece& piece) const {
    return piece.step == PieceStep::kUnderWay && piece.at == path->before.size();
  }
  // Returns the same for the piece in this round.
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
  // Retires the tensor, because its name has failed. It stays if it has a verdict: others may lack
  // the verdict, or not know that all members have it.
  void Retire(TensorId tensor);
  // Forgets the tensor, because all ranks have let go of it. REQUIRES: no exchange of it is open.
  void Forget(TensorId tensor);
  void EraseEmpty();  // erases retired tensors whose verdicts are in other lanes now
  // Returns every tensor, in a fixed order.
  const std::map<TensorId, std::unique_ptr<LaneTensor>>& all() const { return tensors_; }

  // Returns the lane that carries the piece in the present view.
  uint32_t LaneOf(const LanePiece& piece) const {
    return (piece.owner == kNoShard ? piece.home : piece.owner) % lanes_;
  }
  bool IsHere(const LanePiece& piece) const { return LaneOf(piece) == lane_; }
  // Finds the piece's present owner, and since when it owns the piece.
  void FindOwner(TensorId tensor, uint32_t number, LanePiece& piece) const;
  // Finds the owners of all pieces of the exchange that are not carried here yet. Pieces that are
  // to be carried here become kDone; the caller queues them.
  void Meet(LaneTensor& tensor, const Exchange& exchange) const;

 private:
  const uint32_t lane_;
  const uint32_t lanes_;
  plan::Ownership ownership_;
  std::map<TensorId, std::unique_ptr<LaneTensor>> tensors_;
  std::unordered_map<TensorId, LaneTensor*> by_id_;  // the same tensors, found faster
};

}  // namespace byteps::protocol
