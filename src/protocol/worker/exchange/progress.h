// What the lanes have said of an exchange: it has ended when every lane has said so and all pieces
// are accounted for. Then nothing touches its memory any more. One thread at a time.
#pragma once

#include <cstdint>

#include "src/protocol/worker/exchange/mail.h"

namespace byteps::protocol {

// Lanes of a worker. More threads than this have never helped a network.
inline constexpr uint32_t kLanesMax = 64;

class ExchangeProgress {
 public:
  // An attempt begins.
  // REQUIRES: lanes <= kLanesMax.
  void Begin(uint32_t lanes) {
    *this = ExchangeProgress();
    silent_ = ~uint64_t{0} >> (kLanesMax - lanes);
  }
  void Add(const to_front::PartDone& part) {
    silent_ &= ~(uint64_t{1} << part.lane);
    pieces_ += part.pieces;
    mixed_ = mixed_ || part.mixed;
    if (part.receipt != nullptr) mixed_ = NarrowReceipt(receipt_, part.receipt) || mixed_;
    // On every rank it is the first piece's error, whichever came first.
    if (part.status.ok() || (!status_.ok() && part.failed_piece > failed_piece_)) return;
    failed_piece_ = part.failed_piece;
    status_ = part.status;
  }
  bool IsComplete(uint32_t pieces) const { return silent_ == 0 && pieces_ >= pieces; }

  const Status& status() const { return status_; }
  const Receipt& receipt() const { return receipt_; }  // who is in all pieces
  bool mixed() const { return mixed_; }                // some pieces have more

 private:
  uint64_t silent_ = 0;  // lanes that have said nothing, a bit for each
  uint32_t pieces_ = 0;
  Receipt receipt_;
  bool mixed_ = false;
  uint32_t failed_piece_ = 0;
  Status status_;
};

}  // namespace byteps::protocol
