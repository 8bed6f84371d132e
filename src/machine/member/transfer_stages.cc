#include "src/machine/member/transfer_stages.h"

#include <utility>

namespace byteps::machine {

using protocol::StageVerdict;

TransferStages::TransferStages(BlockTransfers& transfers, const protocol::StageTools& tools)
    : transfers_(transfers), resume_(tools.resume), encode_(tools.codecs), decode_(tools.codecs) {}

BlockTransfers::Piece TransferStages::PieceOf(const protocol::PieceInHand& piece,
                                              BlockTransfers::Way way) const {
  BlockTransfers::Piece one;
  one.way = way;
  one.owner = this;
  one.ticket = piece.ticket;
  one.key = {piece.exchange.tensor.id, piece.exchange.use, piece.exchange.first_piece};
  one.piece_bytes = piece.spans.piece_bytes;
  one.resume = resume_;
  return one;
}

StageVerdict TransferStages::Collect::Enter(protocol::PieceInHand& piece) {
  BlockTransfers::Piece one = stages_.PieceOf(piece, BlockTransfers::Way::kCollect);
  one.offset = piece.spans.push_offset;
  if (!piece.spans.push.empty()) one.to = piece.MakeOutput(piece.spans.push.size());
  return stages_.transfers_.Begin(std::move(one)) ? StageVerdict::kPending : StageVerdict::kDone;
}

StageVerdict TransferStages::Spread::Enter(protocol::PieceInHand& piece) {
  if (!piece.input.has_value() || piece.input->empty()) return StageVerdict::kDone;
  BlockTransfers::Piece one = stages_.PieceOf(piece, BlockTransfers::Way::kSpread);
  one.offset = piece.spans.want_offset;
  one.from = *piece.input;
  return stages_.transfers_.Begin(std::move(one)) ? StageVerdict::kPending : StageVerdict::kDone;
}

}  // namespace byteps::machine
