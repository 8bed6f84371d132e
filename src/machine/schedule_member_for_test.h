// A machine that is the only member of a job with servers, under a random schedule
// (schedule_for_test.h).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "src/machine/launcher_for_test.h"
#include "src/machine/member/block_transfers.h"
#include "src/machine/member/member_carrier.h"
#include "src/machine/member/member_lane.h"
#include "src/machine/room/word_channel.h"
#include "src/machine/schedule_for_test.h"
#include "src/machine/schedule_front_for_test.h"
#include "src/machine/schedule_shards_for_test.h"

namespace byteps::machine {

// Puts the parts together as MemberLanes does. Each rank has two loops: that of its window, and
// that of its engine, with the front and, at rank 0, the carrier and the lane.
class MemberMachine {
 public:
  MemberMachine(uint64_t seed, uint32_t count)
      : shape_(ScheduledShape(count, seed)),
        is_slow_(seed % 3 == 1),
        ranks_(seed, count, shape_, 1),
        parts_(count),
        view_(ViewOf(count)),
        transfers_(*ranks_.windows[0], {2 * kScheduledBytes, 4 * kScheduledBytes}),
        shards_(
            transfers_,
            [this](protocol::FrontMail told) {
              Put(0, [this, told = std::move(told)] { carrier_.OnMail(told); });
            },
            [this](std::string_view name, std::span<const float> reduced) {
              ranks_.CheckReduced(name, reduced);
            }),
        coordinator_(count, {[this](uint32_t to, const wire::Message& message) {
                               Put(to,
                                   [this, to, message] { parts_[to].front->OnMessage(message); });
                             },
                             [this](uint32_t rank) { LetLeave(rank); },
                             [this](const std::vector<TensorId>& all) { shards_.Forget(all); }}),
        carrier_(count, 1, shape_.block_bytes, transfers_,
                 {[this](uint32_t, const protocol::LaneMail& what) { shards_.OnMail(what); },
                  [this](uint32_t to, const MemberWords::ToRank& word) {
                    Post(0, [this, to, word] { parts_[0].mail->SayTo(to, word); });
                  },
                  [](const protocol::FrontMail&) {},
                  [](const Status& why) { ADD_FAILURE() << why.ToString(); },
                  [this](const std::vector<HasDevice>& devices) {
                    Post(0, [this, devices] { parts_[0].launcher->Plan(devices); });
                  },
                  [](const std::string&, bool) {}}) {
    ranks_.SetAdded(ScheduledShards::kAdded);
    if (seed % 5 == 0) ranks_.LoseResults();
    groups_.Roll(seed, ranks_.windows, [this](uint64_t end) { return ranks_.Below(end); }, false);
    for (uint32_t rank = 0; rank < count; ++rank) AddRank(rank, seed);
    for (uint32_t rank = 0; rank < count; ++rank) {
      parts_[rank].front->front.OnView(view_, 0, rank);
      ranks_.AddSets(parts_[rank].front->front);
    }
  }

  Played Run(std::optional<ScheduledFault> fault) {
    if (fault.has_value()) ranks_.SetFault(*fault);
    ScheduledMachine machine;
    machine.submit = [this](uint32_t rank, protocol::Operation operation) {
      return parts_[rank].front->front.Submit(std::move(operation));
    };
    machine.give_up = [this](uint32_t rank, protocol::OperationId id) {
      parts_[rank].front->GiveUp(id);
    };
    machine.leave = [this](uint32_t rank) {
      parts_[rank].front->front.Settle();
      Later(rank, [this, rank] { SayLeave(rank); });
    };
    machine.step = [this](uint32_t rank) { return Step(rank); };
    machine.end = [this](uint32_t rank, const Status& why) { End(rank, why); };
    machine.has_mail = [this](uint32_t rank) { return !parts_[rank].inbox.empty(); };
    machine.take_mail = [this](uint32_t rank) {
      // The carrier's loop may be slow.
      if (rank == kCarrierRank && is_slow_ && ranks_.Below(8) != 0) return;
      TakeOne(parts_[rank].inbox);
      EndIfStopped(rank);
    };
    const auto below = [this](uint64_t end) { return ranks_.Below(end); };
    machine.add_choices = [this](std::vector<std::function<void()>>& choices) {
      for (const auto& group : groups_.groups) {
        group->AddChoices(choices);
        if (group->is_broken()) ranks_.NoteBroken();
      }
    };
    machine.behind = [this](uint32_t rank) { return groups_.BlocksBehind(rank, ranks_.windows); };
    machine.others = {[this, below] { return coordinator_.Step(below); },
                      [this, below] { return shards_.Step(below); }};
    ranks_.Run(machine);
    ranks_.Check(false);
    EXPECT_TRUE(shards_.IsIdle() || ranks_.has_lost_one());
    Played played = ranks_.played();
    groups_.Check(ranks_, played);
    played.too_late = shards_.too_late();
    for (const Part& part : parts_) played.let_go += part.front->let_go();
    return played;
  }

