#include "src/protocol/worker/lane/kept_verdicts.h"

#include <utility>

namespace byteps::protocol {

bool IsVerdictEmpty(const TensorFacts& tensor, const Spans& spans) {
  if (!spans.want.empty() || spans.piece_bytes == 0) return false;
  return tensor.combine != Combine::kOverlay || spans.push.size() != spans.piece_bytes;
}

void KeepVerdict(LaneContext& lane, LanePiece& piece) {
  const HeldVerdict& held = piece.held;
  // An encoded verdict was kept when it came, in its encoded form.
  bool nothing =
      held.empty || held.piece_bytes == 0 || held.status != StatusCode::kOk || held.codec != 0;
  if (piece.copy || nothing) return;
  ConstByteSpan pushed = piece.contribution.there ? piece.contribution.span() : piece.spans.push;
  ConstByteSpan verdict = piece.spans.want.empty() ? pushed : ConstByteSpan(piece.spans.want);
  piece.copy = lane.pool.Take(verdict.size());
  piece.copy_bytes = static_cast<uint32_t>(verdict.size());
  lane.arithmetic.Copy(piece.copy.data(), verdict.data(), verdict.size());
}

void KeepVerdicts(LaneContext& lane, const Exchange& exchange, LaneTensor& tensor) {
  for (uint32_t number = exchange.first_piece; number < exchange.end(); ++number) {
    LanePiece& piece = tensor.pieces[number];
    if (piece.step != PieceStep::kDone || piece.held.stable) continue;
    if (lane.rules.KeepsVerdicts()) {
      KeepVerdict(lane, piece);
    } else {
      piece.copy = BufferRef();
    }
  }
}

void TellVerdict(LaneContext& lane, LaneTensor& tensor, uint32_t number) {
  LanePiece& piece = tensor.pieces[number];
  HeldVerdict& held = piece.held;
  if (!piece.copy && tensor.IsOpen(number)) KeepVerdict(lane, piece);
  bool lost =
      !piece.copy && !held.empty && (held.status != StatusCode::kOk || held.piece_bytes > 0);
  if (lost) return;  // a rule that keeps no verdicts has lost it
  wire::DataHeader header;
  header.ref = {tensor.facts.id, number, held.round};
  header.epoch = lane.epoch;
  header.generation = lane.generation;
  header.count = lane.links.Received(piece.owner);
  header.home = piece.home;
  header.combine = tensor.facts.combine;
  header.dtype = tensor.facts.dtype;
  header.status = held.status;
  header.codec = held.codec;
  uint32_t bytes = piece.copy ? piece.copy_bytes : 0;
  // The owner may be in another view than this worker, so the receipt names every member.
  header.receipt = static_cast<uint32_t>(held.receipt->bitmap_bytes());
  BufferRef payload = lane.pool.Take(header.receipt + bytes);
  held.receipt->ToBitmap(ByteSpan(payload.data(), header.receipt));
  lane.arithmetic.Copy(payload.data() + header.receipt, piece.copy.data(), bytes);
  bool decoded = held.empty || held.codec != 0;
  header.piece_bytes = decoded ? held.piece_bytes : bytes;
  header.want_bytes = held.empty ? 0 : header.piece_bytes;
  header.encoded_bytes = bytes;
  held.told = true;
  ConstByteSpan all(payload.data(), header.receipt + bytes);
  lane.driver.SendData(piece.owner, {wire::FrameKind::kVerdict, header, all, std::move(payload)});
}

}  // namespace byteps::protocol
