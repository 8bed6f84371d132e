// An operation is one row, which holds everything in which operations differ. Code that carries an
// operation out looks into its row and never asks which operation it is. A new operation needs a
// row, with spans of its own if necessary, a line in rows.cc, a number in wire::Op and in
// byteps_op, and tests.
//
// Rows have pure functions of values that borrow (work.h). The caller provides the memory of
// results: a row says how many bytes a result needs, and whether all ranks see an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/operations/work.h"
#include "src/wire/tensor_spec.h"

namespace byteps::operations {

// These functions serve operations with one run of bytes, which every rank brings and wants.
LaidOut LayOutRun(const Work& work, const std::vector<bool>& present, uint64_t result_bytes_max);
Spans SpansOfRun(const Work& work, const plan::SectionPiece& piece);
Part OutputOfRun(const Work& work);
inline bool NeedsNobody(const Work&, uint32_t) { return false; }

struct Row {
  const char* name;

  // Arguments, besides a name, memory and a process set; check.h looks at them.
  bool has_tensor = true;  // dtype and shape; without one there are so many bytes:
  uint64_t bytes = 0;
  std::optional<DataType> dtype = std::nullopt;  // the only dtype of the operation
  bool has_root = false;       // one rank has the bytes, and all the others want them
  bool has_reduction = false;  // spec.combine says how contributions combine
  bool has_splits = false;     // rows for each receiver
  bool scatters = false;       // rows of the tensor are dealt out to the ranks
  bool may_be_atomic = true;   // one receipt for the whole tensor

  // The way in which contributions combine, unless has_reduction.
  Combine combine = Combine::kOverlay;
  // If set, each rank has its own number of rows, and tells it first.
  bool sizes_first = false;
  // If set, the result is larger or smaller than the input, and gets memory when all sizes are
  // known.
  bool own_result = false;
  // If set, the coordinator knows the pieces from the spec alone. Otherwise it deals them one by
  // one.
  bool known_pieces = true;
  // If set, a result may lie where the input was, and then overwrites bytes that this rank may have
  // to push again.
  bool overwrites_input = true;
  // If set, a rank that begins the operation takes no part in others until all ranks have begun it,
  // however long that takes.
  bool joins = false;

  // Returns how many numbers each of `count` ranks tells first. REQUIRES: sizes_first.
  uint64_t (*told)(uint64_t count) = nullptr;
  // Returns the bytes of the input that become the caller's output. The output may lie there, or
  // outside the input.
  Part (*output)(const Work& work) = &OutputOfRun;
  // Lays out the exchange, and a result of at most `result_bytes_max`. With sizes_first it must be
  // called after all ranks that are `present` (by place) have told their sizes; numbers that nobody
  // has laid into the table become 0. Other operations ignore `present`.
  LaidOut (*lay_out)(const Work& work, const std::vector<bool>& present,
                     uint64_t result_bytes_max) = &LayOutRun;
  // Returns the bytes that this rank brings and wants of a piece. The cut is one of Layout::extent.
  Spans (*spans)(const Work& work, const plan::SectionPiece& piece) = &SpansOfRun;
  // Returns whether there is no result without the part of the rank at this place.
  bool (*needs)(const Work& work, uint32_t place) = &NeedsNobody;
};

// The rows of all operations, in the order of their numbers.
extern const Row kRows[wire::kOpCount];
inline const Row& RowOf(wire::Op op) { return kRows[static_cast<size_t>(op)]; }

inline const char* NameOf(wire::Op op) { return RowOf(op).name; }

// Returns "sum of float32[3, 4]", for messages.
std::string Describe(const wire::TensorSpec& spec);

Combine CombineOf(const wire::TensorSpec& spec);

// Returns the numbers of this rank; they lie in `work`. REQUIRES: sizes_first.
std::span<const uint64_t> Told(const Work& work);
// Writes this rank's numbers into the table, before the exchange of the table. The table travels as
// one piece of overlaid bytes, before all other pieces. When the whole table is here, it is put
// into the order of the places.
void LayOwnNumbers(const Work& work);
Spans SpansOfTable(const Work& work);
void OrderTable(const Work& work);

// Returns whether this rank wants nothing of the piece and does not have all of its bytes. It then
// gets only the receipt of the verdict.
bool IsEmpty(const wire::TensorSpec& spec, const Spans& spans);
// Returns the verdict's bytes of a piece, where they lie until the operation is handed over.
// REQUIRES: !IsEmpty().
inline ConstByteSpan VerdictIn(const Spans& spans) {
  return spans.want.empty() ? spans.push : ConstByteSpan(spans.want);
}

// Returns the place of the rank whose bytes all others get, if the operation has such a rank.
std::optional<uint32_t> RootPlace(const Work& work);
// Returns the number of bytes that this rank's result takes from its own input. Nobody sends them,
// so they must be copied to the output, unless they lie there.
uint64_t BytesToCopy(const Work& work);
// Does the same for a job of one, in which the input is the result.
uint64_t BytesToCopyAlone(const Work& work);

// Returns whether an answer may overwrite bytes that a further attempt would push. The caller must
// then keep a copy of the input.
bool NeedsKeptInput(const Work& work);

}  // namespace byteps::operations
