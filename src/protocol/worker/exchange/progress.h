// The reports of the lanes about an exchange. An exchange has ended when every lane has reported
// and all pieces are accounted for. Then nothing touches its memory any more. One thread at a time.
#pragma once

#include <cstdint>

#include "src/protocol/worker/exchange/mail.h"

namespace byteps::protocol {

// The maximum number of lanes of a worker. More threads than this have never helped a network.
inline constexpr uint32_t kLanesMax = 64;

class ExchangeProgress {
 public:
  // Begins an attempt. REQUIRES: lanes <= kLanesMax.
  void Begin(uint32_t lanes) {
    *this = ExchangeProgress();
    silent_ = ~uint64_t{0} >> (kLanesMax - lanes);
  }
  void Add(const to_front::PartDone& part) {
    silent_ &= ~(uint64_t{1} << part.lane);
    pieces_ += part.pieces;
    mixed_ = mixed_ || part.mixed;
    if (part.receipt != nullptr) mixed_ = NarrowReceipt(receipt_, part.receipt) || mixed_;
    // Every rank reports the error of the first piece, in whatever order the errors came.
    if (part.status.ok() || (!status_.ok() && part.failed_piece > failed_piece_)) return;
    failed_piece_ = part.failed_piece;
    status_ = part.status;
  }
  bool IsComplete(uint32_t pieces) const { return silent_ == 0 && pieces_ >= pieces; }

  const Status& status() const { return status_; }
  const Receipt& receipt() const { return receipt_; }  // members that are in all pieces
  bool mixed() const { return mixed_; }                // some pieces have more members

 private:
  uint64_t silent_ = 0;  // lanes that have not reported, one bit for each
  uint32_t pieces_ = 0;
  Receipt receipt_;
  bool mixed_ = false;
  uint32_t failed_piece_ = 0;
  Status status_;
};

}  // namespace byteps::protocol
