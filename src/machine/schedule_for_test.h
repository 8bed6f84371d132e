// The ranks of one machine in one thread, under a random schedule. Each rank takes turns as its
// loop does (room/word_loop.h): until nothing is left to do, and then only after an event of its
// own. An event that nobody tells therefore shows as an operation that never ends; no timer can
// hide it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/local/heaps_for_test.h"
#include "src/local/window.h"
#include "src/machine/mover_for_test.h"
#include "src/machine/room/shared_room.h"
#include "src/machine/room/words.h"
#include "src/machine/schedule_faults_for_test.h"
#include "src/machine/schedule_ops_for_test.h"
#include "src/protocol/never_complete.h"
#include "src/protocol/worker/front/front.h"

namespace byteps::machine {

inline constexpr int kTurnsMax = 200'000;

// The calls of the schedule to the parts of a machine.
struct ScheduledMachine {
  // The rank's user begins an operation, or gives it up.
  std::function<Status(uint32_t rank, protocol::Operation)> submit;
  std::function<void(uint32_t rank, protocol::OperationId)> give_up;
  // The rank's user leaves the job in order. Schedule::OnLeft follows.
  std::function<void(uint32_t rank)> leave;
  // Runs the loop of the rank's window once. Returns true if there may be more to do.
  std::function<bool(uint32_t rank)> step;
  // The rank hears that another one was lost. Takes what lies in the window, and ends all that is
  // open with `why`.
  std::function<void(uint32_t rank, const Status& why)> end;
  // The rank's other loop, if it has one: whether something waits there, and takes one such thing.
  std::function<bool(uint32_t rank)> has_mail = [](uint32_t) { return false; };
  std::function<void(uint32_t rank)> take_mail;
  // The steps of all other parts of the job.
  std::vector<std::function<bool()>> others;
  // Adds what can happen in groups of devices.
  std::function<void(std::vector<std::function<void()>>&)> add_choices;
  // Returns the blocks whose homes wait for a launch of this rank.
  std::function<std::set<uint32_t>(uint32_t rank)> behind;
};

inline local::WindowShape ScheduledShape(uint32_t ranks, uint64_t seed) {
  return {.ranks = ranks,
          .blocks = 2 + static_cast<uint32_t>(seed % 3),
          .block_bytes = kScheduledBytes * 2};
}

struct alignas(64) ScheduledLine {
  std::byte bytes[64] = {};
};

// The ranks of one machine, and their operations. The other parts of the job take turns as
// `others`.
//
// A rank begins an operation at any time after the last use of its name, and after the join before
// it, have ended. In some schedules one rank leaves, or one stops.
class Schedule {
 public:
  // `leavers`: the first rank of those that may leave.
  Schedule(uint64_t seed, uint32_t count, const local::WindowShape& shape, uint32_t leavers)
      : random(seed * 0x9e3779b97f4a7c15 + 1),
        count_(count),
        leavers_(leavers),
        shape_(shape),
        lines_(SharedRoom::BytesFor(shape) / sizeof(ScheduledLine) + 1),
        heaps_(count),
        room(std::as_writable_bytes(std::span(lines_)), shape) {
    for (uint32_t rank = 0; rank < count; ++rank) {
      windows.push_back(
          std::make_unique<local::Window>(room.window(), shape, rank, &heaps_.of(rank)));
      movers.push_back(
          std::make_unique<MoverForTest>(*windows.back(), [this] { return Below(2) == 0; }));
    }
    sleeping_.assign(count, false);
    seen_.assign(count, 0);
    is_over_.assign(count, false);
    of_rank_.resize(count);
    ops = OpRoller(random, count).Roll();
    RollParts(seed / 2 % 2 == 0);
    if (Below(4) == 0) {
      leaver_ = leavers + static_cast<uint32_t>(Below(count - leavers));
      leaves_at_ = static_cast<int>(Below(300));
    }
  }

  uint64_t Below(uint64_t end) { return random() % end; }

