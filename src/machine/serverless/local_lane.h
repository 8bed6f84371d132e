// Carries the exchanges of one rank through the window: tells the carrier what this rank has begun,
// fills the rank's parts of the blocks, sums shares, and reads what the rank wants. The front knows
// it as its only lane.
//
// A use of a block goes on even if this rank's operation has ended early: the rank then brings no
// bytes, and the use ends in an error.
//
// On the thread of its window. Nothing blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/local/window.h"
#include "src/machine/room/block_work.h"
#include "src/machine/room/group_launches.h"
#include "src/machine/room/group_uses.h"
#include "src/machine/room/open_rounds.h"
#include "src/machine/serverless/local_words.h"
#include "src/protocol/worker/exchange/exchange.h"
#include "src/protocol/worker/exchange/mail.h"

namespace byteps::machine {

class LocalLane {
 public:
  struct Events {
    std::function<void(const LocalWords::ToCarrier&)> say;  // to the carrier
    std::function<void(protocol::FrontMail)> tell_front;    // must not call the lane
    // A round has ended here, well or not. `join_is_over`: it was the end of a join, for all.
    std::function<void(const RoundKey&, bool join_is_over)> ended = nullptr;
    // Both are those of GroupLaunches::Lane, at the carrier.
    std::function<void(const PlannedSums&)> planned = nullptr;
    std::function<void()> launch_ended = nullptr;
  };
  // `ranks`: the number of ranks in the job. `small`: the memory of small parts.
  // `mover`: of BlockWork. `launcher`: null: this rank has no group.
  LocalLane(local::Window& window, uint32_t ranks, const SmallMemory& small, Events events,
            Mover* mover = nullptr, Launcher* launcher = nullptr);

  void OnMail(const protocol::LaneMail& mail);
  // The carrier says that a round has ended with an error.
  void OnFailed(const Failed& failed, Time now);
  // The place of this rank for a round has the result. kProtocol: this rank has no place for the
  // round.
  Status OnCombined(const Combined& combined, Time now);
  // Like GroupLaunches::OnLaunch.
  Status OnLaunch(const UnitLaunch& word) { return launches_.OnLaunch(word); }
  // Like the methods of GroupLaunches.
  void AbortGroup(const Status& why) { launches_.Abort(why); }
  void Meet(const SumsSo& word) { launches_.Meet(word); }
  void LookAtGroupWhenOver() { launches_.LookWhenOver(); }

  // Like BlockWork::Step.
  Result<bool> Step(Time now);

  // Decides an error in the rounds of groups that are open, because this rank will hear of no
  // decision any more: no rank gets a sum that this one does not get. Steps must follow.
  void BreakOffGroups() { work_.Withdraw(Decides); }

  // Returns whether an exchange is open whose pieces all have their blocks: it ends soon, in order.
  bool HasWhole() const;
  // Returns whether this rank has released all blocks that named it, and its launches are over.
  bool IsDrained() const { return work_.IsDrained() && launches_.IsDrained(); }

 private:
  struct Progress {
    uint32_t given = 0;      // pieces that have, or had, a block
    uint32_t done = 0;       // pieces of which this rank has what it wants
    bool is_broken = false;  // a piece has no result: the carrier tells the reason
    bool says_why = false;   // the carrier has it from this rank
    Status failure;          // of the copy of a result, which the other ranks have
    RankSet ranks = 0;
    SmallPart part;
    GroupLaunches::Progress group;  // of a round that groups sum; so the next two
    Status lack;                    // of an answer that has not come to the device
    std::optional<Status> end;      // the carrier's error, which waits for the last launch
  };
  using Round = OpenRounds<Progress>::Round;
  void On(const protocol::to_lane::AddProcessSet& mail);
  void On(const protocol::to_lane::RemoveProcessSet& mail) { sets_.erase(mail.number); }
  void On(const protocol::to_lane::Joined& mail);
  void On(const protocol::to_lane::Begin& mail);
  void On(const protocol::to_lane::Withdraw& mail);
  void On(const protocol::to_lane::Abort& mail);
  void On(const protocol::to_lane::Settle& mail);
  // Nothing here depends on views, attempts or names.
  void On(const protocol::to_lane::View&) {}
  void On(const protocol::to_lane::TakeOver&) {}
  void On(const protocol::to_lane::Repeat&) {}
  void On(const protocol::to_lane::Retire&) {}
  void On(const protocol::to_lane::Forget&) {}
  void On(const protocol::to_lane::Stop&) {}

  RankSet RanksOf(uint32_t set) const;
  SmallPart PutSmall(const protocol::Exchange& exchange);
  void LetGo(const RoundKey& key, bool join_is_over = false);
  void End(const RoundKey& key, const Round& round, const Status& how, Time now);
  const protocol::Exchange* Find(const local::AdmittedUse& at);
  void Fill(BlockWork::Taken& taken);
  void FillLast(BlockWork::Taken& taken);
  void Take(BlockWork::Taken& taken, bool is_sum);
  void OnFillFailed(const BlockWork::Taken& taken, const Status& why);
  void OnTaken(const BlockWork::Taken& taken, const Status& how);
  BlockWork::Input InputOf(const BlockWork::Taken& taken);
  GroupLaunches::Lane LaneOfLaunches();
  void SayWhy(const RoundKey& key, Progress& progress, const Status& why);
  const Receipt& ReceiptOf(RankSet ranks);

  local::Window& window_;
  const uint32_t rank_;
  const uint32_t rank_count_;
  const SmallMemory small_;
  const Events events_;
  SmallPlaces places_;  // of this rank
  BlockWork work_;
  OpenRounds<Progress> open_{work_};
  GroupLaunches launches_;
  Time now_{};
  std::map<uint32_t, RankSet> sets_;  // process sets, except number 0
  RankSet receipt_ranks_ = 0;
  Receipt receipt_;
};

}  // namespace byteps::machine
