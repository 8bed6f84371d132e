#include "src/protocol/worker/exchange/deal.h"

#include <utility>

#include "src/operations/sizes.h"
#include "src/plan/partition.h"

namespace byteps::protocol {

uint32_t DealOptions::PieceBytes(uint64_t bytes) const {
  return piece_bytes != 0 ? piece_bytes : plan::PieceBytes(bytes, ranks, piece_bytes_max);
}

DealOptions DealOptionsOf(const wire::View& view) {
  DealOptions options;
  for (const wire::ServerInfo& server : view.servers) {
    options.shard_weights.insert(options.shard_weights.end(), server.shard_weights.begin(),
                                 server.shard_weights.end());
  }
  options.piece_bytes_max = view.piece_bytes_max;
  options.ranks = static_cast<uint32_t>(wire::WorkersOfGeneration(view).size());
  return options;
}

void Deal::Begin(std::vector<uint64_t> placement) {
  placement_ = std::move(placement);
  cut_.reset();
  dealer_.reset();
  homes_.clear();
}

Status Deal::Cut(const DealOptions& options, const std::string& name, uint32_t first_piece,
                 const operations::Extent& extent, uint32_t piece_bytes, bool known_pieces) {
  if (cut_.has_value() && first_piece_ == first_piece && cut_->Is(extent, piece_bytes)) {
    return Status::Ok();
  }
  Result<operations::Cut> cut = operations::Cut::Make(extent, piece_bytes);
  if (!cut.ok()) return cut.status();
  cut_ = std::move(cut).value();
  first_piece_ = first_piece;
  Status dealt = DealHomes(options, name, known_pieces);
  if (!dealt.ok()) cut_.reset();
  return dealt;
}

// The home of a piece depends on the piece's number alone. So a message about a round finds the
// owner, even if the next round is cut in another way.
Status Deal::DealHomes(const DealOptions& options, const std::string& name, bool known_pieces) {
  if (count() > operations::kPiecesMax) {
    return {StatusCode::kExhausted, "tensor '" + name + "' has " + std::to_string(count()) +
                                        " pieces; raise BYTEPS_PARTITION_BYTES"};
  }
  if (!dealer_.has_value()) {
    Result<plan::PieceAssigner> dealer =
        plan::PieceAssigner::Create(options.shard_weights, options.piece_bytes_max);
    if (!dealer.ok()) return dealer.status();
    Status restored = dealer->Restore(placement_);
    if (!restored.ok()) return restored;
    dealer_ = std::move(dealer).value();
  }
  size_t end = first_piece_ + size_t{count()};
  if (homes_.size() >= end) return Status::Ok();
  if (known_pieces) {
    homes_ = dealer_->DealTensor(*cut_->run());
    return Status::Ok();
  }
  while (homes_.size() < end) homes_.push_back(dealer_->Next(options.piece_bytes_max));
  return Status::Ok();
}

}  // namespace byteps::protocol