  // Runs until nothing can be done any more.
  void Run(const ScheduledMachine& machine) {
    for (turn_ = 0; turn_ < kTurnsMax; ++turn_) {
      if (fault_.has_value() && !is_struck_) Strike();
      std::vector<std::function<void()>> choices = ChoicesOf(machine);
      if (!choices.empty() && (machine.others.empty() || stopped_ == 0 || Below(3) != 0)) {
        choices[Below(choices.size())]();
        continue;
      }
      bool did = false;
      // The other parts stop with the carrier's process.
      const size_t count = stopped_ == 0 ? 0 : machine.others.size();
      for (size_t i = 0, first = count == 0 ? 0 : Below(count); i < count; ++i)
        did = did || machine.others[(first + i) % count]();
      if (did || !choices.empty() || UsersGoOn()) continue;
      if (!is_struck_ || fault_->is_killed || stopped_ == kNobody) return;
      CheckBesideTheFrozen(machine.behind(stopped_));
      Thaw();
    }
    ADD_FAILURE() << "after " << kTurnsMax << " turns there is still something to do";
  }
  void Wake(uint32_t rank) { sleeping_[rank] = false; }
  // Tells a front the process sets of the operations.
  void AddSets(protocol::Front& front) const {
    std::set<uint32_t> added;
    for (const auto& op : ops) {
      const uint32_t set = op->spec.process_set;
      if (set == 0 || !added.insert(set).second) continue;
      EXPECT_TRUE(front.AddProcessSet(set, op->ranks).ok());
    }
  }

  void SetFault(const ScheduledFault& fault) {
    fault_ = fault;
    if (!fault.is_late) return;
    leaver_ = leavers_;
    leaves_at_ = fault.not_before;
  }

  void OnComplete(protocol::OperationId id, protocol::Outcome outcome) {
    ScheduledPart& part = *parts[id];
    part.End(outcome.status);
    part.outcome = std::move(outcome);
  }
  // The rank has left. Its process may have ended.
  void OnLeft(uint32_t rank) {
    EXPECT_EQ(rank, leaver_);
    is_over_[rank] = true;
  }

  // Checks each operation. `tells_ranks`: each outcome names the ranks that have taken part; else
  // only outcomes of operations that tell sizes first do.
  void Check(bool tells_ranks) const {
    if (leaves_ && killed_ == kNobody) {
      EXPECT_TRUE(is_over_[leaver_]) << "rank " << leaver_ << " cannot leave";
    }
    for (const auto& op : ops) {
      const ScheduledPart* first = nullptr;  // of those that saw all of it
      for (const auto& part : parts) {
        if (&part->op != op.get() || part->rank == killed_) continue;
        if (part->rank == leaver_ && leaves_) {
          if (!part->has_begun) continue;
          ASSERT_EQ(part->ends, 1) << What(*part);
          if (part->status.ok()) CheckGood(*part, tells_ranks);
          continue;
        }
        ASSERT_EQ(part->ends, 1) << What(*part);
        if (first == nullptr) first = part.get();
        CheckAlike(*part, *first);
        if (part->status.ok()) {
          CheckGood(*part, tells_ranks);
        } else {
          EXPECT_TRUE(MayFail(*part)) << What(*part);
        }
      }
    }
  }
  // A rank cannot go on, and so the job ends: each rank hears that at some time.
  void LoseJob() { is_job_lost_ = true; }
  // Others add this to what the ranks reduce.
  void SetAdded(float added) { added_ = added; }
  // Copies to devices may fail, in place of copies from devices.
  void LoseResults() { loses_results_ = true; }
  // Checks that what the ranks have reduced is that of an operation of this name.
  void CheckReduced(std::string_view name, std::span<const float> reduced) const {
    EXPECT_TRUE(std::ranges::any_of(ops,
                                    [&](const auto& op) {
                                      if (op->name != name || !op->IsReduced()) return false;
                                      const float expected = op->ResultOf(op->ranks[0])[0];
                                      return std::ranges::all_of(
                                          reduced, [&](float one) { return one == expected; });
                                    }))
        << "'" << name << "': " << reduced[0] << " is pushed";
  }
  // A group of devices has failed by itself: the operations under way may fail.
  void NoteBroken() { has_broken_ = true; }
  bool has_broken() const { return has_broken_; }
  bool has_lost_one() const { return killed_ != kNobody || is_job_lost_; }
  RankSet killed() const { return killed_ == kNobody ? 0 : Bit(killed_); }
  RankSet left() const { return leaves_ && is_over_[leaver_] ? Bit(leaver_) : 0; }
  Played played() const {
    Played played;
    played.within = within_.has_value() ? 1 : 0;
    played.leaves = leaves_ ? 1 : 0;
    for (const auto& op : ops) {
      if (op->has_failed_copy) ++played.failed_copies;
      if (op->has_lost_result) ++played.lost_results;
      const auto part = std::ranges::find_if(parts, [&](const auto& one) {
        return &one->op == op.get() && one->ends != 0 && one->rank != leaver_;
      });
      if (part == parts.end()) continue;
      const bool is_good = (*part)->status.ok();
      const bool has_gap = op->IsGathered() && op->Contributors() != op->Ranks();
      if ((*part)->status.code() == StatusCode::kMismatch) ++played.disagreements;
      if (is_good && op->Is(wire::Op::kJoin)) ++played.joins;
      if (is_good && has_gap) ++played.gaps;
    }
    return played;
  }

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;
  static Status Lost() { return {StatusCode::kPeerLost, "a rank of the schedule was killed"}; }

