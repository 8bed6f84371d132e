// A machine of a job without servers under a random schedule (schedule_for_test.h).
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "src/machine/launcher_for_test.h"
#include "src/machine/room/word_channel.h"
#include "src/machine/schedule_for_test.h"
#include "src/machine/schedule_front_for_test.h"
#include "src/machine/serverless/local_carrier.h"
#include "src/machine/serverless/local_lane.h"

namespace byteps::machine {

// Puts the parts together as LocalEngine does.
class LocalMachine {
 public:
  LocalMachine(uint64_t seed, uint32_t count)
      : shape_(ScheduledShape(count, seed)), ranks_(seed, count, shape_, 0), parts_(count) {
    // In some schedules no round is small; in others some ranks have no place now and then.
    const SmallMemory small = ranks_.room.Small(static_cast<uint32_t>(seed / 3 % 4));
    carrier_ = std::make_unique<LocalCarrier>(
        *ranks_.windows[0],
        LocalCarrierOptions{.ranks = count,
                            .piece_bytes_max = kScheduledBytes,
                            .small = small,
                            .plan =
                                [this](const std::vector<HasDevice>& devices) {
                                  parts_[0].launcher->Plan(devices);
                                },
                            .tell = [](const std::string&, bool) {},
                            .units = {2 * kScheduledBytes, 4 * kScheduledBytes}},
        [this](uint32_t to, const LocalWords::ToRank& word) { parts_[0].mail->SayTo(to, word); });
    if (seed % 5 == 0) ranks_.LoseResults();
    groups_.Roll(
        seed, ranks_.windows, [this](uint64_t end) { return ranks_.Below(end); }, seed % 8 != 1);
    for (uint32_t rank = 0; rank < count; ++rank) AddRank(rank, seed, small);
    for (uint32_t rank = 0; rank < count; ++rank) {
      parts_[rank].front->front.OnView(View(count), rank, rank);
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
      parts_[rank].leaves = true;
      parts_[rank].mail->Say(Leaves());
    };
    machine.step = [this](uint32_t rank) { return Step(rank); };
    machine.behind = [this](uint32_t rank) { return groups_.BlocksBehind(rank, ranks_.windows); };
    machine.end = [this](uint32_t rank, const Status& why) {
      Part& part = parts_[rank];
      if (part.is_over) return part.lane->LookAtGroupWhenOver();
      bool did = false;
      Hear(part, did);
      const auto step_on = [&part] {
        while (part.lane->Step(Time()).value()) {
        }
      };
      step_on();
      part.lane->BreakOffGroups();
      step_on();
      if (part.is_over) return part.lane->LookAtGroupWhenOver();
      part.lane->AbortGroup(why);
      End(rank, why);
    };
    machine.add_choices = [this](std::vector<std::function<void()>>& choices) {
      for (const auto& group : groups_.groups) {
        group->AddChoices(choices);
        if (group->is_broken()) ranks_.NoteBroken();
      }
    };
    ranks_.Run(machine);
    ranks_.Check(true);
    Played played = ranks_.played();
    groups_.Check(ranks_, played);
    for (const Part& part : parts_) played.let_go += part.front->let_go();
    return played;
  }

 private:
  // The parts of one rank.
  struct Part {
    std::unique_ptr<WordChannel<LocalWords>> mail;
    std::unique_ptr<LauncherForTest> launcher;
    std::unique_ptr<LocalLane> lane;
    std::unique_ptr<ScheduledFront> front;
    std::deque<protocol::FrontMail> to_front;
    bool leaves = false;
    bool may_leave = false;
    bool is_closed = false;  // the carrier has said that it leaves
    bool is_over = false;
  };

