// A piece as lanes hand it to each other: its last verdict, and its progress in the open exchange.
// All values; the bytes are copies, because a buffer belongs to one lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/slot_set.h"
#include "src/base/status.h"
#include "src/protocol/worker/exchange/exchange.h"

namespace byteps::protocol {

// The last verdict of a piece that a member holds, without its bytes.
struct HeldVerdict {
  uint64_t round = 0;   // 0: there is no verdict
  uint64_t number = 0;  // number of the owner's answer on this connection; 0: none yet
  bool stable = true;   // no member lacks it
  bool told = false;    // the owner has been told of it and has not answered
  bool empty = false;   // this rank wanted nothing of the piece and has only the receipt
  StatusCode status = StatusCode::kOk;
  uint8_t codec = 0;
  Receipt receipt;
  uint32_t piece_bytes = 0;  // size of the decoded piece
};

// A piece whose new owner belongs to another lane.
struct MovedPiece {
  TensorFacts tensor;
  bool retired = false;  // its name has failed: only the verdict counts
  uint32_t number = 0;
  ShardId home = 0;
  HeldVerdict held;
  std::vector<std::byte> copy;  // bytes, as sent, of a held verdict that others may lack
  // The exchange in which this piece has not ended here; null: there is none.
  const Exchange* exchange = nullptr;
  uint64_t round = 0;    // the round for which it is pushed
  bool set_out = false;  // it has received its credit
  // The piece's place on its path, and the results of the stages before it.
  size_t at = 0;
  std::optional<std::vector<std::byte>> contribution;
  std::optional<std::vector<std::byte>> answer;  // bytes of the answer behind the exchange
  std::optional<Status> failure;                 // the error that its owner is asked for
  std::vector<std::byte> kept;                   // what stages keep from round to round
};

}  // namespace byteps::protocol