  static std::string What(const ScheduledPart& part) {
    return "operation " + std::to_string(part.op.number) + " '" + part.op.name + "', rank " +
           std::to_string(part.rank) + ": " + part.status.ToString();
  }

  // Returns what the rank's user can begin now.
  std::vector<ScheduledPart*> ToBegin(uint32_t rank) const {
    std::vector<ScheduledPart*> all;
    if (leaves_ && rank == leaver_) return all;
    std::set<std::string> open;
    for (ScheduledPart* part : of_rank_[rank]) {
      const bool joins = part->op.Is(wire::Op::kJoin);
      const bool waits = joins ? !open.empty() : open.contains(part->op.name);
      if (!part->has_begun && !waits) all.push_back(part);
      if (part->ends != 0) continue;
      if (joins) break;
      open.insert(part->op.name);
    }
    return all;
  }
  bool UsersGoOn() const {
    for (uint32_t rank = 0; rank < count_; ++rank) {
      if (rank == stopped_ || is_over_[rank]) continue;
      if (!ToBegin(rank).empty() || (rank == leaver_ && !leaves_)) return true;
    }
    return false;
  }

  std::vector<std::function<void()>> ChoicesOf(const ScheduledMachine& machine) {
    std::vector<std::function<void()>> choices;
    if (machine.add_choices != nullptr) machine.add_choices(choices);
    for (uint32_t rank = 0; rank < count_; ++rank) {
      if (rank == stopped_ || is_over_[rank]) continue;
      if (is_job_lost_) {
        choices.emplace_back([&, rank] {
          if (Below(16) == 0) EndAll(machine, rank);
        });
      }
      if (Below(4) == 0) AddUsersChoices(machine, rank, choices);
      for (uint32_t block : movers[rank]->UnderWay()) {
        choices.emplace_back([this, rank, block] { EndCopy(rank, block); });
      }
      if (machine.has_mail(rank)) choices.emplace_back([&, rank] { machine.take_mail(rank); });
      if (!sleeping_[rank] || windows[rank]->Events() != seen_[rank]) {
        choices.emplace_back([&, rank] {
          seen_[rank] = windows[rank]->Events();
          if (windows[rank]->lost() != 0) return EndAll(machine, rank);
          sleeping_[rank] = !machine.step(rank);
        });
      }
    }
    return choices;
  }
  void EndCopy(uint32_t rank, uint32_t block) {
    MoverForTest& mover = *movers[rank];
    RolledOp& op = parts[mover.OwnerOf(block)]->op;
    const bool is_down = mover.CopyIn(block).way == Mover::Way::kDown;
    const bool may_fail = op.unlucky == rank && is_down != loses_results_;
    if (!may_fail || Below(2) == 0) return mover.End(block);
    (is_down ? op.has_failed_copy : op.has_lost_result) = true;
    mover.End(block, {StatusCode::kUnavailable, "a copy has failed"});
  }
  void AddUsersChoices(const ScheduledMachine& machine, uint32_t rank,
                       std::vector<std::function<void()>>& choices) {
    if (std::vector<ScheduledPart*> next = ToBegin(rank); !next.empty()) {
      ScheduledPart& part = *next[Below(next.size())];
      choices.emplace_back([&] { Begin(machine, part); });
    }
    for (ScheduledPart* part : of_rank_[rank]) {
      if (!part->has_begun || part->ends != 0 || part->tries_to_give_up == 0) continue;
      choices.emplace_back([&, part] {
        --part->tries_to_give_up;
        part->op.is_aborted = true;
        machine.give_up(part->rank, part->id);
        sleeping_[part->rank] = false;
      });
    }
    if (rank != leaver_ || leaves_ || turn_ < leaves_at_) return;
    choices.emplace_back([&, rank] {
      leaves_ = true;
      machine.leave(rank);
      sleeping_[rank] = false;
    });
  }
  void Begin(const ScheduledMachine& machine, ScheduledPart& part) {
    part.has_begun = true;
    Status refused = machine.submit(part.rank, part.Operation());
    sleeping_[part.rank] = false;  // its thread has posted work
    if (refused.ok()) return;
    part.is_refused = true;
    part.End(refused);
  }
  void EndAll(const ScheduledMachine& machine, uint32_t rank) {
    machine.end(rank, Lost());
    for (ScheduledPart* part : of_rank_[rank]) {
      if (!part->has_begun) part->End(Lost());
    }
    is_over_[rank] = true;
  }

