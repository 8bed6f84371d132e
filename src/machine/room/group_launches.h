// GroupLaunches: what a rank launches in its group of devices, from the carrier's word to the end.
// Both kinds of lane have one.
//
// On the thread of the window. Nothing blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/local/window.h"
#include "src/machine/room/group_words.h"
#include "src/machine/room/launcher.h"
#include "src/machine/room/open_rounds.h"
#include "src/machine/room/sums_choice.h"
#include "src/protocol/worker/exchange/exchange.h"

namespace byteps::machine {

class GroupLaunches {
 public:
  // Says how far a round is that groups sum, at this rank.
  struct Progress {
    bool on_device = false;      // the rank may launch
    uint32_t launches = 0;       // that use the memory of the exchange
    uint32_t partial_units = 0;  // reduced, or being reduced, and not gathered
    uint32_t reduced_end = 0;    // the pieces before this one are reduced
    uint32_t whole_pieces = 0;   // of which this rank has the whole sum
    Status no_sum;               // not kOk: a reduce has failed here
    Status not_gathered;         // not kOk: a gather has failed here
  };
  // The round of a lane; it is null if it is not open.
  struct Round {
    const protocol::Exchange* exchange = nullptr;
    Progress* progress = nullptr;
  };
  using Word = std::variant<HasDevice, Met, Broken>;
  struct Lane {
    std::function<Round(const RoundKey&)> find;
    std::function<void(const Word&)> say;  // to the carrier
    // A launch of the round has ended, which is open.
    std::function<void(const RoundKey&)> ended;
    std::function<std::string(RankSet)> names;  // of ranks of this machine, for people
    // At the carrier: there is a plan, and the next launch has ended. Null elsewhere.
    std::function<void(const PlannedSums&)> planned = nullptr;
    std::function<void()> any_ended = nullptr;
  };
  // `launcher`: null: this rank has no group.
  GroupLaunches(local::Window& window, Launcher* launcher, Lane lane)
      : window_(window), launcher_(launcher), lane_(std::move(lane)) {}

  // Returns whether this rank can launch with the memory of the exchange. Tells the carrier which
  // device the rank has, if nobody has before.
  bool Takes(const protocol::Exchange& exchange);
  // Begins to meet the other ranks of a group. REQUIRES: Takes was called.
  void Meet(const SumsSo& word);
  // Launches what the carrier says, also if the operation has ended here. kProtocol: the launch
  // cannot be true.
  Status OnLaunch(const UnitLaunch& word);
  // Takes what has happened in the group. False: nothing has. Ends the group if another rank has
  // aborted its own.
  bool Look();
  // Ends the group of this rank at once, and so the groups of all ranks of the machine: an abort
  // waits for them, and the carrier, which tells them else, may have gone or not know. Any thread.
  void Abort(const Status& why);
  // In place of Look, when the carrier is not heard any more. The group leaves in order, but others
  // may not: ends it at once if another rank has aborted its own, or is lost, or if the process of
  // a rank of the group has ended: then this rank has left behind its last launch, or never can.
  void LookWhenOver();
  // Returns whether no launch is under way. The others of a group would wait for a rank that leaves
  // before.
  bool IsDrained() const { return launched_.empty(); }

 private:
  struct Launched {
    RoundKey key;
    uint64_t serial = 0;  // of its exchange; 0: it uses the scratch unit
    device::Launch::Kind kind = device::Launch::Kind::kReduce;
    uint32_t pieces = 0;
    uint32_t end_piece = 0;
  };
  void OnEnd(const Status& how);
  std::optional<Broken> TakeBroken();
  void HeedAborts();
  void EndWithout(RankSet others);

  local::Window& window_;
  Launcher* const launcher_;
  const Lane lane_;
  bool looks_ = false;             // there was memory of a device
  RankSet group_ranks_ = 0;        // 0: there is no group
  bool has_heeded_ = false;        // that others take part no more
  std::deque<Launched> launched_;  // in the order of the carrier
};

// Returns the functions of a lane that are alike in both kinds of job. The state of a round has a
// `group`. Both arguments outlive the lane.
template <typename Extra, typename ToCarrier>
GroupLaunches::Lane LaneOver(OpenRounds<Extra>& open,
                             const std::function<void(const ToCarrier&)>& say) {
  GroupLaunches::Lane lane;
  lane.find = [&open](const RoundKey& key) -> GroupLaunches::Round {
    auto* const round = open.Find(key);
    if (round == nullptr) return {};
    return {round->exchange, &round->extra.group};
  };
  lane.say = [&say](const GroupLaunches::Word& word) {
    std::visit([&say](const auto& one) { say(one); }, word);
  };
  return lane;
}

}  // namespace byteps::machine
