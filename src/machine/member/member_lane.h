// The lane of one rank of a machine in a job with servers: tells the carrier what the rank has
// begun, fills the rank's parts of the blocks, sums shares, and reads the answers. The front knows
// it as its only lane. At the carrier's rank it also moves bytes between blocks and the carrier's
// lanes (block_transfers.h).
//
// On the thread of its window. Nothing blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/local/window.h"
#include "src/machine/member/block_transfers.h"
#include "src/machine/member/machine_ranks.h"
#include "src/machine/member/member_words.h"
#include "src/machine/room/block_work.h"
#include "src/machine/room/open_rounds.h"
#include "src/protocol/worker/exchange/exchange.h"
#include "src/protocol/worker/exchange/mail.h"

namespace byteps::machine {

class MemberLane {
 public:
  struct Events {
    std::function<void(const MemberWords::ToCarrier&)> say;  // to the carrier
    std::function<void(protocol::FrontMail)> tell_front;     // must not call the lane
  };
  // `transfers`: null, except at the carrier.
  MemberLane(local::Window& window, BlockTransfers* transfers, Events events);

  void OnMail(const protocol::LaneMail& mail);
  void OnEnded(const member::Ended& ended, Time now);
  // Like BlockWork::Step.
  Result<bool> Step() { return work_.Step(); }

  // Takes no answer from now on: an exchange that is open stays open until it is withdrawn.
  void IgnoreAnswers() { ignores_answers_ = true; }
  // Returns whether this rank has released all blocks that named it.
  bool IsDrained() const { return work_.IsDrained(); }
  const MachineRanks& machine_ranks() const { return machine_ranks_; }

 private:
  struct Nothing {};
  using Round = OpenRounds<Nothing>::Round;
  // A process set, as this machine has it.
  struct Set {
    RankSet ranks = 0;
    std::vector<uint32_t> places;  // their places in the whole set
  };

  void On(const protocol::to_lane::View& mail);
  void On(const protocol::to_lane::AddProcessSet& mail);
  void On(const protocol::to_lane::RemoveProcessSet& mail);
  void On(const protocol::to_lane::Joined& mail);
  void On(const protocol::to_lane::Begin& mail);
  void On(const protocol::to_lane::Withdraw& mail);
  void On(const protocol::to_lane::Abort& mail);
  void On(const protocol::to_lane::Retire& mail);
  void On(const protocol::to_lane::Forget& mail);
  void On(const protocol::to_lane::Settle& mail);
  // The carrier does the work for these.
  void On(const protocol::to_lane::TakeOver&) {}
  void On(const protocol::to_lane::Repeat&) {}
  void On(const protocol::to_lane::Stop&) {}

  Set SetOf(const std::vector<uint32_t>& ranks) const;
  MemberFacts FactsOf(const protocol::Exchange& exchange);
  const protocol::Exchange* Find(const local::AdmittedUse& at);
  void Fill(BlockWork::Taken& taken);
  void Take(const BlockWork::Taken& taken, bool is_sum);

  local::Window& window_;
  const uint32_t rank_;
  BlockTransfers* const transfers_;
  const Events events_;
  uint64_t epoch_ = 0;
  uint32_t generation_ = 0;
  MachineRanks machine_ranks_;
  BlockWork work_;
  OpenRounds<Nothing> open_{work_};
  std::map<uint32_t, Set> sets_;
  std::map<TensorId, size_t> told_homes_;  // the number of homes that the carrier knows
  bool ignores_answers_ = false;
};

}  // namespace byteps::machine
