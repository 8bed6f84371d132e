// The work of a rank in the blocks of its machine's window: takes up each use that names the rank,
// fills the rank's part, sums shares, and takes and releases what is decided. The lane decides
// which exchange a use belongs to, and fills and takes the bytes.
//
// Bytes in the memory of a device move while this thread does something else. A block is released
// only when no copy of this rank touches it any more, also after an error.
//
// Runs on the thread of the window. Nothing blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "src/base/status.h"
#include "src/local/window.h"
#include "src/machine/room/mover.h"
#include "src/protocol/worker/exchange/exchange.h"

namespace byteps::machine {

class BlockWork {
 public:
  struct Taken {
    enum class State : uint8_t {
      kWaits,    // to fill the part
      kFilling,  // a copy of the part from a device is under way
      kFilled,   // nothing more comes from this rank
      kLacking,  // this rank cannot fill the part: the carrier withdraws the use
      kTaking,   // a copy of the result to a device is under way
      kKept,     // this rank keeps the block until its exchange is forgotten
    };
    local::AdmittedUse at;
    const protocol::Exchange* exchange = nullptr;  // null: this rank has none for it, or no more
    State state = State::kWaits;
    bool is_lent = false;  // the others read this rank's part in the exchange's memory
  };
  // Says whether there is something to fill a part with.
  enum class Input : uint8_t { kHere, kLater, kNever };
  struct Lane {
    // Returns the exchange of a use that this rank takes up; null: there is none.
    std::function<const protocol::Exchange*(const local::AdmittedUse&)> find;
    // Called when the block belongs to this use. If this rank has to bring a part, and nothing is
    // decided yet, the lane brings the part or withdraws the use.
    std::function<void(Taken&)> fill;
    // Called when the use is decided: there is a sum, or an error. The block is released
    // afterwards.
    std::function<void(Taken&, bool is_sum)> take;
    // The copy of a part from a device has failed. The block stays undecided: the lane tells the
    // carrier why, and the carrier withdraws it. Not called for an exchange that was forgotten.
    std::function<void(const Taken&, const Status& why)> fill_failed;
    // The copy of a result to a device has ended. Not called for an exchange that was forgotten.
    // The block is released afterwards, unless the lane sets kKept.
    std::function<void(Taken&, const Status& how)> taken;
    // Asked before the part of a use that is not decided is filled from a device. kLater: asked
    // again at each step. kNever: the part stays empty, and the carrier withdraws the use. Null:
    // kHere.
    std::function<Input(const Taken&)> input = nullptr;
  };
  // `mover` outlives this object. Null: no exchange has memory of a device.
  BlockWork(local::Window& window, Lane lane, Mover* mover = nullptr)
      : window_(window), lane_(std::move(lane)), mover_(mover) {}

  // Does one thing that can be done now. False: nothing can be done before the next event.
  // kInternal: the contents of the window cannot be right.
  Result<bool> Step();
  // Makes sure that nothing here, and no other rank, touches the exchange's memory from now on,
  // except for copies from and to devices that have begun. If the exchange lends its memory to a
  // use that is not decided, or its part has not come, the use ends in an error.
  void Forget(const protocol::Exchange& exchange);
  // Decides an error in those of these uses that belong to their blocks and are open. Step takes
  // what is decided.
  void Withdraw(const std::function<bool(const local::BlockUse&)>& which);
  // Returns whether every use that was taken up has been released.
  bool IsDrained() const { return taken_.empty(); }

  // Copy between a block and the memory of its exchange. REQUIRES: there is an exchange. CopyIn
  // lends shared memory instead of copying it. `from_output`: the part lies in the output. CopyOut
  // returns false if Lane::taken follows.
  void CopyIn(Taken& taken, bool from_output = false);
  bool CopyOut(Taken& taken);

 private:
  bool GoOnWithCopies();
  bool SumOne();
  bool TakeOne();
  bool Release(std::deque<Taken>::iterator taken);
  bool FillOne();
  Result<bool> TakeUp();
  void EndFill(Taken& taken, const Status& how);
  bool MayFill(Taken& taken);
  void Fill(Taken& taken);

  local::Window& window_;
  const Lane lane_;
  Mover* const mover_;
  std::deque<Taken> taken_;  // in the order of the carrier
  uint64_t last_use_ = 0;
};

}  // namespace byteps::machine
