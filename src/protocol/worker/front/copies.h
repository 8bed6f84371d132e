// Copies of whole tensors that an operation needs before its exchange. A large copy is done in
// slices, one slice for each tick, because the thread that copies also tells others that this rank
// is alive.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "src/protocol/arithmetic.h"
#include "src/protocol/worker/exchange/operation.h"

namespace byteps::protocol {

// The copy borrows both sides until it is complete or dropped.
struct Copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  size_t bytes = 0;
};

class Copies {
 public:
  Copies(size_t slice_bytes, Arithmetic& arithmetic)
      : slice_bytes_(slice_bytes), arithmetic_(arithmetic) {}

  // Begins a copy. Returns true if the copy has at most one slice: then it is complete on return.
  bool Begin(OperationId operation, const Copy& copy);
  // Copies the next slice of the oldest open copy. If that slice was the last one, returns the
  // copy's operation. REQUIRES: !empty().
  std::optional<OperationId> CopySlice();
  // Drops the operation's copy, because the operation ends. Nothing touches the memory of the
  // operation afterwards.
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
