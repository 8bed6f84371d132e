#include "src/protocol/worker/lane/piece_sender.h"

#include <utility>

namespace byteps::protocol {

void PieceSender::Send(const LaneTensor& tensor, uint32_t number) {
  const LanePiece& piece = tensor.pieces[number];
  if (lane_.awaits_take_over) {
    delayed_.push_back({tensor.facts.id, number, piece.round});
    return;
  }
  if (!lane_.links.IsUp(piece.owner)) return;
  lane_.meter.OnPush(piece.owner);
  lane_.Tell(PieceMoment::kPushed, tensor, number);
  wire::DataHeader header = HeaderOf(tensor, number);
  if (piece.failure != nullptr) {
    header.status = piece.failure->code();
    return lane_.driver.Send(piece.owner, wire::Abort{header, piece.failure->message()});
  }
  const PieceBytes& made = piece.contribution;
  ConstByteSpan payload = made.there ? made.span() : piece.spans.push;
  header.encoded_bytes = static_cast<uint32_t>(payload.size());
  BufferRef keep = made.there ? made.buffer : BufferRef();
  lane_.driver.SendData(piece.owner, {wire::FrameKind::kPush, header, payload, std::move(keep)});
}

// Some pushes have been repeated meanwhile, which does no harm.
void PieceSender::SendDelayed() {
  for (const PieceTicket& ticket : std::exchange(delayed_, {})) {
    const LaneTensor* tensor = lane_.pieces.Find(ticket.tensor);
    bool waits =
        tensor != nullptr && tensor->IsExpected({ticket.tensor, ticket.number, ticket.round});
    if (waits) Send(*tensor, ticket.number);
  }
}

wire::DataHeader PieceSender::HeaderOf(const LaneTensor& tensor, uint32_t number) const {
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

}  // namespace byteps::protocol
