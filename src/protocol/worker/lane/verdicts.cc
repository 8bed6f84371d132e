#include "src/protocol/worker/lane/verdicts.h"

#include <algorithm>

#include "src/protocol/worker/lane/kept_verdicts.h"
#include "src/wire/error_row.h"

namespace byteps::protocol {
namespace {

using Answer = AnswerReader::Answer;
using Landing = AnswerReader::Landing;
using Place = AnswerReader::Place;

std::string NameOf(const LaneTensor& tensor, const wire::PieceRef& ref) {
  std::string name = tensor.exchange == nullptr ? std::to_string(tensor.facts.id)
                                                : "'" + std::string(tensor.exchange->name) + "'";
  return "tensor " + name + ", piece " + std::to_string(ref.piece);
}

}  // namespace

// Returns whether both sides agree which shard owns the piece, and since when.
bool Verdicts::Counts(const LanePiece& piece, ShardId from, uint64_t epoch) const {
  return piece.step != PieceStep::kAway &&
         lane_.rules.Counts(piece.owner, piece.since, from, epoch);
}

// An answer about an operation that has failed meanwhile is read and dropped.
Result<Place> Verdicts::PlaceFor(ShardId from, const wire::DataHeader& header,
                                 size_t payload_bytes) {
  LaneTensor* tensor = lane_.pieces.Find(header.ref.tensor);
  if (tensor == nullptr) return Place();
  if (header.ref.piece >= tensor->pieces.size()) {
    if (header.ref.round < tensor->last_round) return Place();
    return Status(StatusCode::kProtocol,
                  "an answer to a piece that does not exist: " + NameOf(*tensor, header.ref));
  }
  const LanePiece& piece = tensor->pieces[header.ref.piece];
  if (!Counts(piece, from, header.epoch)) return Place();
  if (piece.held.told && header.ref.round == piece.held.round && payload_bytes == 0) {
    return Place{Landing::kNumberOnly, {}};
  }
  if (tensor->IsExpected(header.ref)) {
    lane_.Tell(PieceMoment::kAnswerBegins, *tensor, header.ref.piece);
    return PlaceOfVerdict(*tensor, header, payload_bytes);
  }
  if (header.ref.round <= std::max(piece.held.round, piece.round)) {
    if (header.ref.round == piece.held.round) ++repeated_;
    return Place();
  }
  return Status(StatusCode::kProtocol,
                "an answer that nobody asked for: " + NameOf(*tensor, header.ref) + ", round " +
                    std::to_string(header.ref.round));
}

// Returns whether the root's part is missing: then the verdict's bytes are undefined.
bool Verdicts::LacksRoot(const LaneTensor& tensor, const SlotSet& receipt) {
  const std::optional<Slot>& root = tensor.exchange->root;
  return root.has_value() && !receipt.Contains(*root);
}

Result<Place> Verdicts::PlaceOfVerdict(LaneTensor& tensor, const wire::DataHeader& header,
                                       size_t payload_bytes) {
  const Spans& spans = tensor.pieces[header.ref.piece].spans;
  size_t bytes = payload_bytes - std::min<size_t>(header.receipt, payload_bytes);
  bool error = header.status != StatusCode::kOk;
  // With a codec a rank wants all of a piece, or nothing of it.
  bool plain = header.codec == 0 && bytes == spans.want.size() &&
               (bytes == spans.piece_bytes || header.offset == spans.want_offset);
  bool encoded = header.codec != 0 && header.codec == tensor.facts.codec &&
                 (spans.want.empty() ? bytes == 0 : header.piece_bytes == spans.want.size());
  bool right_size = error || plain || encoded;
  bool right_receipt = header.receipt <= payload_bytes && header.receipt <= wire::kMembersMax / 8 &&
                       (header.receipt != 0 || lane_.receipts.Knows(header.epoch));
  if (!right_size || !right_receipt) {
    return Status(StatusCode::kProtocol,
                  "an answer of the wrong size: " + NameOf(tensor, header.ref) + ", " +
                      std::to_string(payload_bytes) + " bytes");
  }
  // An answer that breaks off half-way must not destroy bytes that may have to be pushed again.
  bool staged = error || header.codec != 0 || header.receipt != 0 || tensor.path->staged ||
                Overlap(spans.push, spans.want) ||
                LacksRoot(tensor, *lane_.receipts.Of(tensor.facts.process_set, header.epoch));
  if (staged) return Place{Landing::kStaged, {}, tensor.path->pool};
  return Place{Landing::kInPlace, spans.want};
}

void Verdicts::Take(ShardId from, const Answer& answer, Time now) {
  const wire::DataHeader& header = answer.header;
  lane_.now = std::max(lane_.now, now);
  lane_.links.OnAnswer(from, header.count, header.unstable, now);
  // While the payload came in, the operation may have failed, or a view may have moved the piece.
  LaneTensor* tensor = lane_.pieces.Find(header.ref.tensor);
  if (tensor != nullptr && header.ref.piece < tensor->pieces.size() &&
      Counts(tensor->pieces[header.ref.piece], from, header.epoch)) {
    bool verdict = answer.landing == Landing::kInPlace || answer.landing == Landing::kStaged;
    if (answer.landing == Landing::kNumberOnly)
      Register(from, *tensor, header.ref.piece, header.count);
    if (verdict && tensor->IsExpected(header.ref)) TakeVerdict(*tensor, from, answer);
  }
  ReleaseStable(from);
}

// Notes the number of the answer, so that the lane learns when the answer is stable.
void Verdicts::Register(ShardId from, LaneTensor& tensor, uint32_t number, uint64_t answer_number) {
  HeldVerdict& held = tensor.pieces[number].held;
  held.number = answer_number;
  held.told = false;
  lane_.links.Remember(from, {answer_number, tensor.facts.id, number, held.round});
}

void Verdicts::TakeReceipt(const LaneTensor& tensor, const Answer& answer, Receipt& receipt) {
  if (answer.header.receipt == 0) {
    SetReceipt(receipt, lane_.receipts.Of(tensor.facts.process_set, answer.header.epoch));
  } else {
    ConstByteSpan bitmap(answer.staged.data(), answer.header.receipt);
    receipt = std::make_shared<SlotSet>(SlotSet::FromBitmap(bitmap));
  }
}

void Verdicts::TakeVerdict(LaneTensor& tensor, ShardId from, const Answer& answer) {
  const wire::DataHeader& header = answer.header;
  uint32_t number = header.ref.piece;
  LanePiece& piece = tensor.pieces[number];
  const Spans& spans = piece.spans;
  lane_.Tell(PieceMoment::kAnswered, tensor, number);
  HeldVerdict& held = piece.held;
  held.round = header.ref.round;
  held.status = header.status;
  TakeReceipt(tensor, answer, held.receipt);
  // The verdict is stable if no other member must come to hold it.
  held.stable = header.status == StatusCode::kOk && held.receipt->IsOnly(lane_.slot);
  held.empty = header.status == StatusCode::kOk && IsVerdictEmpty(tensor.facts, spans);
  held.codec = header.status == StatusCode::kOk ? header.codec : uint8_t{0};
  held.piece_bytes = header.piece_bytes;
  piece.copy = BufferRef();
  // Later answers to later pushes bring the news that this answer is stable. After the last credit
  // of a step there are none.
  bool stays = lane_.send_queue.IsLastCredit() && !lane_.links.IsStable(from, header.count);
  TakeBytes(tensor, answer, stays);
  Register(from, tensor, number, header.count);
  if (!spans.want.empty()) tensor.part.TakeBytes();
  lane_.meter.OnAnswered(from, std::max(spans.push.size(), spans.want.size()),
                         lane_.send_queue.IsFull(), lane_.now);
  lane_.send_queue.Answered(spans, lane_.now);
  if (lane_.send_queue.bytes_in_flight() == 0) lane_.meter.OnIdle();
  // The others wait for the news that this rank has its part.
  bool has_all = !spans.want.empty() && !tensor.part.LacksBytes();
  if (tensor.exchange->others_wait && has_all) AcknowledgeNow();
  walk_.GoOn(tensor, number);
}

void Verdicts::AcknowledgeNow() {
  for (ShardId shard = 0; shard < lane_.links.size(); ++shard) {
    if (!lane_.links.IsUp(shard) || !lane_.links.Owes(shard)) continue;
    lane_.driver.Send(shard, wire::Ack{lane_.links.Acknowledge(shard), lane_.epoch});
  }
}

// Puts the verdict's bytes where they are wanted, or gives them to the stages behind the exchange.
// Staged bytes are kept as the copy.
void Verdicts::TakeBytes(LaneTensor& tensor, const Answer& answer, bool stays_unstable) {
  const wire::DataHeader& header = answer.header;
  uint32_t number = header.ref.piece;
  LanePiece& piece = tensor.pieces[number];
  const bool error = header.status != StatusCode::kOk;
  // The pushed bytes are the verdict, and they are dropped when the piece is done.
  if (piece.spans.want.empty() && piece.contribution.there) stays_unstable = true;
  if (answer.staged.data() == nullptr) {
    if (error) TakeError(tensor, answer, {});
    // The copy is made now, while the bytes are still in the cache.
    if (!piece.held.stable && stays_unstable) KeepVerdict(lane_, piece);
    return;
  }
  const std::byte* bytes = answer.staged.data() + header.receipt;
  size_t count = answer.payload_bytes - header.receipt;
  if (error) TakeError(tensor, answer, ConstByteSpan(bytes, count));
  const bool for_stages = !error && (header.codec != 0 || tensor.path->staged);
  const bool wanted =
      !error && !piece.spans.want.empty() && !LacksRoot(tensor, *piece.held.receipt);
  if (wanted && for_stages) {
    piece.answer = {true, answer.staged, header.receipt, static_cast<uint32_t>(count)};
  } else if (wanted) {
    lane_.arithmetic.Copy(piece.spans.want.data(), bytes, piece.spans.want.size());
  }
  if (piece.held.stable) return;
  if (!error && piece.spans.want.empty()) {
    if (stays_unstable) KeepVerdict(lane_, piece);
    return;
  }
  bool whole = for_stages || error || count == piece.spans.piece_bytes;
  if (!whole || (header.receipt != 0 && !error && !for_stages)) return;
  piece.copy = answer.staged;
  piece.copy_bytes = static_cast<uint32_t>(count);
  if (header.receipt == 0) return;
  piece.copy = lane_.pool.Take(count);
  lane_.arithmetic.Copy(piece.copy.data(), bytes, count);
}

// Other pieces may still be on their way into the user's memory, so the operation ends with the
// last of them, not here.
void Verdicts::TakeError(LaneTensor& tensor, const Answer& answer, ConstByteSpan bytes) {
  uint64_t round = answer.header.ref.round;
  Result<wire::ErrorRow> row = wire::ErrorRow::Decode(bytes, round);
  tensor.part.Fail(
      answer.header.ref.piece,
      row.ok() ? *row->Of(round) : Status(answer.header.status, "no reason was given"));
}

// A piece that has moved has an answer number of its new owner, which may be the same number.
void Verdicts::ReleaseStable(ShardId from) {
  while (auto answer = lane_.links.TakeStable(from)) {
    LaneTensor* tensor = lane_.pieces.Find(answer->tensor);
    if (tensor == nullptr || answer->piece >= tensor->pieces.size()) continue;
    LanePiece& piece = tensor->pieces[answer->piece];
    bool same = piece.owner == from && piece.held.number == answer->number &&
                piece.held.round == answer->round;
    if (!same) continue;
    piece.held.stable = true;
    piece.copy = BufferRef();
  }
}

}  // namespace byteps::protocol
