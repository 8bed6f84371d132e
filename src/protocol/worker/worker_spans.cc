// Which bytes of which piece a rank brings and wants, by operation; and where results lie that are
// laid out when all sizes are known.
#include <algorithm>
#include <bit>
#include <new>

#include "src/operations/row.h"
#include "src/operations/sizes.h"
#include "src/protocol/worker/worker.h"

namespace byteps::protocol {
namespace {

// Tables travel as they lie in memory, and the wire is little-endian.
static_assert(std::endian::native == std::endian::little);

// REQUIRES: CheckOperation has let it through.
uint64_t BytesOf(const wire::TensorSpec& spec) { return operations::TensorBytes(spec).value_or(0); }

uint64_t Plus(uint64_t a, uint64_t b) { return a + std::min(b, UINT64_MAX - a); }

// The part of [own_begin, own_end) that lies in a piece at `offset`.
struct Part {
  uint64_t begin = 0;
  uint64_t bytes = 0;
};
Part PartIn(uint64_t offset, uint32_t bytes, uint64_t own_begin, uint64_t own_end) {
  uint64_t begin = std::clamp(offset, own_begin, own_end);
  return {begin, std::clamp(offset + bytes, own_begin, own_end) - begin};
}

}  // namespace

Worker::Spans Worker::SpansOf(Tensor& tensor, uint32_t number) const {
  if (IsLayout(tensor)) return SpansOfLayout(tensor);
  if (tensor.sections.has_value()) {
    plan::SectionPiece piece = tensor.sections->Piece(number - tensor.first_piece);
    bool scatter = tensor.spec.op == wire::Op::kReducescatter;
    return scatter ? SpansOfScatter(tensor, piece) : SpansOfAlltoall(tensor, piece);
  }
  plan::PieceSpan span = tensor.partition->Piece(number - tensor.first_piece);
  if (tensor.spec.op == wire::Op::kAllgather) return SpansOfGather(tensor, span);
  const Operation& operation = tensor.task->operation;
  Spans spans;
  spans.piece_bytes = span.bytes;
  if (span.bytes == 0) return spans;
  if (tensor.spec.op == wire::Op::kJoin) {
    auto table = std::as_writable_bytes(std::span(tensor.task->table));
    spans.push = table.first(span.bytes);
    spans.want = table.last(span.bytes);
    return spans;
  }
  bool broadcast = tensor.spec.op == wire::Op::kBroadcast;
  bool root = tensor.spec.root == rank_;
  const std::byte* input = operation.input;
  if (tensor.task->kept_input != nullptr) input = tensor.task->kept_input.get();
  if (!broadcast || root) spans.push = ConstByteSpan(input + span.offset, span.bytes);
  if (!broadcast || !root) spans.want = ByteSpan(operation.output + span.offset, span.bytes);
  return spans;
}

// Every worker lays its numbers into a table, at its place in the group.
Worker::Spans Worker::SpansOfLayout(Tensor& tensor) const {
  const Group& group = GroupOf(tensor.spec);
  auto bytes = std::as_writable_bytes(std::span(tensor.task->table));
  size_t own_bytes = bytes.size() / group.places.size();
  Spans spans;
  spans.piece_bytes = static_cast<uint32_t>(bytes.size());
  spans.push_offset = static_cast<uint32_t>(group.self * own_bytes);
  spans.push = bytes.subspan(spans.push_offset, own_bytes);
  spans.want = bytes;
  return spans;
}

// The pieces cover the result; a worker pushes what of its own rows lies in a piece.
Worker::Spans Worker::SpansOfGather(Tensor& tensor, plan::PieceSpan span) const {
  const Task& task = *tensor.task;
  uint64_t total_rows = std::max<uint64_t>(task.outcome.rows, 1);
  uint64_t row_bytes = task.outcome.gathered_bytes / total_rows;
  uint64_t own_begin = 0;
  for (uint32_t i = 0; i < GroupOf(tensor.spec).self; ++i) own_begin += task.table[i] * row_bytes;
  uint64_t own_end = own_begin + task.operation.rows * row_bytes;
  Part part = PartIn(span.offset, span.bytes, own_begin, own_end);
  Spans spans;
  spans.piece_bytes = span.bytes;
  if (part.bytes > 0) {
    spans.push_offset = static_cast<uint32_t>(part.begin - span.offset);
    spans.push = ConstByteSpan(task.operation.input + (part.begin - own_begin), part.bytes);
  }
  // A piece that is all mine was copied when the result was laid out.
  if (spans.push.size() == span.bytes) return spans;
  spans.want = ByteSpan(task.outcome.gathered.get() + span.offset, span.bytes);
  return spans;
}

// A section has the rows of one receiver; everybody pushes all of it.
Worker::Spans Worker::SpansOfScatter(Tensor& tensor, const plan::SectionPiece& piece) const {
  const Group& group = GroupOf(tensor.spec);
  const Operation& operation = tensor.task->operation;
  Spans spans;
  spans.piece_bytes = piece.bytes;
  if (piece.bytes == 0) return spans;
  auto rows = static_cast<uint64_t>(tensor.spec.shape[0]);
  uint64_t row_bytes = BytesOf(tensor.spec) / rows;
  uint64_t offset =
      operations::RowsBefore(rows, piece.section, group.places.size()) * row_bytes + piece.offset;
  spans.push = ConstByteSpan(operation.input + offset, piece.bytes);
  bool mine = piece.section == group.self;
  if (mine) spans.want = ByteSpan(operation.output + piece.offset, piece.bytes);
  return spans;
}

// Two sections for each receiver: what comes from senders before it, and from senders behind it.
// Its own rows do not travel.
Worker::Spans Worker::SpansOfAlltoall(Tensor& tensor, const plan::SectionPiece& piece) const {
  const Group& group = GroupOf(tensor.spec);
  const Task& task = *tensor.task;
  const uint64_t count = group.places.size();
  const uint64_t row_bytes = BytesOf(tensor.spec);
  const uint64_t receiver = piece.section / 2;
  const bool behind = piece.section % 2 != 0;
  auto rows = [&](uint64_t from) { return task.table[from * count + receiver]; };
  Spans spans;
  spans.piece_bytes = piece.bytes;
  if (piece.bytes == 0) return spans;
  if (group.self == receiver) {
    uint64_t before = 0;
    for (uint64_t from = 0; behind && from <= receiver; ++from) before += rows(from);
    spans.want =
        ByteSpan(task.outcome.gathered.get() + before * row_bytes + piece.offset, piece.bytes);
    return spans;
  }
  if (behind != (group.self > receiver)) return spans;
  uint64_t own_begin = 0;
  for (uint64_t from = behind ? receiver + 1 : 0; from < group.self; ++from) {
    own_begin += rows(from) * row_bytes;
  }
  Part part =
      PartIn(piece.offset, piece.bytes, own_begin, own_begin + rows(group.self) * row_bytes);
  if (part.bytes == 0) return spans;
  uint64_t input_rows = 0;
  for (uint64_t to = 0; to < receiver; ++to) input_rows += task.operation.splits[to];
  spans.push_offset = static_cast<uint32_t>(part.begin - piece.offset);
  const std::byte* input = task.operation.input + input_rows * row_bytes;
  spans.push = ConstByteSpan(input + (part.begin - own_begin), part.bytes);
  return spans;
}

// What this rank neither wants nor pushes whole it does not have.
bool Worker::IsHollow(const Tensor& tensor, const Spans& spans) const {
  if (!spans.want.empty() || spans.piece_bytes == 0) return false;
  return CombineOf(tensor.spec) != Combine::kOverlay || spans.push.size() != spans.piece_bytes;
}

// Where the verdict of an operation's piece lies while the operation has not been handed over.
// REQUIRES: it is not hollow.
ConstByteSpan Worker::VerdictIn(Tensor& tensor, uint32_t number) const {
  const Task& task = *tensor.task;
  bool laid_out = tensor.spec.op == wire::Op::kAllgather || tensor.spec.op == wire::Op::kAlltoall;
  if (IsLayout(tensor) || (number == 0 && laid_out)) return std::as_bytes(std::span(task.table));
  if (tensor.sections.has_value() || tensor.spec.op == wire::Op::kJoin) {
    Spans spans = SpansOf(tensor, number);
    if (!spans.want.empty()) return spans.want;
    return spans.push;
  }
  plan::PieceSpan span = tensor.partition->Piece(number - tensor.first_piece);
  if (tensor.spec.op == wire::Op::kAllgather) {
    return ConstByteSpan(task.outcome.gathered.get() + span.offset, span.bytes);
  }
  bool root = tensor.spec.op == wire::Op::kBroadcast && tensor.spec.root == rank_;
  const Operation& operation = task.operation;
  return ConstByteSpan((root ? operation.input : operation.output) + span.offset, span.bytes);
}

// All sizes are known: the result gets its memory, and this rank's rows their place in it. A result
// that is too large is so on every rank; what goes wrong here alone, the others must be told.
Status Worker::MakeRoomForGather(Task& task) {
  const std::string& name = task.operation.name;
  const Group& group = GroupOf(task.operation.spec);
  uint64_t row_bytes = BytesOf(task.operation.spec);
  uint64_t rows = 0;
  uint64_t rows_before = 0;
  for (uint32_t i = 0; i < group.places.size(); ++i) {
    // Nobody has laid a number where that of one who is lost, or has joined, would be.
    if (!task.outcome.receipt->Contains(roster_[group.places[i]].slot)) task.table[i] = 0;
    if (i == group.self) rows_before = rows;
    rows = Plus(rows, task.table[i]);
    task.outcome.received_splits.push_back(static_cast<int64_t>(task.table[i]));
  }
  std::optional<uint64_t> bytes = operations::RowsBytes(rows, row_bytes);
  if (!bytes.has_value() || *bytes > options_.gathered_bytes_max) {
    return {StatusCode::kExhausted, "allgather '" + name + "' has " + std::to_string(rows) +
                                        " rows of " + std::to_string(row_bytes) +
                                        " bytes in all, more than a result may have"};
  }
  if (task.table[group.self] != task.operation.rows) {
    return GiveUp({StatusCode::kProtocol, "the table of rows of allgather '" + name +
                                              "' came back with another number of own rows"});
  }
  task.outcome.rows = rows;
  Status placed = TakeRoom(task, *bytes);
  if (!placed.ok()) return placed;
  arithmetic_.Copy(task.outcome.gathered.get() + rows_before * row_bytes, task.operation.input,
                   task.operation.rows * row_bytes);
  return Status::Ok();
}

Status Worker::TakeRoom(Task& task, uint64_t bytes) {
  task.outcome.gathered_bytes = bytes;
  task.outcome.gathered.reset(new (std::nothrow) std::byte[bytes]);
  if (task.outcome.gathered != nullptr) return Status::Ok();
  return GiveUp({StatusCode::kExhausted, "no memory for the " + std::to_string(bytes) +
                                             " bytes of " +
                                             operations::NameOf(task.operation.spec.op) + " '" +
                                             task.operation.name + "'"});
}

// The same for an alltoall, in which each rank has a result of its own size.
Status Worker::MakeRoomForAlltoall(Task& task) {
  const std::string& name = task.operation.name;
  const Group& group = GroupOf(task.operation.spec);
  const uint64_t count = group.places.size();
  const uint64_t row_bytes = BytesOf(task.operation.spec);
  std::vector<uint64_t> received(count);
  uint64_t total = 0;
  for (uint64_t from = 0; from < count; ++from) {
    bool laid = task.outcome.receipt->Contains(roster_[group.places[from]].slot);
    for (uint64_t to = 0; to < count; ++to) {
      uint64_t& rows = task.table[from * count + to];
      if (!laid) rows = 0;
      received[to] = Plus(received[to], rows);
      total = Plus(total, rows);
    }
  }
  uint64_t most = *std::max_element(received.begin(), received.end());
  std::optional<uint64_t> most_bytes = operations::RowsBytes(most, row_bytes);
  bool fits = most_bytes.has_value() && *most_bytes <= options_.gathered_bytes_max;
  if (!fits || !operations::RowsBytes(total, row_bytes).has_value()) {
    return {StatusCode::kExhausted,
            "alltoall '" + name + "' gives one rank " + std::to_string(most) + " rows of " +
                std::to_string(row_bytes) + " bytes, more than a result may have"};
  }
  auto own = task.table.begin() + static_cast<ptrdiff_t>(group.self * count);
  const std::vector<uint64_t>& splits = task.operation.splits;
  if (!std::equal(splits.begin(), splits.end(), own)) {
    return GiveUp({StatusCode::kProtocol,
                   "the table of rows of alltoall '" + name + "' came back with other own splits"});
  }
  task.outcome.rows = received[group.self];
  Status placed = TakeRoom(task, received[group.self] * row_bytes);
  if (!placed.ok()) return placed;
  uint64_t to_rows = 0;
  uint64_t from_rows = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t from = task.table[i * count + group.self];
    if (i < group.self) to_rows += splits[i];
    if (i < group.self) from_rows += from;
    task.outcome.received_splits.push_back(static_cast<int64_t>(from));
  }
  arithmetic_.Copy(task.outcome.gathered.get() + from_rows * row_bytes,
                   task.operation.input + to_rows * row_bytes, splits[group.self] * row_bytes);
  return Status::Ok();
}

