#include "src/operations/check.h"

#include <algorithm>
#include <string>

#include "src/operations/moved.h"
#include "src/operations/row.h"
#include "src/operations/sizes.h"

namespace byteps::operations {
namespace {

// Limits the ranks because a table with a number for each pair of ranks is one piece.
constexpr uint32_t kPairsRanksMax = 2048;

Status Invalid(const std::string& text) { return {StatusCode::kInvalidArgument, text}; }

std::string Tensor(const Work& work) { return "tensor '" + std::string(work.name) + "'"; }

// Returns "broadcast of 'x'".
std::string Of(const Work& work) {
  return NameOf(work.spec.op) + (" of '" + std::string(work.name)) + "'";
}

std::string RanksOf(const Work& work) {
  std::span<const uint32_t> ranks = work.place.ranks;
  if (work.spec.process_set == 0 && ranks.back() + 1 == ranks.size()) {
    return "the job has ranks 0 to " + std::to_string(ranks.back());
  }
  std::string text;
  for (uint32_t rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  if (work.spec.process_set == 0) return "the job has ranks " + text;
  return "process set " + std::to_string(work.spec.process_set) + " has ranks " + text;
}

Status CheckSplits(Work& work, std::vector<uint64_t>& splits) {
  const uint32_t count = work.place.count();
  if (count > kPairsRanksMax) {
    return Invalid(Of(work) + " among " + std::to_string(count) + " ranks: at most " +
                   std::to_string(kPairsRanksMax) + " can take part");
  }
  if (work.splits.empty()) {
    if (work.rows % count != 0) {
      return Invalid(Of(work) + ": " + std::to_string(work.rows) +
                     " rows cannot be split evenly among " + std::to_string(count) +
                     " ranks; give splits");
    }
    splits.assign(count, work.rows / count);
    work.splits = splits;
    return Status::Ok();
  }
  uint64_t sum = 0;
  bool overflow = false;
  for (uint64_t rows : work.splits) overflow = __builtin_add_overflow(sum, rows, &sum) || overflow;
  if (work.splits.size() == count && sum == work.rows && !overflow) return Status::Ok();
  return Invalid(Of(work) + " has " + std::to_string(work.splits.size()) + " splits with " +
                 std::to_string(sum) + " rows in all; it needs one for each of the " +
                 std::to_string(count) + " ranks, and " + std::to_string(work.rows) +
                 " rows, the tensor's first dimension");
}

// Checks that the result lies exactly where its bytes are in the input, or outside the input.
Status CheckMemory(const Work& work) {
  const uint64_t bytes = InputBytes(work.spec, work.rows).value_or(0);
  const Part own = RowOf(work.spec.op).output(work);
  if ((bytes > 0 && work.input == nullptr) || (own.bytes > 0 && work.output == nullptr)) {
    return Invalid(Tensor(work) + " has " + std::to_string(bytes) + " bytes but no memory");
  }
  if (own.bytes == 0 || work.output == work.input + own.begin) return Status::Ok();
  if (!Overlap({work.input, bytes}, {work.output, own.bytes})) return Status::Ok();
  if (!RowOf(work.spec.op).scatters) {
    return Invalid(Of(work) +
                   ": input and output overlap, and what is still to be sent would be "
                   "overwritten; give the same memory for both, or copy one of them");
  }
  return Invalid(Of(work) +
                 ": the result may lie where this rank's own rows are in the input, or outside "
                 "the input; elsewhere it would overwrite what is still to be sent");
}

}  // namespace

Status CheckArguments(const Work& work) {
  const wire::TensorSpec& spec = work.spec;
  const Row& row = RowOf(spec.op);
  if (work.name.empty()) return Invalid("an operation needs a name");
  for (int64_t dimension : spec.shape) {
    if (dimension < 0) return Invalid(Tensor(work) + " has a negative dimension");
  }
  if (spec.detail.size() > wire::kDetailBytesMax) {
    return Invalid("the detail of " + Tensor(work) + " has " + std::to_string(spec.detail.size()) +
                   " bytes; it may have " + std::to_string(wire::kDetailBytesMax));
  }
  if (row.scatters && spec.shape.empty()) {
    return Invalid(Of(work) + ": a scalar has no rows to scatter; give it the shape [1]");
  }
  if (row.has_reduction && static_cast<int>(spec.combine) >= wire::kReductionCount) {
    return Invalid(Of(work) + " cannot combine by " + NameOf(spec.combine) +
                   "; use a sum, average, min, max or product");
  }
  if (spec.atomic && !row.may_be_atomic) {
    return Invalid(Called(work) +
                   " cannot be atomic: each rank gets another part, and what a lost rank had "
                   "would be missing anyway");
  }
  const Combine combine = CombineOf(spec);
  if (spec.codec != 0 && (combine == Combine::kOverlay || combine == Combine::kLast)) {
    return Invalid(Of(work) + " cannot have codec " + std::to_string(spec.codec) +
                   ": it moves bytes and adds nothing up, and only what is combined can be "
                   "encoded; give it codec 0");
  }
  if (!InputBytes(spec, work.rows).has_value()) {
    return Invalid(Tensor(work) + " has more than " + std::to_string(kTensorBytesMax) +
                   " bytes; check its shape");
  }
  return Status::Ok();
}

Status CheckPlace(Work& work, std::vector<uint64_t>& splits) {
  const Row& row = RowOf(work.spec.op);
  if (row.has_root && !RootPlace(work).has_value()) {
    return Invalid(Of(work) + " from rank " + std::to_string(work.spec.root) + ": " +
                   RanksOf(work));
  }
  Status checked = row.has_splits ? CheckSplits(work, splits) : Status::Ok();
  return checked.ok() ? CheckMemory(work) : checked;
}

}  // namespace byteps::operations
