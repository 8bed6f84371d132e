// Copies of whole tensors that an operation needs before its exchange. A large one is done in
// slices, one for each tick: its thread also tells others that this rank is alive.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "src/protocol/arithmetic.h"
#include "src/protocol/worker/exchange/operation.h"

namespace byteps::protocol {

// Both sides are borrowed until the copy is complete or dropped.
struct Copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  size_t bytes = 0;
};

class Copies {
 public:
  Copies(size_t slice_bytes, Arithmetic& arithmetic)
      : slice_bytes_(slice_bytes), arithmetic_(arithmetic) {}

  // True: it was one slice at most, and is done.
  bool Begin(OperationId operation, const Copy& copy);
  // Copies a slice of the one that began first. Returns its operation when that was the last.
  // REQUIRES: !empty().
  std::optional<OperationId> CopySlice();
  // The operation ends; nothing touches its memory afterwards.
  void Drop(OperationId operation);
  bool empty() const { return copies_.empty(); }

 private:
  struct Open {
    OperationId operation;
    Copy rest;
  };

  const size_t slice_bytes_;
  Arithmetic& arithmetic_;
  std::deque<Open> copies_;
};

}  // namespace byteps::protocol