  void Strike() {
    const ScheduledFault& fault = *fault_;
    if (turn_ < fault.not_before || is_over_[fault.rank]) return;
    if (fault.is_late && left() == 0) return;
    const bool waits = turn_ < fault.not_before + kWaitForStepTurns;
    local::Window& window = *windows[fault.rank];
    within_.emplace(room, shape_, window, heaps_);
    // A copy from a device is not begun anew.
    const bool may_begin = fault.within != HalfStep::kFill || !movers[fault.rank]->IsBusy();
    const bool is_within = fault.within.has_value() && may_begin && within_->Begin(*fault.within);
    if (!is_within) within_.reset();
    if (fault.within.has_value() && !is_within && waits) return;
    is_struck_ = true;
    stopped_ = fault.rank;
    if (!fault.is_killed) return;
    killed_ = fault.rank;
    windows[(fault.rank + 1) % count_]->MarkLost(fault.rank);
  }
  // Checks that ranks do not wait for a rank that they do not need. There is one exception: that
  // rank had all blocks, with the reserve, when it stopped, or homes that wait for its launch have
  // them (decision 65). A third, late rank may have brought that about. Without the carrier nothing
  // begins.
  void CheckBesideTheFrozen(std::set<uint32_t> blocks) const {
    AddBlocksOf(*windows[stopped_], blocks);
    if (stopped_ == 0 || is_job_lost_ || blocks.size() == shape_.blocks) return;
    for (const auto& part : parts) {
      if (!part->has_begun || part->op.IsOf(stopped_) || !HaveAllBegun(part->op)) continue;
      if (leaves_ && part->rank == leaver_) continue;  // its end may wait for the rank's blocks
      EXPECT_EQ(part->ends, 1) << What(*part) << ": waits for rank " << stopped_
                               << ", which takes no part in it";
    }
  }
  // Returns whether each rank of the operation has begun it, or the join before it, or is gone.
  bool HaveAllBegun(const RolledOp& op) const {
    return std::ranges::all_of(parts, [&](const auto& part) {
      const bool joins = part->op.Is(wire::Op::kJoin) && part->op.joins_before == op.joins_before &&
                         Has(op.joined, part->rank);
      const bool counts = &part->op == &op || (joins && op.IsOf(part->rank));
      return !counts || part->has_begun || is_over_[part->rank];
    });
  }
  // Adds the blocks that the rank has to release.
  static void AddBlocksOf(local::Window& window, std::set<uint32_t>& blocks) {
    uint64_t number = 0;
    while (std::optional<local::AdmittedUse> at = window.NextAfter(number).value()) {
      number = at->number;
      if (window.IsOurs(*at) && !window.IsOver(*at)) blocks.insert(at->block);
    }
  }
  void Thaw() {
    if (within_.has_value()) within_->Finish();
    sleeping_[stopped_] = false;
    stopped_ = kNobody;
  }

