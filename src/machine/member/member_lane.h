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
#include <optional>
#include <vector>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/local/window.h"
#include "src/machine/member/block_transfers.h"
#include "src/machine/member/machine_ranks.h"
#include "src/machine/member/member_words.h"
#include "src/machine/room/block_work.h"
#include "src/machine/room/group_launches.h"
#include "src/machine/room/launcher.h"
#include "src/machine/room/open_rounds.h"
#include "src/protocol/worker/exchange/exchange.h"
#include "src/protocol/worker/exchange/mail.h"

namespace byteps::machine {

class MemberLane {
 public:
  struct Events {
    std::function<void(const MemberWords::ToCarrier&)> say;     // to the carrier
    std::function<void(protocol::FrontMail)> tell_front;        // must not call the lane
    std::function<void(const PlannedSums&)> planned = nullptr;  // at the carrier
  };
  // `transfers`: null, except at the carrier.
  // `mover`: of BlockWork. `launcher`: null: this rank has no group.
  MemberLane(local::Window& window, BlockTransfers* transfers, Events events,
             Mover* mover = nullptr, Launcher* launcher = nullptr);

  void OnMail(const protocol::LaneMail& mail);
  void OnEnded(const member::Ended& ended, Time now);
  // Launches what the carrier says, also if the operation has ended here. kProtocol: the launch
  // cannot be true.
  Status OnLaunch(const UnitLaunch& word) { return launches_.OnLaunch(word); }
  // Like BlockWork::Step.
  Result<bool> Step(Time now);

  // Takes no answer from now on: an exchange that is open stays open until it is withdrawn. A home
  // goes on with the answers of rounds that groups sum, because the others gather them from it.
  void IgnoreAnswers() { ignores_answers_ = true; }
  // The rank tells the carrier that it leaves. Until OnMayLeave, it takes part in the rounds of its
  // device as before, also if the front withdraws them: until the carrier has heard of it, a round
  // may end well for the others, and the launches that were said use the rank's memory.
  void OnLeaves();
  // Like GroupLaunches::Abort.
  void AbortGroup(const Status& why) { launches_.Abort(why); }
  void Meet(const SumsSo& word) { launches_.Meet(word); }
  void LookAtGroupWhenOver() { launches_.LookWhenOver(); }
  // The carrier has closed the rounds of this rank, or nobody carries any more.
  void OnMayLeave();
  // Returns whether this rank has released all blocks that named it, and its launches are over: the
  // others of its group would wait for a rank that has left.
  bool IsDrained() const { return work_.IsDrained() && launches_.IsDrained(); }
  const MachineRanks& machine_ranks() const { return machine_ranks_; }

 private:
  struct Progress {
    bool says_why = false;  // the carrier knows why this rank has no input
    Status failure;         // of the copy of a result, which the other ranks have
    GroupLaunches::Progress group;
    std::optional<member::Ended> end;  // the carrier's, which waits for the last launch
  };
  using Round = OpenRounds<Progress>::Round;
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
  void Take(BlockWork::Taken& taken, bool is_sum);
  void OnFillFailed(const BlockWork::Taken& taken, const Status& why);
  void OnTaken(BlockWork::Taken& taken, const Status& how);
  BlockWork::Input InputOf(const BlockWork::Taken& taken);
  GroupLaunches::Lane LaneOfLaunches();
  void OnLaunchEnd(const RoundKey& key);
  void GiveUp(Progress& progress, const protocol::Exchange& exchange, const Status& how);
  void Finish(const RoundKey& key, Round& round, Time now);

  local::Window& window_;
  const uint32_t rank_;
  BlockTransfers* const transfers_;
  const Events events_;
  uint64_t epoch_ = 0;
  uint32_t generation_ = 0;
  MachineRanks machine_ranks_;
  BlockWork work_;
  OpenRounds<Progress> open_{work_};
  GroupLaunches launches_;
  Time now_{};  // of the step
  std::map<uint32_t, Set> sets_;
  std::map<TensorId, size_t> told_homes_;  // the number of homes that the carrier knows
  bool ignores_answers_ = false;
  bool is_leaving_ = false;                           // between OnLeaves and OnMayLeave
  std::vector<const protocol::Exchange*> withdrawn_;  // which OnMayLeave ends
};

}  // namespace byteps::machine
