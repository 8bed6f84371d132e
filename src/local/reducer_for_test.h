// Takes whole tensors through the window. The ranks of a machine must call it in the same order.
//
// Large tensors go in pieces: while the ranks sum a piece, they fill the next one and read the one
// before. A Reducer belongs to the thread of its Window.
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
  RankSet ranks = 0;  // the ranks that call
};

class Reducer {
 public:
  // Local rank 0 is the carrier. Borrows the window.
  Reducer(Window& window, const WindowShape& shape, uint32_t rank);

  // Combines the inputs of the ranks, in the tree over their ranks. Blocks until the result is in
  // `what.output`. REQUIRES: the carrier is one of the ranks.
  //
  // Errors: kPeerLost: a process has ended. kDeadlineExceeded, on all ranks: a rank did not go on.
  // kMismatch: the carrier combines another tensor than this rank. After an error the window cannot
  // be used any more: the machine's ranks end together.
  Status Run(const Reduction& what, Time deadline);

  // Returns the newest use in which this rank has taken part. Later uses may belong to other users
  // of the window.
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
  // The state of the reduction that runs.
  Cut cut_;
  uint32_t taken_up_ = 0;
  std::deque<Open> open_;
  uint64_t round_ = 0;
};

}  // namespace byteps::local