  // Checks that all ranks that have seen the end of the operation agree about it.
  void CheckAlike(const ScheduledPart& part, const ScheduledPart& first) const {
    // When a rank is lost, ranks that have their part end well, and the others do not.
    if (has_lost_one()) return;
    EXPECT_EQ(part.status.ok(), first.status.ok()) << What(part) << "\n" << What(first);
    // A rank that begins late may hear first that another one has left.
    if (leaves_) return;
    EXPECT_EQ(part.status, first.status) << What(part) << "\n" << What(first);
  }
  // Returns whether the schedule has a reason for the error.
  bool MayFail(const ScheduledPart& part) const {
    const RolledOp& op = part.op;
    const Status& why = part.status;
    if (why == Lost()) return has_lost_one();
    // A rank that has heard that the job is lost takes no part any more.
    const bool has_failed =
        op.has_failed_copy || op.has_lost_result || is_job_lost_ || (has_broken_ && op.IsReduced());
    if (has_failed && why.code() == StatusCode::kUnavailable) return true;
    if (leaves_ && why == protocol::ErrorOfLeftRank(leaver_)) return true;
    // A join has ended in an error, so the rank can begin nothing any more.
    if (leaves_ && part.is_refused) return op.joins_before > 0;
    // A block has noticed first that the rank ends the operation without its part.
    if (leaves_ && why.code() == StatusCode::kUnavailable) return Has(op.Contributors(), leaver_);
    if (why.code() == StatusCode::kMismatch) return op.Disagrees() || (leaves_ && IsDisputed(op));
    if (why.code() == StatusCode::kInvalidArgument) return op.LacksRoot();
    return why.code() == StatusCode::kDeadlineExceeded && op.is_aborted;
  }
  // Returns whether the ranks disagree about an earlier use of the name. If that use ends early,
  // for another reason, they may notice at this one.
  bool IsDisputed(const RolledOp& op) const {
    return std::ranges::any_of(ops, [&](const auto& other) {
      return other->name == op.name && other->number < op.number && other->Disagrees();
    });
  }
  void CheckGood(const ScheduledPart& part, bool tells_ranks) const {
    const RolledOp& op = part.op;
    EXPECT_FALSE(op.Disagrees() || op.LacksRoot() || op.has_failed_copy) << What(part);
    if (op.Is(wire::Op::kJoin)) {
      EXPECT_TRUE(MayHaveJoinedLast(op, static_cast<uint32_t>(part.outcome.rows)))
          << What(part) << ": rank " << part.outcome.rows;
      return;
    }
    EXPECT_EQ(part.Result(), op.ResultOf(part.rank, added_)) << What(part);
    if (!tells_ranks && !op.IsGathered()) return;
    RankSet told = 0;
    for (uint32_t rank : part.outcome.ranks->List()) told |= Bit(rank);
    EXPECT_EQ(told, op.Contributors()) << What(part);
  }
  // Returns whether the rank has taken part in as many operations of all ranks as any other.
  bool MayHaveJoinedLast(const RolledOp& join, uint32_t rank) const {
    std::vector<uint32_t> counts(count_);
    for (const auto& part : parts) {
      const RolledOp& op = part->op;
      if (op.Is(wire::Op::kJoin) || op.spec.process_set != 0) continue;
      if (op.joins_before == join.joins_before && part->status.ok()) ++counts[part->rank];
    }
    return rank < count_ && counts[rank] == std::ranges::max(counts);
  }

  void RollParts(bool with_devices) {
    for (const auto& op : ops) {
      const bool may_be_on_device = with_devices && op->IsReduced();
      if (may_be_on_device && Below(4) == 0) op->unlucky = op->ranks[Below(op->ranks.size())];
      const bool are_all_on_device = may_be_on_device && Below(2) == 0;
      for (uint32_t rank : op->ranks) {
        if (Has(op->joined, rank)) continue;
        parts.push_back(std::make_unique<ScheduledPart>(*op, rank, parts.size()));
        ScheduledPart& part = *parts.back();
        of_rank_[rank].push_back(&part);
        const size_t bytes = part.input.size_bytes();
        if (are_all_on_device || (may_be_on_device && Below(2) == 0)) {
          part.is_on_device = true;
        } else if (bytes > 0 && Below(2) == 0) {
          part.Share(heaps_.own(rank).Take(bytes).value());
        }
        // If such a use could end early for one rank, only time would show that ranks disagree.
        const bool may_end_early = !op->Is(wire::Op::kJoin) && !op->dissenter.has_value();
        if (may_end_early && Below(12) == 0) part.tries_to_give_up = 3;
      }
    }
  }

  std::mt19937_64 random;
  const uint32_t count_;
  const uint32_t leavers_;  // the first rank of those that may leave
  const local::WindowShape shape_;
  std::vector<ScheduledLine> lines_;
  local::HeapsForTest heaps_;

 public:
  const SharedRoom room;
  std::vector<std::unique_ptr<local::Window>> windows;
  std::vector<std::unique_ptr<MoverForTest>> movers;
  std::vector<std::unique_ptr<RolledOp>> ops;
  std::vector<std::unique_ptr<ScheduledPart>> parts;  // by the id of the operation

 private:
  std::vector<std::vector<ScheduledPart*>> of_rank_;  // in the order of the operations
  std::vector<bool> sleeping_;
  std::vector<uint32_t> seen_;
  std::vector<bool> is_over_;  // of ranks that have heard of a loss, or have left
  int turn_ = 0;
  uint32_t leaver_ = kNobody;
  int leaves_at_ = 0;    // in turns
  bool leaves_ = false;  // it has begun to
  std::optional<ScheduledFault> fault_;
  std::optional<StoppedStep> within_;
  bool is_struck_ = false;
  uint32_t stopped_ = kNobody;
  uint32_t killed_ = kNobody;
  bool is_job_lost_ = false;
  bool has_broken_ = false;
  float added_ = 0;
  bool loses_results_ = false;
};

}  // namespace byteps::machine
