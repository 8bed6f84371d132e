// The work of a rank in the blocks of its machine's window: takes up each use that names the rank,
// fills the rank's part, sums shares, and takes and releases what is decided. The lane decides
// which exchange a use belongs to, and fills and takes the bytes.
//
// Runs on the thread of the window. Nothing blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "src/base/status.h"
#include "src/local/window.h"
#include "src/protocol/worker/exchange/exchange.h"

namespace byteps::machine {

class BlockWork {
 public:
  struct Taken {
    local::AdmittedUse at;
    const protocol::Exchange* exchange = nullptr;  // null: this rank has none for it, or no more
    bool is_filled = false;
    bool is_lent = false;  // the others read this rank's part in the exchange's memory
  };
  struct Lane {
    // Returns the exchange of a use that this rank takes up; null: there is none.
    std::function<const protocol::Exchange*(const local::AdmittedUse&)> find;
    // Called when the block belongs to this use. If this rank has to bring a part, and nothing is
    // decided yet, the lane brings the part or withdraws the use.
    std::function<void(Taken&)> fill;
    // Called when the use is decided: there is a sum, or an error. The block is released
    // afterwards.
    std::function<void(const Taken&, bool is_sum)> take;
  };
  BlockWork(local::Window& window, Lane lane) : window_(window), lane_(std::move(lane)) {}

  // Does one thing that can be done now. False: nothing can be done before the next event.
  // kInternal: the contents of the window cannot be right.
  Result<bool> Step();
  // Makes sure that nothing here, and no other rank, touches the exchange's memory from now on. If
  // the exchange lends its memory to a use that is not decided, the use ends in an error.
  void Forget(const protocol::Exchange& exchange);
  // Returns whether every use that was taken up has been released.
  bool IsDrained() const { return taken_.empty(); }

  // Copy between a block and the memory of its exchange. REQUIRES: there is an exchange. CopyIn
  // lends shared memory instead of copying it.
  void CopyIn(Taken& taken);
  void CopyOut(const Taken& taken) const;

 private:
  bool SumOne();
  bool TakeOne();
  bool FillOne();
  Result<bool> TakeUp();

  local::Window& window_;
  const Lane lane_;
  std::deque<Taken> taken_;  // in the order of the carrier
  uint64_t last_use_ = 0;
};

}  // namespace byteps::machine
