// The facts of an exchange that a rank's lane tells the carrier, in both kinds of job. Pure.
#pragma once

#include "src/machine/room/words.h"
#include "src/protocol/worker/exchange/exchange.h"
#include "src/wire/join_word.h"

namespace byteps::machine {

inline RoundKey KeyOf(const protocol::Exchange& exchange) {
  return {exchange.tensor.id, exchange.use, exchange.first_piece};
}

// Returns the value of Begun::operations.
inline uint32_t OperationsOf(const protocol::Exchange& exchange) {
  if (exchange.tensor.combine != Combine::kLast) return 0;
  return wire::OperationsOfJoin(exchange.spans->SpansOf(exchange.first_piece).push);
}

}  // namespace byteps::machine
