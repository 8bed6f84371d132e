#include "src/machine/member/ferry_paths.h"

#include <utility>

namespace byteps::machine {

using protocol::StageVerdict;

FerryPaths::FerryPaths(Ferry& ferry, const protocol::StageTools& tools)
    : ferry_(ferry), resume_(tools.resume), encode_(tools.codecs), decode_(tools.codecs) {}

Ferry::Piece FerryPaths::PieceOf(const protocol::PieceInHand& piece, Ferry::Way way) const {
  Ferry::Piece one;
  one.way = way;
  one.owner = this;
  one.ticket = piece.ticket;
  one.key = {piece.exchange.tensor.id, piece.exchange.use, piece.exchange.first_piece};
  one.piece_bytes = piece.spans.piece_bytes;
  one.resume = resume_;
  return one;
}

StageVerdict FerryPaths::Collect::Enter(protocol::PieceInHand& piece) {
  Ferry::Piece one = paths_.PieceOf(piece, Ferry::Way::kCollect);
  one.offset = piece.spans.push_offset;
  if (!piece.spans.push.empty()) one.to = piece.MakeOutput(piece.spans.push.size());
  return paths_.ferry_.Begin(std::move(one)) ? StageVerdict::kPending : StageVerdict::kDone;
}

StageVerdict FerryPaths::Spread::Enter(protocol::PieceInHand& piece) {
  if (!piece.input.has_value() || piece.input->empty()) return StageVerdict::kDone;
  Ferry::Piece one = paths_.PieceOf(piece, Ferry::Way::kSpread);
  one.offset = piece.spans.want_offset;
  one.from = *piece.input;
  return paths_.ferry_.Begin(std::move(one)) ? StageVerdict::kPending : StageVerdict::kDone;
}

}  // namespace byteps::machine
