// The stages of a piece (data_path.h has their list): each does one thing with one piece and knows
// nothing of the others. The lane walks a piece along its path once it has credit; the exchange
// with the shards is the lane's own. A lane makes its stages through MakePiecePaths
// (WorkerOptions::paths) and calls them on its thread alone, so that stages share nothing with
// those of other lanes.
//
// In each use of a tensor a piece passes each stage once, even if the lane pushes the piece several
// times (after a loss, or in another attempt). Each stage takes what the stage before it made.
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

// Names a piece that has entered a stage. One that is outdated is harmless.
struct PieceTicket {
  TensorId tensor = 0;
  uint32_t number = 0;
  uint64_t round = 0;
  uint64_t entry = 0;  // no other entry of this worker has it
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

// A piece in a stage.
struct PieceInHand {
  const Exchange& exchange;
  const PieceTicket ticket;
  const Spans spans;  // the user's memory
  // How the round has ended; kOk before the exchange. After an error the pushed bytes do not count,
  // and the stages behind the exchange are entered without an input: there a stage that keeps
  // something takes back what it did before. It may not have been entered before.
  const StatusCode verdict;
  // What the stages so far have made; read only. Before the exchange: of spans.push, and at first
  // that itself. Behind it: of the verdict's bytes, and at first these as they came. None behind it
  // if there is nothing to do: the round has ended in an error, this rank wants nothing of the
  // piece, or the bytes lie in spans.want.
  const std::optional<ConstByteSpan> input;
  // Behind the exchange: spans.want is not to be written but by the stage that is for that; other
  // stages fill `output` (PiecePath::staged).
  const bool staged;
  BufferPool& pool;  // of the lane
  // A stage that makes something of the input puts it here, in a buffer of `pool`; the next stage
  // has it as its input. What the last stage before the exchange has is pushed.
  PieceBytes& output;
  // Of a stage that fails: why.
  Status error;

  // Takes a buffer of so many bytes as the output. The bytes stay in place, and the piece's, until
  // the walk goes on or Abandon.
  ByteSpan MakeOutput(size_t bytes) {
    output = {true, pool.Take(bytes), 0, static_cast<uint32_t>(bytes)};
    return {output.buffer.data(), bytes};
  }
};

class PieceStage {
 public:
  virtual ~PieceStage() = default;
  // Does not block. kPending: the stage has begun something, and its ResumePiece continues the walk
  // with the stage's end; until then the input, the output and the memory of the spans stay, and
  // another thread may read and fill them. The hand itself ends with this call.
  // kFailed: before the exchange the piece's owner is asked to end the round on every rank, with
  // this text and kDeadlineExceeded; behind it this rank gives up, the others have their result.
  virtual StageVerdict Enter(PieceInHand& piece) = 0;
  // A piece that waits in this stage goes no further here, and what the stage has begun with it
  // does not count: nothing may touch its memory after this call, which may wait a moment for what
  // is under way. In another lane the same piece may enter this stage anew. Of a piece that has
  // been pushed no stage hears that it is withdrawn; Retire follows, or the lane's end.
  virtual void Abandon(const PieceTicket& /*ticket*/) {}
};

// The stages around the exchange, in order; none is null.
struct PiecePath {
  std::vector<PieceStage*> before;
  std::vector<PieceStage*> behind;
  // The lane itself neither reads nor writes the memory of the spans, because it is a device's: a
  // stage before the exchange makes what is pushed, verdicts always come into a buffer, and a stage
  // behind the exchange stores them.
  bool staged = false;
};

// The paths of a lane's pieces, with the stages on them. Called on the lane's thread alone.
class PiecePaths {
 public:
  virtual ~PiecePaths() = default;
  // Asked when an exchange begins, not for each piece: the tensor's memory may be another in its
  // next use. Equal for the same exchange, in all lanes. What it returns lives as long as this.
  virtual const PiecePath& PathOf(const Exchange& exchange) = 0;

  // What a stage keeps from round to round, such as the residuals of error feedback. The lane
  // forgets the tensor; or a generation begins, and all tensors are forgotten. No piece of it is on
  // its path.
  virtual void Retire(TensorId /*tensor*/) {}
  virtual void BeginGeneration() {}
  // The piece goes to another lane: what is kept of it moves with it, as bytes. Here it is
  // forgotten.
  virtual std::vector<std::byte> LetGo(TensorId /*tensor*/, uint32_t /*number*/) { return {}; }
  // It has come from another lane. Only called with bytes.
  virtual void TakeIn(TensorId /*tensor*/, uint32_t /*number*/, std::vector<std::byte> /*kept*/) {}

  // The lane has ended, perhaps in the middle of a step: as Abandon, of all pieces. May be called
  // again; on any thread, while the lane's does not run.
  virtual void AbandonAll() {}
};

// Continues the walk of a piece that waits in a stage, soon and on the lane's thread, with the
// stage's end; `error` with kFailed. Any copy may be called from any thread at any time, also when
// the piece is abandoned or the lane is gone: then it does nothing. Does not block, never throws.
using ResumePiece =
    std::function<void(const PieceTicket& ticket, StageVerdict how, const Status& error)>;

// What a lane has for its stages. All but `resume` ends with the lane.
struct StageTools {
  BufferPool& pool;
  const Codecs& codecs;
  ResumePiece resume;  // null: the lane's driver calls Lane::Resume itself
};
using MakePiecePaths = std::function<std::unique_ptr<PiecePaths>(const StageTools& tools)>;

}  // namespace byteps::protocol
