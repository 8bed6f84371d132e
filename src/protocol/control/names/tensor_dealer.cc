#include "src/protocol/control/names/tensor_dealer.h"

#include <string>
#include <utility>

#include "src/operations/row.h"
#include "src/operations/sizes.h"
#include "src/plan/partition.h"

namespace byteps::protocol {
namespace {

// One message names at most so many tensors, a megabyte.
constexpr size_t kStillKnownMax = size_t{1} << 18;

// Cuts a tensor as far as its pieces are known before the first round. If the ranks exchange sizes
// first, pieces are dealt from the same state, but their number is not known here. The number of
// pieces of scattered rows depends on the process set and is about this one.
Result<plan::Partition> CutOf(const wire::TensorSpec& spec, uint32_t ranks, uint32_t bytes_max) {
  std::optional<uint64_t> bytes = operations::DeclaredBytes(spec);
  if (!bytes.has_value()) {
    return Status(StatusCode::kInvalidArgument, "no tensor has this shape");
  }
  Result<plan::Partition> cut =
      plan::Partition::Cut(*bytes, plan::PieceBytes(*bytes, ranks, bytes_max));
  if (cut.ok() && cut->count() > operations::kPiecesMax) {
    return Status(StatusCode::kExhausted, "it has " + std::to_string(cut->count()) +
                                              " pieces; raise BYTEPS_PARTITION_BYTES");
  }
  return cut;
}

}  // namespace

void TensorDealer::Number(TensorId first, uint32_t count) {
  first_ = next_ = first;
  end_ = first + count;
}

void TensorDealer::Begin(plan::PieceAssigner dealer, uint32_t ranks, uint32_t piece_bytes_max) {
  dealer_ = std::move(dealer);
  ranks_ = ranks;
  piece_bytes_max_ = piece_bytes_max;
  heard_.clear();
  all_heard_ = false;
}

Result<Attempt::Variant> TensorDealer::Deal(const wire::TensorSpec& spec) {
  Result<plan::Partition> cut = CutOf(spec, ranks_, piece_bytes_max_);
  if (!cut.ok()) return cut.status();
  if (next_ >= end_) {
    return Status(StatusCode::kExhausted, "the job has declared too many tensors; use names again");
  }
  Attempt::Variant variant{next_++, dealer_->State()};
  dealer_->DealTensor(cut.value());
  return variant;
}

void TensorDealer::Hear(TensorId tensor) {
  if (tensor < first_) heard_.insert(tensor);
}

Status TensorDealer::GoOnAfter(const Attempt::Entry* last) {
  all_heard_ = true;
  if (last == nullptr) return Status::Ok();
  Status restored = dealer_->Restore(last->second.placement);
  if (!restored.ok()) return restored;
  Result<plan::Partition> cut = CutOf(last->first, ranks_, piece_bytes_max_);
  if (cut.ok()) dealer_->DealTensor(cut.value());
  return Status::Ok();
}

std::vector<wire::StillKnown> TensorDealer::StillKnown() const {
  if (!all_heard_) return {};
  std::vector<wire::StillKnown> parts;
  wire::StillKnown part;
  for (TensorId tensor : heard_) {
    if (part.tensors.size() == kStillKnownMax) {
      part.end = tensor;
      parts.push_back(std::exchange(part, {.first = tensor}));
    }
    part.tensors.push_back(tensor);
  }
  part.end = first_;
  parts.push_back(std::move(part));
  return parts;
}

}  // namespace byteps::protocol
