// What can be wrong with an operation that this rank can see alone: nothing is accepted then.
#include <algorithm>
#include <functional>

#include "src/operations/row.h"
#include "src/operations/sizes.h"
#include "src/protocol/worker/worker.h"

namespace byteps::protocol {
namespace {

// The table of an alltoall is one piece.
constexpr size_t kAlltoallRanksMax = 2048;

Status Invalid(const std::string& text) { return {StatusCode::kInvalidArgument, text}; }

std::string List(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (uint32_t rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

bool HasRowsOfItsOwn(wire::Op op) {
  return op == wire::Op::kAllgather || op == wire::Op::kAlltoall;
}

}  // namespace

Status Worker::CheckOperation(Operation& operation) const {
  if (operation.name.empty()) return Invalid("an operation needs a name");
  const wire::TensorSpec& spec = operation.spec;
  Status checked = CheckJoin(operation);
  if (!checked.ok()) return checked;
  if (spec.op == wire::Op::kJoin) return Status::Ok();
  for (int64_t dimension : spec.shape) {
    if (dimension < 0) return Invalid("tensor '" + operation.name + "' has a negative dimension");
  }
  if (spec.detail.size() > wire::kDetailBytesMax) {
    return Invalid("the detail of tensor '" + operation.name + "' has " +
                   std::to_string(spec.detail.size()) + " bytes; it may have " +
                   std::to_string(wire::kDetailBytesMax));
  }
  checked = CheckGroup(operation);
  if (checked.ok() && spec.op == wire::Op::kAlltoall) checked = CheckSplits(operation);
  if (!checked.ok()) return checked;
  bool scatter = spec.op == wire::Op::kReducescatter;
  if (scatter && spec.shape.empty()) {
    return Invalid("reducescatter of '" + operation.name +
                   "': a scalar has no rows to scatter; give it the shape [1]");
  }
  if (scatter && static_cast<int>(spec.combine) >= wire::kReductionCount) {
    return Invalid("reducescatter of '" + operation.name + "' cannot combine by " +
                   operations::NameOf(spec.combine) + "; use a sum, average, min, max or product");
  }
  if (spec.atomic && (scatter || HasRowsOfItsOwn(spec.op))) {
    return Invalid(std::string(operations::NameOf(spec.op)) + " '" + operation.name +
                   "' cannot be atomic: each rank gets another part, and what a lost rank had "
                   "would be missing anyway");
  }
  return CheckMemory(operation);
}

// Who has joined has nothing open, and opens nothing.
Status Worker::CheckJoin(const Operation& operation) const {
  if (joining_) {
    return Invalid("'" + operation.name +
                   "' cannot begin: this rank has joined, and takes part again when all have; wait "
                   "for the join (if that has failed, shut down)");
  }
  if (operation.spec.op != wire::Op::kJoin) return Status::Ok();
  if (operation.spec.group != 0) {
    return Invalid("join is for all ranks; there is none of a process set");
  }
  if (!open_.empty()) {
    return Invalid("join '" + operation.name + "': " + std::to_string(open_.size()) +
                   " operations of this rank have not ended; wait for them first");
  }
  if (joins_ >= wire::kJoinsMax) {
    return {StatusCode::kExhausted, "join '" + operation.name + "': the ranks have joined " +
                                        std::to_string(joins_) + " times; start the job again"};
  }
  return Status::Ok();
}

Status Worker::CheckGroup(const Operation& operation) const {
  const wire::TensorSpec& spec = operation.spec;
  bool broadcast = spec.op == wire::Op::kBroadcast;
  std::string root = "broadcast of '" + operation.name + "' from rank " + std::to_string(spec.root);
  if (spec.group == 0) {
    if (!broadcast || spec.root < members_) return Status::Ok();
    return Invalid(root + ": the job has ranks 0 to " + std::to_string(members_ - 1));
  }
  auto found = groups_.find(spec.group);
  if (found == groups_.end() || found->second.removed) {
    return Invalid("'" + operation.name + "' is of process set " + std::to_string(spec.group) +
                   ", which this rank does not know; add it on every rank first");
  }
  const Group& group = found->second;
  if (group.self == kNoPlace) {
    return Invalid("'" + operation.name + "' is of process set " + std::to_string(spec.group) +
                   ", which has ranks " + List(group.ranks) + " and not rank " +
                   std::to_string(rank_));
  }
  bool has_root = std::find(group.ranks.begin(), group.ranks.end(), spec.root) != group.ranks.end();
  if (!broadcast || has_root) return Status::Ok();
  return Invalid(root + ": process set " + std::to_string(spec.group) + " has ranks " +
                 List(group.ranks));
}

Status Worker::CheckSplits(Operation& operation) const {
  const std::string what = "alltoall of '" + operation.name + "'";
  size_t count = GroupOf(operation.spec).places.size();
  if (count > kAlltoallRanksMax) {
    return Invalid(what + " among " + std::to_string(count) + " ranks: at most " +
                   std::to_string(kAlltoallRanksMax) + " can take part");
  }
  if (operation.splits.empty()) {
    if (operation.rows % count != 0) {
      return Invalid(what + ": " + std::to_string(operation.rows) +
                     " rows cannot be split evenly among " + std::to_string(count) +
                     " ranks; give splits");
    }
    operation.splits.assign(count, operation.rows / count);
    return Status::Ok();
  }
  uint64_t sum = 0;
  bool overflow = false;
  for (uint64_t rows : operation.splits)
    overflow = __builtin_add_overflow(sum, rows, &sum) || overflow;
  if (operation.splits.size() == count && sum == operation.rows && !overflow) return Status::Ok();
  return Invalid(what + " has " + std::to_string(operation.splits.size()) + " splits with " +
                 std::to_string(sum) + " rows in all; it needs one for each of the " +
                 std::to_string(count) + " ranks, and " + std::to_string(operation.rows) +
                 " rows, the tensor's first dimension");
}

Status Worker::CheckMemory(const Operation& operation) const {
  const wire::TensorSpec& spec = operation.spec;
  std::optional<uint64_t> bytes = operations::TensorBytes(spec);
  bool own_rows = HasRowsOfItsOwn(spec.op);
  if (bytes.has_value() && own_rows) bytes = operations::RowsBytes(operation.rows, *bytes);
  if (!bytes.has_value()) {
    return Invalid("tensor '" + operation.name + "' has more than " +
                   std::to_string(operations::kTensorBytesMax) + " bytes; check its shape");
  }
  uint64_t output_bytes = own_rows ? 0 : *bytes;
  uint64_t own_offset = 0;
  if (spec.op == wire::Op::kReducescatter && *bytes > 0) {
    const Group& group = GroupOf(spec);
    auto rows = static_cast<uint64_t>(spec.shape[0]);
    uint64_t row_bytes = *bytes / rows;
    own_offset = operations::RowsBefore(rows, group.self, group.places.size()) * row_bytes;
    output_bytes =
        operations::RowsBefore(rows, group.self + 1, group.places.size()) * row_bytes - own_offset;
  }
  bool no_input = *bytes > 0 && operation.input == nullptr;
  bool no_output = output_bytes > 0 && operation.output == nullptr;
  if (no_input || no_output) {
    return Invalid("tensor '" + operation.name + "' has " + std::to_string(*bytes) +
                   " bytes but no memory");
  }
  if (output_bytes == 0 || operation.output == operation.input + own_offset) return Status::Ok();
  if (!Overlap({operation.input, *bytes}, {operation.output, output_bytes})) return Status::Ok();
  if (spec.op != wire::Op::kReducescatter) {
    return Invalid(std::string(operations::NameOf(spec.op)) + " of '" + operation.name +
                   "': input and output overlap, and what is still to be sent would be "
                   "overwritten; give the same memory for both, or copy one of them");
  }
  return Invalid("reducescatter of '" + operation.name +
                 "': the result may lie where this rank's own rows are in the input, or outside "
                 "the input; elsewhere it would overwrite what is still to be sent");
}

}  // namespace byteps::protocol
