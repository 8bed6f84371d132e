// An operation is one row: everything in which operations differ. Whoever carries an operation out
// looks into its row and never asks which operation it is. A new operation is a row, with spans of
// its own if it needs them, a line in rows.cc, a number in wire::Op and in byteps_op, and tests.
//
// Pure functions of values that borrow (work.h). Memory of results is the caller's business: a row
// says how many bytes it needs, and whether an error is one of all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/operations/work.h"
#include "src/wire/control.h"

namespace byteps::operations {

// Of operations that are one run of bytes, which every rank brings and wants.
LaidOut LayOutRun(const Work& work, const std::vector<bool>& present, uint64_t result_bytes_max);
Spans SpansOfRun(const Work& work, const plan::SectionPiece& piece);
Part OutputOfRun(const Work& work);
inline bool NeedsNobody(const Work&, uint32_t) { return false; }

struct Row {
  const char* name;

  // Arguments, besides a name, memory and a process set; check.h looks at them.
  bool has_tensor = true;  // dtype and shape; without one there are so many bytes:
  uint64_t bytes = 0;
  std::optional<DataType> dtype = std::nullopt;  // the only one it has
  bool has_root = false;       // one rank has the bytes, and all the others want them
  bool has_reduction = false;  // spec.combine says how contributions combine
  bool has_splits = false;     // rows for each receiver
  bool scatters = false;       // rows of the tensor are dealt out to the ranks
  bool may_be_atomic = true;   // one receipt for the whole tensor

  // How contributions combine, where spec.combine does not say it.
  Combine combine = Combine::kOverlay;
  // Each rank has its own number of rows, and tells it first.
  bool sizes_first = false;
  // The result is larger or smaller than the input, and gets memory when all sizes are known.
  bool own_result = false;
  // The coordinator knows the pieces from the spec alone. If not, they are dealt one by one.
  bool known_pieces = true;
  // A result may lie where the input was, and then overwrites what may have to be pushed again.
  bool overwrites_input = true;
  // Who begins it takes no part in other operations until all have begun it, for however long.
  bool joins = false;

  // How many numbers each rank tells first, with so many ranks. REQUIRES: sizes_first.
  uint64_t (*told)(uint64_t count) = nullptr;
  // Which bytes of the input become the caller's output; it may lie there, or outside the input.
  Part (*output)(const Work& work) = &OutputOfRun;
  // What is exchanged, and where the result lies, of at most so many bytes. Where sizes are told
  // first: once they are, by those who are `present` (by place; elsewhere nobody looks at it);
  // numbers that nobody has laid into the table become 0.
  LaidOut (*lay_out)(const Work& work, const std::vector<bool>& present,
                     uint64_t result_bytes_max) = &LayOutRun;
  // Which bytes of a piece of the cut of Layout::extent this rank brings and wants.
  Spans (*spans)(const Work& work, const plan::SectionPiece& piece) = &SpansOfRun;
  // Whether the result is none without the part of the rank at this place.
  bool (*needs)(const Work& work, uint32_t place) = &NeedsNobody;
};

// Every operation has one, in the order of their numbers.
extern const Row kRows[wire::kOpCount];
inline const Row& RowOf(wire::Op op) { return kRows[static_cast<size_t>(op)]; }

inline const char* NameOf(wire::Op op) { return RowOf(op).name; }

// "sum of float32[3, 4]", for messages.
std::string Describe(const wire::TensorSpec& spec);

Combine CombineOf(const wire::TensorSpec& spec);

// Own numbers; they lie in `work`.
// REQUIRES: sizes_first.
std::span<const uint64_t> Told(const Work& work);
// Own numbers, into a table that is to travel. It travels as one piece of overlaid bytes, in front
// of all others, and is put into the order of the places when all of it is here.
void LayOwnNumbers(const Work& work);
Spans SpansOfTable(const Work& work);
void OrderTable(const Work& work);

// This rank wants nothing of the piece and has not all of it: of the verdict it has the receipt
// alone.
bool IsEmpty(const wire::TensorSpec& spec, const Spans& spans);
// Where the verdict of a piece lies until the operation is handed over. REQUIRES: !IsEmpty().
inline ConstByteSpan VerdictIn(const Spans& spans) {
  return spans.want.empty() ? spans.push : ConstByteSpan(spans.want);
}

// The place of the rank whose bytes all others get, if there is such a one.
std::optional<uint32_t> RootPlace(const Work& work);
// The bytes that this rank's result has in common with its input, and that nobody sends it: they
// are copied to the output, unless they lie there.
uint64_t BytesToCopy(const Work& work);
// The same in a job of one, in which the input is the result.
uint64_t BytesToCopyAlone(const Work& work);

// An answer may overwrite what a further attempt would push: the input must be kept elsewhere.
bool NeedsKeptInput(const Work& work);

}  // namespace byteps::operations
