#include "src/protocol/worker/lane/piece_walk.h"

#include <algorithm>
#include <utility>

#include "src/protocol/worker/lane/codec_stages.h"
#include "src/protocol/worker/lane/kept_verdicts.h"
#include "src/protocol/worker/lane/piece_packing.h"

namespace byteps::protocol {
namespace {

std::unique_ptr<PiecePaths> MakePaths(LaneContext& lane) {
  const LaneOptions& options = lane.options;
  if (!options.paths) return std::make_unique<CodecPaths>(*options.codecs);
  return options.paths({lane.pool, *options.codecs, options.resume});
}

// Returns the stage at which the piece is. Returns null at the exchange, and behind the last stage.
PieceStage* StageOf(const PiecePath& path, size_t at) {
  if (at < path.before.size()) return path.before[at];
  const size_t behind = at - path.before.size();
  return behind > 0 && behind <= path.behind.size() ? path.behind[behind - 1] : nullptr;
}

// Ends the piece's stage. The result of the stage becomes the input of the next one.
void Leave(const LaneTensor& tensor, LanePiece& piece) {
  PieceBytes made = std::exchange(piece.output, PieceBytes());
  piece.entry = 0;
  if (made.there) (tensor.HasCredit(piece) ? piece.contribution : piece.answer) = std::move(made);
  ++piece.at;
}

}  // namespace

PieceWalk::PieceWalk(LaneContext& lane, AnswerReader& reader, PieceSender& sender)
    : lane_(lane),
      reader_(reader),
      sender_(sender),
      paths_(MakePaths(lane)),
      last_entry_(lane.options.lane) {}

void PieceWalk::Open(LaneTensor& tensor, const Exchange& exchange) {
  tensor.exchange = &exchange;
  tensor.path = &paths_->PathOf(exchange);
  tensor.last_round = wire::RoundOf(exchange.use, 0);
  tensor.part.Begin(lane_.options.lane, exchange);
}

void PieceWalk::Begin(const Exchange& exchange) {
  LaneTensor& tensor = lane_.pieces.FindOrAdd(exchange.tensor);
  lane_.pieces.Meet(tensor, exchange);
  Open(tensor, exchange);
  for (uint32_t number = exchange.first_piece; number < exchange.end(); ++number) {
    if (tensor.pieces[number].step == PieceStep::kAway) continue;
    tensor.pieces[number].contribution = PieceBytes();
    QueueFor(tensor, number, wire::RoundOf(exchange.use, 0), 0);
  }
  ApplyEarlyWants(tensor.facts.id);
  if (tensor.part.AllDone()) EndPart(tensor);  // all its pieces are in other lanes
  SetOut();
}

void PieceWalk::Repeat(const to_lane::Repeat& repeat) {
  const Exchange& exchange = *repeat.exchange;
  LaneTensor& tensor = lane_.pieces.FindOrAdd(exchange.tensor);
  Open(tensor, exchange);
  for (uint32_t number = exchange.first_piece; number < exchange.end(); ++number) {
    LanePiece& piece = tensor.pieces[number];
    if (piece.step == PieceStep::kAway) continue;
    if (*piece.held.receipt == *repeat.common) {
      tensor.part.Count(piece.held);
    } else {
      // The piece is pushed again with the bytes that the stages made in the first attempt.
      QueueFor(tensor, number, wire::RoundOf(exchange.use, repeat.attempt),
               tensor.path->before.size());
    }
  }
  ApplyEarlyWants(tensor.facts.id);
  if (tensor.part.AllDone()) EndPart(tensor);
  SetOut();
}

// Queues the piece, which walks its path from `at` on.
void PieceWalk::QueueFor(LaneTensor& tensor, uint32_t number, uint64_t round, size_t at) {
  tensor.pieces[number].round = round;
  tensor.pieces[number].at = at;
  Queue(tensor, number);
}

void PieceWalk::Queue(LaneTensor& tensor, uint32_t number) {
  LanePiece& piece = tensor.pieces[number];
  piece.step = PieceStep::kQueued;
  piece.spans = tensor.exchange->spans->SpansOf(number);
  tensor.part.Add(!piece.spans.want.empty());
  piece.ticket = lane_.send_queue.Add(*tensor.exchange, number, piece.spans);
  if (tensor.exchange->no_input != nullptr) {
    piece.failure = std::make_unique<Status>(*tensor.exchange->no_input);
    lane_.send_queue.MarkWanted(piece.ticket);
  }
  lane_.Tell(PieceMoment::kQueued, tensor, number);
}

void PieceWalk::Want(const wire::PieceRef& ref) {
  LaneTensor* tensor = lane_.pieces.Find(ref.tensor);
  if (tensor == nullptr || !MarkWanted(*tensor, ref)) lane_.wants.Add(ref);
}

// Returns false if the piece has not come to the queue yet.
bool PieceWalk::MarkWanted(LaneTensor& tensor, const wire::PieceRef& ref) {
  if (ref.round < tensor.last_round) return true;
  if (ref.piece >= tensor.pieces.size()) return false;
  const LanePiece& piece = tensor.pieces[ref.piece];
  if (piece.step == PieceStep::kAway || ref.round > piece.round) return false;
  if (piece.step == PieceStep::kQueued && ref.round == piece.round) {
    lane_.send_queue.MarkWanted(piece.ticket);
  }
  return true;
}

void PieceWalk::ApplyEarlyWants(TensorId tensor) {
  for (const wire::PieceRef& ref : lane_.wants.Take(tensor)) Want(ref);
}

void PieceWalk::SetOut() {
  while (!lane_.awaits_take_over && !lane_.stopped) {
    auto next = lane_.send_queue.Next();
    if (!next.has_value()) return;
    LaneTensor& tensor = *lane_.pieces.Find(next->tensor);
    tensor.pieces[next->number].step = PieceStep::kUnderWay;
    lane_.Tell(PieceMoment::kSetOut, tensor, next->number);
    Walk(tensor, next->number);
  }
}

void PieceWalk::Walk(LaneTensor& tensor, uint32_t number) {
  LanePiece& piece = tensor.pieces[number];
  bool fails = piece.failure != nullptr && tensor.HasCredit(piece);
  if (fails) return AskForError(tensor, number, Status(*piece.failure));
  while (!tensor.AtExchange(piece)) {
    PieceStage* stage = StageOf(*tensor.path, piece.at);
    if (stage == nullptr) return PieceDone(tensor, number);
    Status error;
    StageVerdict how = Enter(*stage, tensor, number, error);
    if (how == StageVerdict::kPending) return;
    if (how == StageVerdict::kFailed) return FailPiece(tensor, number, error);
    Leave(tensor, piece);
  }
  sender_.Send(tensor, number);
}

StageVerdict PieceWalk::Enter(PieceStage& stage, LaneTensor& tensor, uint32_t number,
                              Status& error) {
  LanePiece& piece = tensor.pieces[number];
  const bool before = tensor.HasCredit(piece);
  const PieceBytes& made = before ? piece.contribution : piece.answer;
  std::optional<ConstByteSpan> input;
  if (before) input = piece.spans.push;
  if (made.there) input = made.span();
  piece.entry = last_entry_ += lane_.options.lanes;
  PieceInHand hand{*tensor.exchange,
                   {tensor.facts.id, number, piece.round, piece.entry},
                   piece.spans,
                   before ? StatusCode::kOk : piece.held.status,
                   input,
                   !before && tensor.path->staged,
                   tensor.path->pool != nullptr ? *tensor.path->pool : lane_.pool,
                   piece.output,
                   {},
                   made.there ? made.buffer : BufferRef()};
  StageVerdict how = stage.Enter(hand);
  error = std::move(hand.error);
  return how;
}

// Ends the piece's wait in its stage. The piece goes no further there.
void PieceWalk::Abandon(LaneTensor& tensor, uint32_t number) {
  LanePiece& piece = tensor.pieces[number];
  StageOf(*tensor.path, piece.at)->Abandon({tensor.facts.id, number, piece.round, piece.entry});
  piece.output = PieceBytes();
  piece.entry = 0;
}

void PieceWalk::Resume(const PieceTicket& ticket, StageVerdict how, const Status& error) {
  LaneTensor* tensor = lane_.pieces.Find(ticket.tensor);
  if (tensor == nullptr || ticket.number >= tensor->pieces.size()) return;
  LanePiece& piece = tensor->pieces[ticket.number];
  bool waits = piece.step == PieceStep::kUnderWay && piece.entry != 0;
  if (!waits || piece.entry != ticket.entry) return;
  if (how == StageVerdict::kFailed) return FailPiece(*tensor, ticket.number, error);
  GoOn(*tensor, ticket.number);
}

void PieceWalk::GoOn(LaneTensor& tensor, uint32_t number) {
  Leave(tensor, tensor.pieces[number]);
  Walk(tensor, number);
}

void PieceWalk::FailPiece(LaneTensor& tensor, uint32_t number, const Status& why) {
  if (tensor.HasCredit(tensor.pieces[number])) return AskForError(tensor, number, why);
  tensor.part.Fail(number, why);
  lane_.driver.ToFront(to_front::GivesUp{why});
  PieceDone(tensor, number);
}

// Asks the owner for an error instead of pushing.
void PieceWalk::AskForError(LaneTensor& tensor, uint32_t number, const Status& why) {
  LanePiece& piece = tensor.pieces[number];
  piece.failure = std::make_unique<Status>(why);
  piece.at = tensor.path->before.size();
  piece.output = PieceBytes();
  piece.entry = 0;
  sender_.Send(tensor, number);
}

void PieceWalk::PushAgain(LaneTensor& tensor, uint32_t number) {
  LanePiece& piece = tensor.pieces[number];
  if (!tensor.IsOpen(number) || !tensor.AtExchange(piece)) return;
  if (lane_.rules.RepeatsPassCredit()) return sender_.Send(tensor, number);
  lane_.send_queue.Return(piece.spans);
  piece.step = PieceStep::kQueued;
  piece.ticket = lane_.send_queue.Add(*tensor.exchange, number, piece.spans);
}

// The answer may come, and the memory belong to the user again, before the old push has left, or
// before the old owner's answer has ended.
void PieceWalk::StopTouching(LaneTensor& tensor, uint32_t number) {
  if (!tensor.IsOpen(number) || tensor.pieces[number].step != PieceStep::kUnderWay) return;
  const Spans& spans = tensor.pieces[number].spans;
  if (tensor.AtExchange(tensor.pieces[number])) lane_.driver.Forget(spans.push);
  if (reader_.Divert(tensor.facts.id, number)) lane_.driver.Forget(spans.want);
}

// Stops a piece that is under way.
void PieceWalk::Detach(LaneTensor& tensor, uint32_t number) {
  const LanePiece& piece = tensor.pieces[number];
  if (tensor.HasCredit(piece)) lane_.send_queue.Return(piece.spans);
  if (!tensor.AtExchange(piece)) Abandon(tensor, number);
  StopTouching(tensor, number);
}

void PieceWalk::Withdraw(const Exchange& exchange) {
  LaneTensor* tensor = lane_.pieces.Find(exchange.tensor.id);
  if (tensor != nullptr && tensor->exchange == &exchange) {
    for (uint32_t number = exchange.first_piece; number < exchange.end(); ++number) {
      LanePiece& piece = tensor->pieces[number];
      if (piece.step == PieceStep::kAway) continue;
      if (piece.step == PieceStep::kQueued) lane_.send_queue.Remove(piece.ticket);
      const bool under_way = piece.step == PieceStep::kUnderWay;
      const bool decided =
          piece.step == PieceStep::kDone || (under_way && !tensor->HasCredit(piece));
      if (under_way) Detach(*tensor, number);
      if (decided && !piece.held.stable) KeepVerdict(lane_, piece);
      piece.step = PieceStep::kDone;
      piece.contribution = piece.answer = PieceBytes();
      piece.failure.reset();
    }
    tensor->exchange = nullptr;
  }
  lane_.driver.ToFront(to_front::Released{lane_.options.lane, exchange.serial, exchange.tensor.id});
  SetOut();  // no later event may ever start the pieces that waited for this credit
}

void PieceWalk::Abort(const to_lane::Abort& abort) {
  LaneTensor* tensor = lane_.pieces.Find(abort.tensor);
  bool open = tensor != nullptr && tensor->exchange != nullptr;
  if (!open || tensor->exchange->serial != abort.serial) return;
  const Exchange& exchange = *tensor->exchange;
  for (uint32_t number = exchange.first_piece; number < exchange.end(); ++number) {
    LanePiece& piece = tensor->pieces[number];
    if (piece.step == PieceStep::kQueued) {
      piece.failure = std::make_unique<Status>(abort.why);
      lane_.send_queue.MarkWanted(piece.ticket);
    } else if (tensor->HasCredit(piece)) {
      if (!tensor->AtExchange(piece)) Abandon(*tensor, number);
      AskForError(*tensor, number, abort.why);
    }
  }
  SetOut();
}

MovedPiece PieceWalk::LetGo(LaneTensor& tensor, uint32_t number) {
  LanePiece& piece = tensor.pieces[number];
  const Exchange* exchange = nullptr;
  bool set_out = piece.step == PieceStep::kUnderWay;
  bool open = tensor.IsOpen(number);
  if (open && piece.held.round != 0 && !piece.held.stable) KeepVerdict(lane_, piece);
  if (open && piece.step != PieceStep::kDone) {
    exchange = tensor.exchange;
    if (piece.step == PieceStep::kQueued) lane_.send_queue.Remove(piece.ticket);
    tensor.part.Remove(!piece.spans.want.empty() && piece.held.round != piece.round);
    if (set_out) Detach(tensor, number);
    if (tensor.part.AllDone()) EndPart(tensor);
  }
  MovedPiece moved = PackPiece(tensor.facts, number, piece);
  moved.kept = paths_->LetGo(tensor.facts.id, number);
  moved.retired = tensor.retired;
  moved.exchange = exchange;
  moved.set_out = set_out && exchange != nullptr;
  return moved;
}

void PieceWalk::TakeIn(const MovedPiece& moved) {
  if (!moved.kept.empty()) paths_->TakeIn(moved.tensor.id, moved.number, moved.kept);
  LaneTensor& tensor = lane_.pieces.FindOrAdd(moved.tensor);
  tensor.retired = tensor.retired || moved.retired;
  size_t count = moved.exchange != nullptr ? moved.exchange->end() : moved.number + size_t{1};
  if (tensor.pieces.size() < count) tensor.pieces.resize(count);
  LanePiece& piece = tensor.pieces[moved.number];
  piece = UnpackPiece(moved, lane_.pool, lane_.arithmetic);
  lane_.pieces.FindOwner(moved.tensor.id, moved.number, piece);
  if (moved.exchange == nullptr) return;
  if (tensor.exchange == nullptr) Open(tensor, *moved.exchange);
  if (moved.set_out && piece.held.round == piece.round) {  // it has its verdict
    tensor.part.Add(false);
    piece.spans = moved.exchange->spans->SpansOf(moved.number);
    piece.step = PieceStep::kUnderWay;
    return Walk(tensor, moved.number);
  }
  Queue(tensor, moved.number);
  if (moved.set_out) lane_.send_queue.MarkWanted(piece.ticket);
}

void PieceWalk::PieceDone(LaneTensor& tensor, uint32_t number) {
  LanePiece& piece = tensor.pieces[number];
  piece.step = PieceStep::kDone;
  if (!tensor.exchange->atomic) piece.contribution = PieceBytes();
  piece.answer = PieceBytes();
  piece.output = PieceBytes();
  piece.entry = 0;
  piece.failure.reset();
  tensor.part.Done(piece.held);
  if (tensor.part.AllDone()) EndPart(tensor);
  SetOut();
}

void PieceWalk::EndPart(LaneTensor& tensor) {
  const Exchange& exchange = *std::exchange(tensor.exchange, nullptr);
  KeepVerdicts(lane_, exchange, tensor);
  lane_.driver.ToFront(tensor.part.Take(lane_.now));
}

}  // namespace byteps::protocol
