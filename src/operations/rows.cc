// The operations, one row each, in the order of their numbers.
#include <algorithm>
#include <iterator>
#include <string>

#include "src/operations/moved.h"
#include "src/operations/row.h"
#include "src/operations/sizes.h"

namespace byteps::operations {
namespace {

bool IsRoot(const Work& work, uint32_t place) { return work.place.ranks[place] == work.spec.root; }

// Only the root pushes, and only the other ranks want.
Spans SpansFromRoot(const Work& work, const plan::SectionPiece& piece) {
  Spans spans = SpansOfRun(work, piece);
  if (IsRoot(work, work.place.self)) {
    spans.want = ByteSpan();
  } else {
    spans.push = ConstByteSpan();
  }
  return spans;
}

// This rank pushes its number, and wants the number of the rank that joined last.
Spans SpansOfJoin(const Work& work, const plan::SectionPiece& piece) {
  auto table = std::as_writable_bytes(work.table);
  Spans spans;
  spans.piece_bytes = piece.bytes;
  spans.push = table.first(piece.bytes);
  spans.want = table.last(piece.bytes);
  return spans;
}

uint64_t OneNumber(uint64_t) { return 1; }
uint64_t OneForEach(uint64_t count) { return count; }

// Returns "float32[3, 4]", or "float32[any, 4]" if each rank may have another number of rows.
std::string ShapeOf(const wire::TensorSpec& spec, bool any) {
  std::string text = NameOf(spec.dtype) + std::string("[");
  if (any) text += spec.shape.empty() ? "any" : "any, ";
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(spec.shape[i]);
  }
  return text + "]";
}

}  // namespace

constinit const Row kRows[wire::kOpCount] = {
    {.name = "sum", .combine = Combine::kSum},
    {.name = "average", .combine = Combine::kAverage},
    {.name = "min", .combine = Combine::kMin},
    {.name = "max", .combine = Combine::kMax},
    {.name = "product", .combine = Combine::kProduct},
    {.name = "broadcast",
     .has_root = true,
     .overwrites_input = false,
     .spans = &SpansFromRoot,
     .needs = &IsRoot},
    {.name = "allgather",
     .may_be_atomic = false,
     .sizes_first = true,
     .own_result = true,
     .known_pieces = false,
     .overwrites_input = false,
     .told = &OneNumber,
     .lay_out = &LayOutGather,
     .spans = &SpansOfGather,
     .needs = &BringsGathered},
    {.name = "barrier", .has_tensor = false},
    {.name = "reducescatter",
     .has_reduction = true,
     .scatters = true,
     .may_be_atomic = false,
     .known_pieces = false,
     .output = &OutputOfScatter,
     .lay_out = &LayOutScatter,
     .spans = &SpansOfScatter},
    {.name = "alltoall",
     .has_splits = true,
     .may_be_atomic = false,
     .sizes_first = true,
     .own_result = true,
     .known_pieces = false,
     .overwrites_input = false,
     .told = &OneForEach,
     .lay_out = &LayOutAlltoall,
     .spans = &SpansOfAlltoall,
     .needs = &BringsToOthers},
    {.name = "join",
     .has_tensor = false,
     .bytes = sizeof(uint64_t),  // a rank
     .dtype = DataType::kInt64,
     .combine = Combine::kLast,
     .joins = true,
     .spans = &SpansOfJoin},
};

std::string Describe(const wire::TensorSpec& spec) {
  const Row& row = RowOf(spec.op);
  std::string text = row.name;
  if (row.has_reduction) text += std::string(" (") + NameOf(spec.combine) + ")";
  if (row.has_tensor) text += " of " + ShapeOf(spec, row.sizes_first);
  if (row.has_root) text += " from rank " + std::to_string(spec.root);
  if (spec.process_set != 0) text += " in process set " + std::to_string(spec.process_set);
  if (spec.codec != 0) text += " with codec " + std::to_string(spec.codec);
  if (!spec.detail.empty()) text += " (" + spec.detail + ")";
  return text;
}

Combine CombineOf(const wire::TensorSpec& spec) {
  return RowOf(RowOf(spec.op).has_reduction ? spec.combine : spec.op).combine;
}

LaidOut LayOutRun(const Work& work, const std::vector<bool>&, uint64_t) {
  LaidOut laid;
  laid.layout.extent.bytes = TensorBytes(work.spec).value_or(0);
  laid.layout.rows = work.rows;
  return laid;
}

Part OutputOfRun(const Work& work) {
  const Row& row = RowOf(work.spec.op);
  bool none = row.own_result || !row.has_tensor;
  return {0, none ? 0 : TensorBytes(work.spec).value_or(0)};
}

Spans SpansOfRun(const Work& work, const plan::SectionPiece& piece) {
  Spans spans;
  spans.piece_bytes = piece.bytes;
  if (piece.bytes == 0) return spans;
  spans.push = ConstByteSpan(work.input + piece.offset, piece.bytes);
  spans.want = ByteSpan(work.output + piece.offset, piece.bytes);
  return spans;
}

std::span<const uint64_t> Told(const Work& work) {
  return RowOf(work.spec.op).has_splits ? work.splits : std::span(&work.rows, 1);
}

void LayOwnNumbers(const Work& work) {
  std::span<const uint64_t> own = Told(work);
  const size_t turn = work.place.TurnOf(work.place.self);
  std::ranges::copy(own, work.table.subspan(turn * own.size(), own.size()).begin());
}

void OrderTable(const Work& work) {
  if (work.place.turns.empty()) return;
  const std::vector<uint64_t> travelled(work.table.begin(), work.table.end());
  const size_t numbers = travelled.size() / work.place.count();
  for (uint32_t place = 0; place < work.place.count(); ++place) {
    const auto told = std::span(travelled).subspan(work.place.TurnOf(place) * numbers, numbers);
    std::ranges::copy(told, work.table.subspan(place * numbers, numbers).begin());
  }
}

Spans SpansOfTable(const Work& work) {
  auto bytes = std::as_writable_bytes(work.table);
  size_t own_bytes = bytes.size() / work.place.count();
  Spans spans;
  spans.piece_bytes = static_cast<uint32_t>(bytes.size());
  spans.push_offset = static_cast<uint32_t>(work.place.TurnOf(work.place.self) * own_bytes);
  spans.push = bytes.subspan(spans.push_offset, own_bytes);
  spans.want = bytes;
  return spans;
}

bool IsEmpty(const wire::TensorSpec& spec, const Spans& spans) {
  if (!spans.want.empty() || spans.piece_bytes == 0) return false;
  return CombineOf(spec) != Combine::kOverlay || spans.push.size() != spans.piece_bytes;
}

std::optional<uint32_t> RootPlace(const Work& work) {
  for (uint32_t place = 0; RowOf(work.spec.op).has_root && place < work.place.count(); ++place) {
    if (IsRoot(work, place)) return place;
  }
  return std::nullopt;
}

uint64_t BytesToCopy(const Work& work) {
  bool root = RowOf(work.spec.op).has_root && IsRoot(work, work.place.self);
  return root ? TensorBytes(work.spec).value_or(0) : 0;
}

uint64_t BytesToCopyAlone(const Work& work) { return RowOf(work.spec.op).output(work).bytes; }

bool NeedsKeptInput(const Work& work) {
  return work.spec.atomic && RowOf(work.spec.op).overwrites_input && work.input == work.output;
}

}  // namespace byteps::operations
