// The messages between the front and the lanes of a worker. Mail from one sender to one receiver
// arrives in the order in which it was sent, perhaps late. All mail is values, which the receiver
// may keep.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "src/base/slot_set.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/protocol/worker/exchange/exchange.h"
#include "src/protocol/worker/exchange/moved_piece.h"
#include "src/wire/accounts.h"
#include "src/wire/view.h"

namespace byteps::protocol {

namespace to_lane {

// A view is in force, in which this worker has `slot`.
struct View {
  std::shared_ptr<const wire::View> view;
  Slot slot = kNoSlot;
};
// All lanes have handed over what a view has moved. `pieces`: the pieces that come to this lane.
struct TakeOver {
  uint64_t epoch = 0;
  std::vector<MovedPiece> pieces;
};
// Operations may name this process set. `ranks`: the set as the shards are told of it; empty if
// this rank is not in it.
struct AddProcessSet {
  uint32_t number = 0;
  SlotSet slots;
  SlotSet ranks;
};
struct RemoveProcessSet {
  uint32_t number = 0;
};
// This contributor takes no part in rounds until its join with this number is over. 0: the join is
// over. `ranks`: the ranks of the contributor that have joined; empty: all of them.
struct Joined {
  uint64_t number = 0;
  SlotSet ranks;
};
struct Begin {
  const Exchange* exchange = nullptr;
};
// A piece whose receipt is not `common` is pushed again, in this attempt. The lane reports all its
// pieces.
struct Repeat {
  const Exchange* exchange = nullptr;
  uint32_t attempt = 0;
  Receipt common;
};
// The operation ends in an error: the lane lets go of the exchange's memory, and says so.
struct Withdraw {
  const Exchange* exchange = nullptr;
};
// The lane asks the owners to end the exchange in this error. The exchange may have ended.
struct Abort {
  TensorId tensor = 0;
  uint64_t serial = 0;
  Status why;
};
// The name of these tensors has failed. The lane forgets the tensors, but keeps their verdicts.
struct Retire {
  std::vector<TensorId> tensors;
};
// All ranks have let go of these tensors. The lane forgets the tensors and their verdicts.
struct Forget {
  std::vector<TensorId> tensors;
};

// The front withdraws all exchanges next, and begins no other exchange.
struct Stop {};
// The lane answers this question when no member depends any more on what the lane holds.
struct Settle {
  uint64_t question = 0;
};

}  // namespace to_lane

using LaneMail = std::variant<to_lane::View, to_lane::TakeOver, to_lane::AddProcessSet,
                              to_lane::RemoveProcessSet, to_lane::Joined, to_lane::Begin,
                              to_lane::Repeat, to_lane::Withdraw, to_lane::Abort, to_lane::Retire,
                              to_lane::Forget, to_lane::Stop, to_lane::Settle>;

namespace to_front {

// All pieces of an exchange that this lane had are done; it may have had none. The lane does not
// touch the exchange's memory any more. Each lane says so at least once in each attempt, and again
// if it has taken over more pieces since.
struct PartDone {
  uint32_t lane = 0;
  uint64_t serial = 0;
  TensorId tensor = 0;
  uint32_t pieces = 0;
  Receipt receipt;     // members that are in all pieces
  bool mixed = false;  // some pieces have more members
  // The number of the first piece with an error, and its error.
  uint32_t failed_piece = UINT32_MAX;
  Status status;
  Time now{};  // time of the last answer
};
// The lane does not touch the exchange's memory any more.
struct Released {
  uint32_t lane = 0;
  uint64_t serial = 0;
  TensorId tensor = 0;
};
// The pieces that the view of this epoch has moved to other lanes.
struct HandOver {
  uint32_t lane = 0;
  uint64_t epoch = 0;
  std::vector<std::vector<MovedPiece>> pieces;  // pieces by the lane that they go to
};
// The rank cannot go on with a piece that the other ranks have.
struct GivesUp {
  Status why;
};

// The answer to to_lane::Settle. It does not include what other lanes hand over later.
struct Settled {
  uint64_t question = 0;
};

// The traffic that the lane has measured with its shards, for the coordinator.
struct Measured {
  wire::Rates rates;
};

}  // namespace to_front

using FrontMail = std::variant<to_front::PartDone, to_front::Released, to_front::HandOver,
                               to_front::GivesUp, to_front::Settled, to_front::Measured>;

}  // namespace byteps::protocol