// Of a reducescatter.
uint64_t Worker::OwnRows(const wire::TensorSpec& spec) const {
  const Group& group = GroupOf(spec);
  auto rows = static_cast<uint64_t>(spec.shape[0]);
  return operations::RowsBefore(rows, group.self + 1, group.places.size()) -
         operations::RowsBefore(rows, group.self, group.places.size());
}

// The bytes that go to each receiver. Those of an alltoall to somebody who takes no part are sent
// to nobody.
std::vector<uint64_t> Worker::SectionsOf(const Task& task) const {
  const wire::TensorSpec& spec = task.operation.spec;
  const Group& group = GroupOf(spec);
  const uint64_t count = group.places.size();
  std::vector<uint64_t> bytes;
  if (spec.op == wire::Op::kReducescatter) {
    auto rows = static_cast<uint64_t>(spec.shape[0]);
    uint64_t row_bytes = rows == 0 ? 0 : BytesOf(spec) / rows;
    for (uint64_t i = 0; i < count; ++i) {
      bytes.push_back(
          (operations::RowsBefore(rows, i + 1, count) - operations::RowsBefore(rows, i, count)) *
          row_bytes);
    }
    return bytes;
  }
  for (uint64_t to = 0; to < count; ++to) {
    bool here = task.outcome.receipt->Contains(roster_[group.places[to]].slot);
    uint64_t sums[2] = {0, 0};
    for (uint64_t from = 0; here && from < count; ++from) {
      if (from != to) sums[from > to ? 1 : 0] += task.table[from * count + to];
    }
    bytes.push_back(sums[0] * BytesOf(spec));
    bytes.push_back(sums[1] * BytesOf(spec));
  }
  return bytes;
}

}  // namespace byteps::protocol
