#include "src/protocol/worker/piece_walk.h"

#include <algorithm>
#include <utility>

namespace byteps::protocol {

LaneTensor& PieceWalk::TensorOf(const TensorFacts& facts) {
  LaneTensor& tensor = lane_.pieces.FindOrAdd(facts);
  if (!tensor.path.empty()) return tensor;
  tensor.path = PathOf(facts);
  auto own = std::find(tensor.path.begin(), tensor.path.end(), self());
  tensor.exchange_at = static_cast<uint8_t>(own - tensor.path.begin());
  return tensor;
}

PiecePath PieceWalk::PathOf(const TensorFacts& facts) {
  if (lane_.options.paths) return lane_.options.paths(facts, self());
  if (facts.codec == 0) return {self()};
  return {&encode_, self(), &decode_};
}

void PieceWalk::Open(LaneTensor& tensor, const Exchange& exchange) {
  tensor.exchange = &exchange;
  tensor.last_round = wire::RoundOf(exchange.round, 0);
  tensor.remaining = 0;
  tensor.lacking = 0;
  tensor.part = to_front::PartDone();
  tensor.part.lane = lane_.options.lane;
  tensor.part.serial = exchange.serial;
  tensor.part.tensor = exchange.tensor.id;
}

void PieceWalk::Begin(const Exchange& exchange) {
  LaneTensor& tensor = TensorOf(exchange.tensor);
  lane_.pieces.Meet(tensor, exchange);
  Open(tensor, exchange);
  for (uint32_t number = exchange.first_piece; number < exchange.end(); ++number) {
    if (tensor.pieces[number].step == PieceStep::kAway) continue;
    tensor.pieces[number].contribution = PieceBytes();
    QueueFor(tensor, number, wire::RoundOf(exchange.round, 0));
  }
  ApplyEarlyWants(tensor.facts.id);
  if (tensor.remaining == 0) EndPart(tensor);  // it is all in other lanes
  SetOut();
}

// Members only shrink, so this ends.
void PieceWalk::Repeat(const to_lane::Repeat& repeat) {
  const Exchange& exchange = *repeat.exchange;
  LaneTensor& tensor = TensorOf(exchange.tensor);
  Open(tensor, exchange);
  for (uint32_t number = exchange.first_piece; number < exchange.end(); ++number) {
    LanePiece& piece = tensor.pieces[number];
    if (piece.step == PieceStep::kAway) continue;
    if (*piece.held.receipt == *repeat.common) {
      Count(tensor, piece);
    } else {
      QueueFor(tensor, number, wire::RoundOf(exchange.round, repeat.attempt));
    }
  }
  ApplyEarlyWants(tensor.facts.id);
  if (tensor.remaining == 0) EndPart(tensor);
  SetOut();
}

// From its begin.
void PieceWalk::QueueFor(LaneTensor& tensor, uint32_t number, uint64_t round) {
  tensor.pieces[number].round = round;
  tensor.pieces[number].at = 0;
  Queue(tensor, number);
}

void PieceWalk::Queue(LaneTensor& tensor, uint32_t number) {
  LanePiece& piece = tensor.pieces[number];
  piece.step = PieceStep::kQueued;
  piece.spans = tensor.exchange->spans->SpansOf(number);
  if (!piece.spans.want.empty()) ++tensor.lacking;
  ++tensor.remaining;
  piece.ticket = lane_.outbox.Add(*tensor.exchange, number, piece.spans);
}

void PieceWalk::Want(const wire::PieceRef& ref) {
  LaneTensor* tensor = lane_.pieces.Find(ref.tensor);
  if (tensor == nullptr || !MarkWanted(*tensor, ref)) lane_.wants.Add(ref);
}

// False when the piece has not come to the queue yet.
bool PieceWalk::MarkWanted(LaneTensor& tensor, const wire::PieceRef& ref) {
  if (ref.round < tensor.last_round) return true;
  if (ref.piece >= tensor.pieces.size()) return false;
  const LanePiece& piece = tensor.pieces[ref.piece];
  if (piece.step == PieceStep::kAway || ref.round > piece.round) return false;
  if (piece.step == PieceStep::kQueued && ref.round == piece.round) {
    lane_.outbox.MarkWanted(piece.ticket);
  }
  return true;
}

void PieceWalk::ApplyEarlyWants(TensorId tensor) {
  for (const wire::PieceRef& ref : lane_.wants.Take(tensor)) Want(ref);
}

void PieceWalk::SetOut() {
  while (!lane_.awaits_take_over && !lane_.stopped) {
    auto next = lane_.outbox.Next();
    if (!next.has_value()) return;
    LaneTensor& tensor = *lane_.pieces.Find(next->tensor);
    tensor.pieces[next->number].step = PieceStep::kUnderWay;
    Walk(tensor, next->number);
  }
}

void PieceWalk::Walk(LaneTensor& tensor, uint32_t number) {
  LanePiece& piece = tensor.pieces[number];
  bool fails = piece.failure != nullptr && HasCredit(tensor, piece);
  if (fails) return AskForError(tensor, number, std::string(*piece.failure));
  while (piece.at < tensor.path.size()) {
    PieceInHand hand{*tensor.exchange,
                     {tensor.facts.id, number, piece.round},
                     piece.spans,
                     piece.contribution,
                     piece.answer};
    StageVerdict how = tensor.path[piece.at]->Enter(hand);
    if (how == StageVerdict::kPending) return;
    if (how == StageVerdict::kFailed) return FailPiece(tensor, number, hand.error);
    ++piece.at;
  }
  PieceDone(tensor, number);
}

// The stage exchange.
StageVerdict PieceWalk::Enter(PieceInHand& piece) {
  Push(*lane_.pieces.Find(piece.ticket.tensor), piece.ticket.number);
  return StageVerdict::kPending;
}

void PieceWalk::Resume(const PieceTicket& ticket, StageVerdict how, const Status& error) {
  LaneTensor* tensor = lane_.pieces.Find(ticket.tensor);
  if (tensor == nullptr || ticket.number >= tensor->pieces.size()) return;
  LanePiece& piece = tensor->pieces[ticket.number];
  bool waits = piece.step == PieceStep::kUnderWay && piece.round == ticket.round &&
               piece.at != tensor->exchange_at;
  if (!waits) return;
  if (how == StageVerdict::kFailed) return FailPiece(*tensor, ticket.number, error);
  GoOn(*tensor, ticket.number);
}

void PieceWalk::GoOn(LaneTensor& tensor, uint32_t number) {
  ++tensor.pieces[number].at;
  Walk(tensor, number);
}

void PieceWalk::FailPiece(LaneTensor& tensor, uint32_t number, const Status& why) {
  LanePiece& piece = tensor.pieces[number];
  if (HasCredit(tensor, piece)) return AskForError(tensor, number, why.message());
  to_front::PartDone& part = tensor.part;
  if (part.status.ok() || number < part.failed_piece) {
    part.failed_piece = number;
    part.status = why;
  }
  lane_.driver.ToFront(to_front::GivesUp{why});
  PieceDone(tensor, number);
}

// In place of a push.
void PieceWalk::AskForError(LaneTensor& tensor, uint32_t number, const std::string& why) {
  LanePiece& piece = tensor.pieces[number];
  piece.failure = std::make_unique<std::string>(why);
  piece.at = tensor.exchange_at;
  Push(tensor, number);
}

// A shard that has no connection gets the piece when it has one, and one that comes to own it when
// it does: neither waits for credit, the piece has it already. So does, while the lane is to take
// over, a shard that must first be told of verdicts.
void PieceWalk::Push(LaneTensor& tensor, uint32_t number) {
  LanePiece& piece = tensor.pieces[number];
  if (lane_.awaits_take_over) {
    delayed_.push_back({tensor.facts.id, number, piece.round});
    return;
  }
  if (!lane_.links.IsUp(piece.owner)) return;
  wire::DataHeader header = HeaderOf(tensor, number);
  if (piece.failure != nullptr) return lane_.driver.SendAbort(piece.owner, header, *piece.failure);
  const PieceBytes& made = piece.contribution;
  ConstByteSpan payload = made.there ? made.span() : piece.spans.push;
  header.encoded_bytes = static_cast<uint32_t>(payload.size());
  lane_.driver.SendPush(piece.owner, header, payload, made.there ? made.buffer : BufferRef());
}

// Some have been repeated meanwhile, which does no harm.
void PieceWalk::PushDelayed() {
  for (const PieceTicket& ticket : std::exchange(delayed_, {})) {
    LaneTensor* tensor = lane_.pieces.Find(ticket.tensor);
    bool waits = tensor != nullptr && ticket.number < tensor->pieces.size() &&
                 IsExpected(*tensor, {ticket.tensor, ticket.number, ticket.round});
    if (waits) Push(*tensor, ticket.number);
  }
}

wire::DataHeader PieceWalk::HeaderOf(const LaneTensor& tensor, uint32_t number) const {
  const LanePiece& piece = tensor.pieces[number];
  const Spans& spans = piece.spans;
  wire::DataHeader header;
  header.ref = {tensor.facts.id, number, piece.round};
  header.epoch = lane_.epoch;
  header.generation = lane_.generation;
  header.count = lane_.links.Acknowledge(piece.owner);
  header.priority = tensor.exchange->priority;
  header.home = piece.home;
  header.combine = tensor.facts.combine;
  header.process_set = tensor.facts.process_set;
  header.dtype = tensor.facts.dtype;
  header.codec = tensor.facts.codec;
  header.piece_bytes = spans.piece_bytes;
  header.offset = spans.push_offset;
  header.want_offset = spans.want_offset;
  header.want_bytes = static_cast<uint32_t>(spans.want.size());
  return header;
}

bool PieceWalk::AtExchange(const LaneTensor& tensor, const LanePiece& piece) const {
  return piece.step == PieceStep::kUnderWay && piece.at == tensor.exchange_at;
}

// It has set out and its verdict is not here.
bool PieceWalk::HasCredit(const LaneTensor& tensor, const LanePiece& piece) const {
  return piece.step == PieceStep::kUnderWay && piece.at <= tensor.exchange_at;
}

bool PieceWalk::IsExpected(const LaneTensor& tensor, const wire::PieceRef& ref) const {
  if (!tensor.IsOpen(ref.piece)) return false;
  const LanePiece& piece = tensor.pieces[ref.piece];
  return AtExchange(tensor, piece) && ref.round == piece.round;
}

void PieceWalk::PushAgain(LaneTensor& tensor, uint32_t number) {
  LanePiece& piece = tensor.pieces[number];
  if (!tensor.IsOpen(number) || !AtExchange(tensor, piece)) return;
  if (lane_.rules.RepeatsPassCredit()) return Push(tensor, number);
  lane_.outbox.Return(piece.spans);
  piece.step = PieceStep::kQueued;
  piece.at = 0;
  piece.ticket = lane_.outbox.Add(*tensor.exchange, number, piece.spans);
}

// The answer may come, and the memory be the user's again, before the old push has left, or the old
// owner's answer has come to its end.
void PieceWalk::StopTouching(LaneTensor& tensor, uint32_t number) {
  if (!tensor.IsOpen(number) || tensor.pieces[number].step != PieceStep::kUnderWay) return;
  const Spans& spans = tensor.pieces[number].spans;
  if (AtExchange(tensor, tensor.pieces[number])) lane_.driver.Forget(spans.push);
  if (reader_.Divert(tensor.facts.id, number)) lane_.driver.Forget(spans.want);
}

// A piece that is under way goes no further.
void PieceWalk::Detach(LaneTensor& tensor, uint32_t number) {
  const LanePiece& piece = tensor.pieces[number];
  if (HasCredit(tensor, piece)) lane_.outbox.Return(piece.spans);
  if (!AtExchange(tensor, piece)) {
    tensor.path[piece.at]->Abandon({tensor.facts.id, number, piece.round});
  }
  StopTouching(tensor, number);
}

void PieceWalk::Withdraw(const Exchange& exchange) {
  LaneTensor* tensor = lane_.pieces.Find(exchange.tensor.id);
  if (tensor != nullptr && tensor->exchange == &exchange) {
    for (uint32_t number = exchange.first_piece; number < exchange.end(); ++number) {
      LanePiece& piece = tensor->pieces[number];
      if (piece.step == PieceStep::kAway) continue;
      if (piece.step == PieceStep::kQueued) lane_.outbox.Remove(piece.ticket);
      if (piece.step == PieceStep::kUnderWay) Detach(*tensor, number);
      if (piece.step == PieceStep::kDone && !piece.held.stable) keeper_.Keep(piece);
      piece.step = PieceStep::kDone;
      piece.failure.reset();
    }
    tensor->exchange = nullptr;
  }
  lane_.driver.ToFront(to_front::Released{lane_.options.lane, exchange.serial, exchange.tensor.id});
  SetOut();  // nobody else may ever ask for what waited for this credit
}

void PieceWalk::Abort(const to_lane::Abort& abort) {
  LaneTensor* tensor = lane_.pieces.Find(abort.tensor);
  bool open = tensor != nullptr && tensor->exchange != nullptr;
  if (!open || tensor->exchange->serial != abort.serial) return;
  const Exchange& exchange = *tensor->exchange;
  for (uint32_t number = exchange.first_piece; number < exchange.end(); ++number) {
    LanePiece& piece = tensor->pieces[number];
    if (piece.step == PieceStep::kQueued) {
      piece.failure = std::make_unique<std::string>(abort.why);
      lane_.outbox.MarkWanted(piece.ticket);
    } else if (HasCredit(*tensor, piece)) {
      if (!AtExchange(*tensor, piece)) {
        tensor->path[piece.at]->Abandon({tensor->facts.id, number, piece.round});
      }
      AskForError(*tensor, number, abort.why);
    }
  }
  SetOut();
}

MovedPiece PieceWalk::LetGo(LaneTensor& tensor, uint32_t number) {
  LanePiece& piece = tensor.pieces[number];
  MovedPiece moved;
  moved.tensor = tensor.facts;
  moved.number = number;
  moved.home = piece.home;
  moved.round = piece.round;
  moved.at = piece.at;
  bool open = tensor.IsOpen(number);
  if (open && piece.held.round != 0 && !piece.held.stable) keeper_.Keep(piece);
  if (open && piece.step != PieceStep::kDone) {
    moved.exchange = tensor.exchange;
    moved.set_out = piece.step == PieceStep::kUnderWay;
    if (piece.step == PieceStep::kQueued) lane_.outbox.Remove(piece.ticket);
    if (!piece.spans.want.empty() && piece.held.round != piece.round) --tensor.lacking;
    if (moved.set_out) Detach(tensor, number);
    if (--tensor.remaining == 0) EndPart(tensor);
  }
  // What is in buffers is copied: they belong to one lane.
  auto copy_of = [](ConstByteSpan span) {
    return std::vector<std::byte>(span.begin(), span.end());
  };
  if (piece.copy) moved.copy = copy_of({piece.copy.data(), piece.copy_bytes});
  if (piece.contribution.there) moved.contribution = copy_of(piece.contribution.span());
  if (piece.answer.there) moved.answer = copy_of(piece.answer.span());
  if (piece.failure != nullptr) moved.failure = *piece.failure;
  moved.held = std::move(piece.held);
  piece = LanePiece();
  return moved;
}

void PieceWalk::TakeIn(const MovedPiece& moved) {
  LaneTensor& tensor = TensorOf(moved.tensor);
  size_t count = moved.exchange != nullptr ? moved.exchange->end() : moved.number + size_t{1};
  if (tensor.pieces.size() < count) tensor.pieces.resize(count);
  LanePiece& piece = tensor.pieces[moved.number];
  piece = LanePiece();
  piece.home = moved.home;
  lane_.pieces.FindOwner(moved.tensor.id, moved.number, piece);
  piece.step = PieceStep::kDone;
  piece.round = moved.round;
  piece.at = moved.at;
  piece.held = moved.held;
  auto copy_of = [this](const std::vector<std::byte>& bytes) {
    PieceBytes made{true, lane_.pool.Take(bytes.size()), 0, static_cast<uint32_t>(bytes.size())};
    lane_.arithmetic.Copy(made.buffer.data(), bytes.data(), bytes.size());
    return made;
  };
  if (!moved.copy.empty()) {
    piece.copy = copy_of(moved.copy).buffer;
    piece.copy_bytes = static_cast<uint32_t>(moved.copy.size());
  }
  if (moved.contribution.has_value()) piece.contribution = copy_of(*moved.contribution);
  if (moved.answer.has_value()) piece.answer = copy_of(*moved.answer);
  if (moved.failure.has_value()) piece.failure = std::make_unique<std::string>(*moved.failure);
  if (moved.exchange == nullptr) return;
  if (tensor.exchange == nullptr) Open(tensor, *moved.exchange);
  if (moved.set_out && piece.held.round == piece.round) {  // it has its verdict
    ++tensor.remaining;
    piece.spans = moved.exchange->spans->SpansOf(moved.number);
    piece.step = PieceStep::kUnderWay;
    return Walk(tensor, moved.number);
  }
  Queue(tensor, moved.number);
  if (moved.set_out) lane_.outbox.MarkWanted(piece.ticket);
}

void PieceWalk::PieceDone(LaneTensor& tensor, uint32_t number) {
  LanePiece& piece = tensor.pieces[number];
  piece.step = PieceStep::kDone;
  if (!tensor.exchange->atomic) piece.contribution = PieceBytes();
  piece.answer = PieceBytes();
  piece.failure.reset();
  Count(tensor, piece);
  if (--tensor.remaining == 0) EndPart(tensor);
  SetOut();
}

void PieceWalk::Count(LaneTensor& tensor, const LanePiece& piece) {
  to_front::PartDone& part = tensor.part;
  ++part.pieces;
  if (piece.held.status != StatusCode::kOk) return;
  part.mixed = NarrowReceipt(part.receipt, piece.held.receipt) || part.mixed;
}

void PieceWalk::EndPart(LaneTensor& tensor) {
  const Exchange& exchange = *std::exchange(tensor.exchange, nullptr);
  tensor.part.now = lane_.now;
  keeper_.KeepAll(exchange, tensor);
  lane_.driver.ToFront(std::exchange(tensor.part, {}));
}

}  // namespace byteps::protocol
