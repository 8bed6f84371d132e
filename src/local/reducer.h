// Takes whole tensors through the window, when the ranks of a machine call in the same order.
//
// Large tensors go in pieces: while a piece is summed the next is filled and the one before read.
// A Reducer belongs to the thread of its Window.
#pragma once

#include <cstdint>
#include <deque>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/local/window.h"

namespace byteps::local {

struct Reduction {
  ConstByteSpan input;
  ByteSpan output;  // of the same size; may be the input itself
  DataType type = DataType::kFloat32;
  Combine how = Combine::kSum;  // not kOverlay, not kLast
  uint32_t divisor = 1;
  RankSet ranks = 0;  // who calls
};

class Reducer {
 public:
  // Local rank 0 is the carrier. Borrows the window.
  Reducer(Window& window, const WindowShape& shape, uint32_t rank);

  // Combines what the ranks bring, in the order of ranks. Blocks until the result is in
  // `what.output`. REQUIRES: the carrier is one of the ranks.
  //
  // Errors: kPeerLost when a process has ended; kDeadlineExceeded, on all ranks, when one did not
  // go on; kMismatch when what the carrier says is not what this rank calls. After an error the
  // window is of no more use: the machine's ranks end together.
  Status Run(const Reduction& what, Time deadline);

  // The newest use that this rank has taken part in; what comes after may be another's.
  uint64_t last_use() const { return last_use_; }

 private:
  struct Open {
    AdmittedUse at;
    bool is_filled = false;
  };
  struct Cut {
    uint32_t pieces = 0;
    size_t step = 0;
  };
  Cut CutOf(size_t bytes, DataType type) const;
  BlockUse UseOf(const Reduction& what, uint32_t piece) const;
  bool FillOne(const Reduction& what);
  bool SumOne();
  Result<bool> ReadOne(const Reduction& what);
  Result<bool> TakeUp(const Reduction& what);
  Status GiveUp(Status why);

  Window& window_;
  const WindowShape shape_;
  const uint32_t rank_;
  uint64_t last_use_ = 0;
  // Of the reduction that runs.
  Cut cut_;
  uint32_t taken_up_ = 0;
  std::deque<Open> open_;
  uint64_t round_ = 0;
};

}  // namespace byteps::local
