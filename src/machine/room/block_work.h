// What a rank does in the blocks of its machine's window: it takes up each use that names it, fills
// its part, sums shares, and takes and releases what is decided. To which exchange a use belongs,
// and what is filled and taken, says its lane.
//
// On the thread of the window. Nothing blocks.
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
    bool is_lent = false;  // the others read this rank's part where the exchange has it
  };
  struct Lane {
    // The exchange of a use, which is being taken up; null: none.
    std::function<const protocol::Exchange*(const local::AdmittedUse&)> find;
    // The block is this use's. Where this rank is to bring something and nothing is decided yet,
    // it does, or withdraws.
    std::function<void(Taken&)> fill;
    // The use is decided: there is a sum, or an error. It is released behind this.
    std::function<void(const Taken&, bool is_sum)> take;
  };
  BlockWork(local::Window& window, Lane lane) : window_(window), lane_(std::move(lane)) {}

  // Does one thing that can be done now. False: there is none, before the next event. kInternal:
  // what stands in the window cannot be right.
  Result<bool> Step();
  // From now on nothing here, and no other rank, touches the exchange's memory: a use in which it
  // is lent, and which is not decided, ends in an error.
  void Forget(const protocol::Exchange& exchange);
  // Whether all that was taken up has been released.
  bool IsDrained() const { return taken_.empty(); }

  // Copy between a block and the memory of its exchange, of which there is one. Shared memory is
  // lent in place of the first copy.
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