 private:
  using Work = std::function<void()>;
  // The parts of one rank.
  struct Part {
    std::unique_ptr<WordChannel<MemberWords>> mail;
    std::unique_ptr<LauncherForTest> launcher;
    std::unique_ptr<MemberLane> lane;
    std::unique_ptr<ScheduledFront> front;
    std::deque<Work> posts;  // to the loop of the window
    std::deque<Work> inbox;  // to the loop of the engine
    bool says_leave = false;
    bool has_stopped = false;  // the front
    bool is_ending = false;    // and has nothing open
    bool leaves = false;       // the window's loop knows that
    bool may_leave = false;    // the carrier has said so, or nobody carries
  };

  static wire::View ViewOf(uint32_t count) {
    wire::View view;
    view.epoch = view.generation = view.began = 1;
    view.piece_bytes_max = kScheduledBytes;
    for (uint32_t rank = 0; rank < count; ++rank) {
      wire::WorkerInfo worker;
      worker.rank = worker.local_rank = rank;
      worker.slot = 0;
      view.workers.push_back(worker);
    }
    view.servers.emplace_back().shard_weights = {1};
    return view;
  }
  void AddRank(uint32_t rank, uint64_t seed) {
    Part& part = parts_[rank];
    part.launcher = std::make_unique<LauncherForTest>(groups_, *ranks_.windows[rank]);
    if (rank + 1 == parts_.size()) part.launcher->SetLast();
    part.mail = std::make_unique<WordChannel<MemberWords>>(
        ranks_.room, *ranks_.windows[rank], static_cast<uint32_t>(parts_.size()),
        WordChannel<MemberWords>::Events{
            [this](uint32_t from, const MemberWords::ToCarrier& word) {
              Put(0, [this, from, word] { carrier_.OnWord(from, word); });
            },
            [this, rank](const MemberWords::ToRank& word) { OnWord(rank, word); }});
    part.lane = std::make_unique<MemberLane>(
        *ranks_.windows[rank], rank == kCarrierRank ? &transfers_ : nullptr,
        MemberLane::Events{
            [&part](const MemberWords::ToCarrier& word) { part.mail->Say(word); },
            [this, rank](const protocol::FrontMail& told) { Tell(rank, told); },
            [this](const PlannedSums& plan) { Put(0, [this, plan] { carrier_.OnPlan(plan); }); }},
        ranks_.movers[rank].get(), part.launcher.get());
    part.front = std::make_unique<ScheduledFront>(
        seed,
        ScheduledFront::Events{[this, rank](const wire::Message& said) {
                                 if (std::holds_alternative<wire::Suspect>(said))
                                   return ranks_.LoseJob();
                                 coordinator_.Hear(rank, said);
                               },
                               [this, rank](const protocol::LaneMail& mail) { ToLane(rank, mail); },
                               [this](protocol::OperationId id, protocol::Outcome outcome) {
                                 ranks_.OnComplete(id, std::move(outcome));
                               },
                               [this, rank] { SayLeave(rank); }});
  }

  void Post(uint32_t rank, Work work) {
    parts_[rank].posts.push_back(std::move(work));
    ranks_.Wake(rank);
  }
  void Put(uint32_t rank, Work work) { parts_[rank].inbox.push_back(std::move(work)); }
  // On the loop of the engine, at some time.
  void Later(uint32_t rank, Work work, uint64_t takes = 4) {
    Put(rank, [this, rank, work = std::move(work), takes] {
      if (ranks_.Below(takes) == 0) return work();
      Later(rank, work, takes);
    });
  }
  static void TakeOne(std::deque<Work>& from) {
    const Work first = std::move(from.front());
    from.pop_front();
    first();
  }
  void Tell(uint32_t rank, const protocol::FrontMail& mail) {
    Put(rank, [this, rank, mail] { parts_[rank].front->front.OnMail(mail); });
  }
  void ToLane(uint32_t rank, const protocol::LaneMail& mail) {
    const auto* view = std::get_if<protocol::to_lane::View>(&mail);
    if (view != nullptr && rank == kCarrierRank) carrier_.OnView(*view);
    Post(rank, [this, rank, mail] { parts_[rank].lane->OnMail(mail); });
  }

