// A piece as lanes hand it to each other: its last verdict, and how far the exchange that is going
// on has come with it. Values; the bytes are copies, because a buffer belongs to one lane.
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

// The last verdict of a piece that a member has in hand, without its bytes.
struct HeldVerdict {
  uint64_t round = 0;   // 0: none
  uint64_t number = 0;  // that the owner gave its answer on this connection; 0: none yet
  bool stable = true;   // nobody lacks it
  bool told = false;    // the owner has been told of it and has not answered
  bool empty = false;   // this rank wanted nothing of the piece and has only the receipt
  StatusCode status = StatusCode::kOk;
  uint8_t codec = 0;
  Receipt receipt;
  uint32_t piece_bytes = 0;  // decoded
};

// A piece whose new owner belongs to another lane.
struct MovedPiece {
  TensorFacts tensor;
  bool retired = false;  // its name has failed: only the verdict counts
  uint32_t number = 0;
  ShardId home = 0;
  HeldVerdict held;
  std::vector<std::byte> copy;  // of a held verdict that others may lack, as it was sent
  // The exchange that it has not ended for here; null: none is going on.
  const Exchange* exchange = nullptr;
  uint64_t round = 0;    // that it is pushed for
  bool set_out = false;  // it has had its credit
  // Where on its path it is, and what stages have made of it.
  size_t at = 0;
  std::optional<std::vector<std::byte>> contribution;
  std::optional<std::vector<std::byte>> answer;  // behind the exchange
  std::optional<Status> failure;                 // its owner is asked for this error
  std::vector<std::byte> kept;                   // by stages, from round to round
};

}  // namespace byteps::protocol