  // Each rank is a contributor of its own, and the window is the only shard.
  static wire::View View(uint32_t count) {
    wire::View view;
    view.epoch = view.generation = view.began = 1;
    view.piece_bytes_max = kScheduledBytes;
    for (uint32_t rank = 0; rank < count; ++rank) {
      wire::WorkerInfo worker;
      worker.slot = worker.rank = worker.local_rank = rank;
      view.workers.push_back(worker);
    }
    view.servers.emplace_back().shard_weights = {1};
    return view;
  }
  void AddRank(uint32_t rank, uint64_t seed, const SmallMemory& small) {
    Part& part = parts_[rank];
    part.launcher = std::make_unique<LauncherForTest>(groups_, *ranks_.windows[rank]);
    if (rank + 1 == parts_.size()) part.launcher->SetLast();
    part.mail = std::make_unique<WordChannel<LocalWords>>(
        ranks_.room, *ranks_.windows[rank], static_cast<uint32_t>(parts_.size()),
        WordChannel<LocalWords>::Events{
            [this](uint32_t from, const LocalWords::ToCarrier& word) {
              carrier_->OnWord(from, word, {});
            },
            [this, rank](const LocalWords::ToRank& word) { OnWord(rank, word); },
            [this] { return carrier_->KeepsErrors(); }});
    part.lane = std::make_unique<LocalLane>(
        *ranks_.windows[rank], static_cast<uint32_t>(parts_.size()), small,
        LocalLane::Events{
            [&part](const LocalWords::ToCarrier& word) { part.mail->Say(word); },
            [&part](protocol::FrontMail mail) { part.to_front.push_back(std::move(mail)); },
            [&part](const RoundKey& key, bool is_over) { part.mail->Ended(key, is_over); },
            [this](const PlannedSums& plan) { carrier_->OnPlan(plan); },
            rank == kCarrierRank ? [this] { carrier_->OnLaunchEnd(); } : std::function<void()>()},
        ranks_.movers[rank].get(), part.launcher.get());
    part.front = std::make_unique<ScheduledFront>(
        seed,
        ScheduledFront::Events{[this, &part](const wire::Message& message) {
                                 if (std::holds_alternative<wire::Suspect>(message))
                                   return ranks_.LoseJob();
                                 part.mail->Say(message);
                               },
                               [&part](const protocol::LaneMail& mail) { part.lane->OnMail(mail); },
                               [this](protocol::OperationId id, protocol::Outcome outcome) {
                                 ranks_.OnComplete(id, std::move(outcome));
                               }});
  }

  bool Step(uint32_t rank) {
    Part& part = parts_[rank];
    if (part.is_over) {
      part.lane->LookAtGroupWhenOver();
      return false;
    }
    bool did = false;
    Hear(part, did);
    if (part.is_over) return false;
    if (rank == kCarrierRank) did = carrier_->Admit() || did;
    part.mail->Flush();
    Result<bool> stepped = part.lane->Step(Time());
    EXPECT_TRUE(stepped.ok()) << stepped.status().ToString();
    did = stepped.value() || Deliver(part) || did;
    part.mail->Flush();
    if (!did && part.leaves) LeaveIfDone(rank);
    return did;
  }
  static void Hear(Part& part, bool& did) {
    Status heard = part.mail->Hear([&part] { return !part.is_over; }, did);
    EXPECT_TRUE(heard.ok()) << heard.ToString();
  }
  static bool Deliver(Part& part) {
    const bool did = !part.to_front.empty();
    while (!part.to_front.empty()) {
      protocol::FrontMail mail = std::move(part.to_front.front());
      part.to_front.pop_front();
      part.front->front.OnMail(std::move(mail));
    }
    return did;
  }
  void OnWord(uint32_t rank, const LocalWords::ToRank& word) {
    Part& part = parts_[rank];
    if (const auto* combined = std::get_if<Combined>(&word)) {
      EXPECT_TRUE(part.lane->OnCombined(*combined, Time()).ok());
    } else if (const auto* failed = std::get_if<Failed>(&word)) {
      part.lane->OnFailed(*failed, Time());
    } else if (std::holds_alternative<MayLeave>(word)) {
      part.may_leave = true;
    } else if (const auto* so = std::get_if<SumsSo>(&word)) {
      part.lane->Meet(*so);
    } else if (const auto* launch = std::get_if<UnitLaunch>(&word)) {
      EXPECT_TRUE(part.lane->OnLaunch(*launch).ok());
    } else if (const auto* over = std::get_if<GroupOver>(&word)) {
      part.launcher->End(over->why);
    } else if (std::holds_alternative<CarrierLeaves>(word)) {
      part.may_leave = true;
      if (!part.leaves) End(rank, protocol::ErrorOfLeftRank(kCarrierRank));
    } else if (const auto* message = std::get_if<wire::Message>(&word)) {
      part.front->OnMessage(*message);
    } else {
      ADD_FAILURE() << "rank " << rank << " is told something else";
    }
  }
  void LeaveIfDone(uint32_t rank) {
    Part& part = parts_[rank];
    if (!part.may_leave || part.lane->HasWhole()) return;
    const Status why(StatusCode::kShutdown, "the rank leaves");
    part.front->front.Stop(why);
    Deliver(part);
    if (!part.lane->IsDrained()) return;
    if (rank == kCarrierRank) {
      if (!carrier_->IsIdle()) return;
      if (!std::exchange(part.is_closed, true)) carrier_->Close();
      if (!part.mail->Flush()) return;
    }
    End(rank, why);
    ranks_.OnLeft(rank);
  }
  void End(uint32_t rank, const Status& why) {
    Part& part = parts_[rank];
    Deliver(part);
    part.is_over = true;
    if (part.mail->Flush()) ranks_.windows[rank]->Leave();
    part.front->front.Stop(why);
    Deliver(part);
    EXPECT_EQ(part.front->front.open_operations(), 0U);
  }

  const local::WindowShape shape_;
  GroupsForTest groups_;
  Schedule ranks_;
  std::vector<Part> parts_;  // by rank
  std::unique_ptr<LocalCarrier> carrier_;
};

}  // namespace byteps::machine
