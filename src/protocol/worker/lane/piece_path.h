// The stages of a piece (data_path.h has their list). Each stage does one thing with one piece and
// knows nothing of the others. The lane walks a piece along its path once it has credit. The
// exchange with the shards belongs to the lane itself. A lane makes its stages through
// MakePiecePaths (WorkerOptions::paths) and calls them only on its thread, so stages share nothing
// with the stages of other lanes.
//
// In each use of a tensor a piece passes each stage once, even if the lane pushes the piece several
// times (after a loss, or in another attempt). Each stage takes the result of the stage before it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/protocol/codec.h"
#include "src/protocol/data_path.h"
#include "src/protocol/worker/exchange/exchange.h"

namespace byteps::protocol {

// Names one entry of a piece into a stage. A ticket that is out of date does no harm.
struct PieceTicket {
  TensorId tensor = 0;
  uint32_t number = 0;
  uint64_t round = 0;
  uint64_t entry = 0;  // unique among all entries of this worker
  friend bool operator==(const PieceTicket&, const PieceTicket&) = default;
};

// Bytes that stages have made from a piece's bytes, in a buffer of the lane's pool.
struct PieceBytes {
  bool there = false;
  BufferRef buffer;
  uint32_t offset = 0;
  uint32_t bytes = 0;
  ConstByteSpan span() const { return {buffer.data() + offset, bytes}; }
};

// A piece in a stage.
struct PieceInHand {
  const Exchange& exchange;
  const PieceTicket ticket;
  const Spans spans;  // the user's memory
  // The end of the round; kOk before the exchange. After an error the pushed bytes do not count,
  // and the stages behind the exchange are entered without an input. There a stage that keeps
  // something takes back what it did before the exchange. The piece may not have entered that stage
  // before the exchange.
  const StatusCode verdict;
  // The result of the stages so far; read only. Before the exchange it is made from spans.push, and
  // is spans.push itself at first. Behind the exchange it is made from the verdict's bytes, and is
  // these bytes as received at first. It has no value behind the exchange if there is nothing to
  // do: the round has ended in an error, this rank wants nothing of the piece, or the bytes lie in
  // spans.want.
  const std::optional<ConstByteSpan> input;
  // Behind the exchange only the stage that stores the bytes may write to spans.want. Other stages
  // fill `output` (PiecePath::staged).
  const bool staged;
  BufferPool& pool;  // of the path, else of the lane
  // A stage that makes a result puts it here, in a buffer of `pool`. The next stage gets it as its
  // input. The lane pushes the result of the last stage before the exchange.
  PieceBytes& output;
  // The reason, if the stage fails.
  Status error;
  // The buffer of the input. A stage that is abandoned may keep it, and what it still does with the
  // input does no harm then. None: the input lies in the spans.
  BufferRef input_buffer = {};

  // Takes a buffer of `bytes` bytes as the output. The bytes stay in place, and belong to the
  // piece, until the walk goes on or Abandon.
  ByteSpan MakeOutput(size_t bytes) {
    output = {true, pool.Take(bytes), 0, static_cast<uint32_t>(bytes)};
    return {output.buffer.data(), bytes};
  }
};

class PieceStage {
 public:
  virtual ~PieceStage() = default;
  // Enters the stage. Does not block.
  // kPending: the stage has begun something, and its ResumePiece continues the walk when the stage
  // ends. Until then the input, the output and the memory of the spans stay, and another thread may
  // read and fill them. `piece` itself is valid only during this call.
  // kFailed before the exchange: the lane asks the piece's owner to end the round on every rank,
  // with this error. kFailed behind the exchange: this rank gives up, and the others have their
  // result.
  virtual StageVerdict Enter(PieceInHand& piece) = 0;
  // Abandons a piece that waits in this stage. What the stage has begun with the piece does not
  // count. Nothing may touch the piece's memory after this call, which may wait a moment for work
  // that is under way. Memory of a device may still be touched, if whoever has begun the operation
  // waits for that before the memory is the user's again. The same piece may enter this stage anew
  // in another lane. No stage hears that a pushed piece is withdrawn; Retire or the lane's end
  // follows.
  virtual void Abandon(const PieceTicket& /*ticket*/) {}
};

// The stages before and behind the exchange, in order. None is null.
struct PiecePath {
  std::vector<PieceStage*> before;
  std::vector<PieceStage*> behind;
  // The lane itself neither reads nor writes the memory of the spans, because it is the memory of a
  // device. A stage before the exchange makes the bytes that are pushed, verdicts always come into
  // a buffer, and a stage behind the exchange stores them.
  bool staged = false;
  // The pool of the stages' results and, on a staged path, of the verdicts. Null: the lane's. It
  // must outlive everything that has a buffer of it, on the lane's loop, too.
  BufferPool* pool = nullptr;
};

// The paths of a lane's pieces, with the stages on them. The lane calls it only on the lane's
// thread.
class PiecePaths {
 public:
  virtual ~PiecePaths() = default;
  // Returns the path of the exchange's pieces. The lane asks when an exchange begins, not for each
  // piece, because the tensor may have another memory in its next use. The path is equal in all
  // lanes for the same exchange. It lives as long as this object.
  virtual const PiecePath& PathOf(const Exchange& exchange) = 0;

  // Retire drops what the stages keep of the tensor from round to round, such as the residuals of
  // error feedback, because the lane forgets the tensor. BeginGeneration drops it for all tensors.
  // No piece of these tensors is on its path.
  virtual void Retire(TensorId /*tensor*/) {}
  virtual void BeginGeneration() {}
  // Returns as bytes what the stages keep of the piece, and forgets it, because the piece goes to
  // another lane.
  virtual std::vector<std::byte> LetGo(TensorId /*tensor*/, uint32_t /*number*/) { return {}; }
  // Takes what the stages of another lane kept of a piece that has come from there. The lane calls
  // this only with bytes.
  virtual void TakeIn(TensorId /*tensor*/, uint32_t /*number*/, std::vector<std::byte> /*kept*/) {}

  // Abandons all pieces, like Abandon, because the lane has ended, perhaps in the middle of a step.
  // May be called again. May be called on any thread, while the lane's thread does not run.
  virtual void AbandonAll() {}
};

// Continues the walk of a piece that waits in a stage, soon and on the lane's thread, with the
// stage's end; `error` comes with kFailed. Any copy may be called from any thread at any time. If
// the piece is abandoned or the lane is gone, the call does nothing. Does not block, never throws.
using ResumePiece =
    std::function<void(const PieceTicket& ticket, StageVerdict how, const Status& error)>;

// The tools that a lane gives its stages. All except `resume` end with the lane.
struct StageTools {
  BufferPool& pool;
  const Codecs& codecs;
  ResumePiece resume;  // null: the lane's driver calls Lane::Resume itself
};
using MakePiecePaths = std::function<std::unique_ptr<PiecePaths>(const StageTools& tools)>;

}  // namespace byteps::protocol