  bool Step(uint32_t rank) {
    Part& part = parts_[rank];
    bool did = !part.posts.empty();
    for (size_t i = part.posts.size(); i > 0; --i) TakeOne(part.posts);
    EXPECT_TRUE(part.mail->Hear([] { return true; }, did).ok());
    if (rank == kCarrierRank) did = transfers_.Admit() || did;
    if (rank == kCarrierRank) did = SayLaunches() || did;
    Result<bool> stepped = part.lane->Step(Time());
    EXPECT_TRUE(stepped.ok()) << stepped.status().ToString();
    did = stepped.value() || did;
    part.mail->Flush();
    if (!did) LeaveIfDone(rank);
    if (rank == kCarrierRank) transfers_.Resume();
    return did;
  }
  bool SayLaunches() {
    const auto launches = transfers_.TakeLaunches();
    for (const auto& [ranks, launch] : launches) {
      for (uint32_t rank = 0; rank < parts_.size(); ++rank) {
        if (Has(ranks, rank)) parts_[0].mail->SayTo(rank, launch);
      }
    }
    return !launches.empty();
  }
  void OnWord(uint32_t rank, const MemberWords::ToRank& word) {
    Part& part = parts_[rank];
    if (const auto* ended = std::get_if<member::Ended>(&word)) {
      part.lane->OnEnded(*ended, Time());
    } else if (const auto* settled = std::get_if<member::IsSettled>(&word)) {
      Tell(rank, protocol::to_front::Settled{settled->question});
    } else if (std::holds_alternative<MayLeave>(word)) {
      part.may_leave = true;
      part.lane->OnMayLeave();
    } else if (const auto* so = std::get_if<SumsSo>(&word)) {
      part.lane->Meet(*so);
    } else if (const auto* launch = std::get_if<UnitLaunch>(&word)) {
      EXPECT_TRUE(part.lane->OnLaunch(*launch).ok());
    } else if (const auto* over = std::get_if<GroupOver>(&word)) {
      part.launcher->End(over->why);
    } else {
      ADD_FAILURE() << "rank " << rank << " is told something else";
    }
  }

  // The rank has settled, or that took too long. If operations are open, the lane takes no more
  // answers.
  void SayLeave(uint32_t rank) {
    Part& part = parts_[rank];
    if (std::exchange(part.says_leave, true)) return;
    const bool is_clean = part.front->front.open_operations() == 0;
    Post(rank, [this, rank, is_clean] {
      if (!is_clean) parts_[rank].lane->IgnoreAnswers();
      Put(rank, [this, rank] { coordinator_.Hear(rank, wire::Leave()); });
      // The coordinator may be away for long.
      const uint64_t takes = is_slow_ ? 64 : 4;
      if (!is_clean) Later(rank, [this, rank] { Stop(rank); }, takes);
    });
  }
  // The coordinator says to all that the rank has left.
  void LetLeave(uint32_t rank) {
    ++view_.epoch;
    view_.workers[rank].left = true;
    for (uint32_t to = 0; to < parts_.size(); ++to) {
      if (to == rank) {
        Put(to, [this, rank] { Stop(rank); });
      } else {
        Put(to, [this, to, view = view_] { parts_[to].front->front.OnView(view, 0, to); });
      }
    }
  }
  void Stop(uint32_t rank) {
    Part& part = parts_[rank];
    if (std::exchange(part.has_stopped, true)) return;
    Post(rank, [&part] {
      part.mail->Say(Leaves());
      if (!part.may_leave) part.lane->OnLeaves();
    });
    // The limit for the carrier's answer; in most schedules it does not come so far.
    Later(rank, [this, rank] { Post(rank, [this, rank] { EndWait(rank); }); }, 512);
    part.front->front.Stop({StatusCode::kShutdown, "the rank leaves"});
  }
  // The carrier has not answered in time that the rank may leave.
  void EndWait(uint32_t rank) {
    Part& part = parts_[rank];
    if (part.may_leave) return;
    if (!groups_.groups.empty()) ranks_.NoteBroken();
    part.lane->AbortGroup({StatusCode::kPeerLost, "the carrier does not answer"});
    part.lane->OnMayLeave();
  }
  void EndIfStopped(uint32_t rank) {
    Part& part = parts_[rank];
    if (!part.has_stopped || part.front->front.open_operations() > 0) return;
    if (std::exchange(part.is_ending, true)) return;
    Post(rank, [&part] { part.leaves = true; });
  }
  void LeaveIfDone(uint32_t rank) {
    Part& part = parts_[rank];
    if (!part.leaves || !part.may_leave || !part.lane->IsDrained()) return;
    ranks_.windows[rank]->Leave();
    ranks_.OnLeft(rank);
  }

  void End(uint32_t rank, const Status& why) {
    Part& part = parts_[rank];
    part.lane->IgnoreAnswers();
    part.launcher->End(why);
    part.may_leave = true;
    part.lane->OnMayLeave();
    while (!part.inbox.empty()) TakeOne(part.inbox);
    part.front->front.Stop(why);
    while (!part.posts.empty() || !part.inbox.empty()) {
      TakeOne(part.posts.empty() ? part.inbox : part.posts);
    }
    EXPECT_EQ(part.front->front.open_operations(), 0U);
  }

  const local::WindowShape shape_;
  const bool is_slow_;
  GroupsForTest groups_;
  Schedule ranks_;
  std::vector<Part> parts_;  // by rank
  wire::View view_;
  BlockTransfers transfers_;
  ScheduledShards shards_;
  ScheduledCoordinator coordinator_;
  MemberCarrier carrier_;
};

}  // namespace byteps::machine
