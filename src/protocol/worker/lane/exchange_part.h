// A lane's part of an exchange: how many pieces the lane still has to do, for how many pieces this
// rank still lacks the bytes that it wants, and the lane's report to the front. Each piece is added
// once; after that it is done once or removed once. One thread at a time.
#pragma once

#include <cstdint>
#include <utility>

#include "src/base/slot_set.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/protocol/worker/exchange/mail.h"
#include "src/protocol/worker/exchange/moved_piece.h"

namespace byteps::protocol {

class ExchangePart {
 public:
  // Begins the exchange, or another attempt at it, without any piece.
  void Begin(uint32_t lane, const Exchange& exchange) {
    *this = ExchangePart();
    part_.lane = lane;
    part_.serial = exchange.serial;
    part_.tensor = exchange.tensor.id;
  }

  // Adds a piece that is to be done here.
  void Add(bool lacks_bytes) {
    ++remaining_;
    if (lacks_bytes) ++lacking_;
  }
  // Removes a piece that goes to another lane.
  void Remove(bool lacks_bytes) {
    --remaining_;
    if (lacks_bytes) --lacking_;
  }
  // Notes that a piece has brought the bytes that this rank lacked.
  void TakeBytes() { --lacking_; }
  // Notes that a piece is done, with this verdict.
  void Done(const HeldVerdict& verdict) {
    --remaining_;
    Count(verdict);
  }
  // Counts the verdict of a piece that was done before this attempt, and was not added to it.
  void Count(const HeldVerdict& verdict) {
    ++part_.pieces;
    if (verdict.status != StatusCode::kOk) return;
    part_.mixed = NarrowReceipt(part_.receipt, verdict.receipt) || part_.mixed;
  }
  // Notes the error of a piece: its verdict is an error, or this rank cannot go on with the piece.
  // The error of the piece with the lowest number counts, so that every rank reports the same
  // error.
  void Fail(uint32_t number, const Status& why) {
    if (!part_.status.ok() && number >= part_.failed_piece) return;
    part_.failed_piece = number;
    part_.status = why;
  }

  bool AllDone() const { return remaining_ == 0; }
  bool LacksBytes() const { return lacking_ > 0; }

  // Returns the report to the front, at this time. REQUIRES: AllDone(); at most one call after each
  // Begin.
  to_front::PartDone Take(Time now) {
    part_.now = now;
    return std::exchange(part_, {});
  }

 private:
  uint32_t remaining_ = 0;
  uint32_t lacking_ = 0;
  to_front::PartDone part_;
};

}  // namespace byteps::protocol
