// The stages of a piece (data_path.h has their list): each does one thing with one piece and knows
// nothing of the others. The lane walks a piece along its path once it has credit.
#pragma once

#include <functional>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/protocol/data_path.h"
#include "src/protocol/worker/exchange.h"

namespace byteps::protocol {

// Names a piece in one round. One that is outdated is harmless.
struct PieceTicket {
  TensorId tensor = 0;
  uint32_t number = 0;
  uint64_t round = 0;
  friend bool operator==(const PieceTicket&, const PieceTicket&) = default;
};

// Bytes that stages have made of a piece's, in a buffer of the lane's pool.
struct PieceBytes {
  bool there = false;
  BufferRef buffer;
  uint32_t offset = 0;
  uint32_t bytes = 0;
  ConstByteSpan span() const { return {buffer.data() + offset, bytes}; }
};

// What is there of a piece. A stage reads and writes what it is for.
struct PieceInHand {
  const Exchange& exchange;
  const PieceTicket ticket;
  const Spans spans;
  // What is pushed instead of spans.push. It is the piece's until its round is decided.
  PieceBytes& contribution;
  // Behind the exchange: the verdict as it came, if it did not go straight to spans.want.
  const PieceBytes& answer;
  // Of a stage that fails: why.
  Status error;
};

class PieceStage {
 public:
  virtual ~PieceStage() = default;
  // Does not block. kPending: the lane's Resume with this ticket continues the walk, with the
  // stage's end; until then only what it has put into `piece` stays, and the memory of its spans.
  // kFailed: before the exchange the piece's owner is asked to end the round in this error, on
  // every rank; behind it this rank gives up, the others have their result.
  virtual StageVerdict Enter(PieceInHand& piece) = 0;
  // A piece that waits in this stage goes no further here: nothing may touch its memory after this.
  virtual void Abandon(const PieceTicket& /*ticket*/) {}
};

// In order. The lane's own stage, the exchange, must be one of them.
using PiecePath = std::vector<PieceStage*>;
using PiecePaths = std::function<PiecePath(const TensorFacts& tensor, PieceStage* exchange)>;

}  // namespace byteps::protocol
