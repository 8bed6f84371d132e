// Runs whole machines under random schedules (schedule_for_test.h).
#include "src/machine/schedule_for_test.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/machine/member/ferry.h"
#include "src/machine/member/uplink.h"
#include "src/machine/member/upward_lane.h"
#include "src/machine/room/word_channel.h"
#include "src/machine/serverless/carrier.h"
#include "src/machine/serverless/window_lane.h"

namespace byteps::machine {
namespace {

namespace to_front = protocol::to_front;
namespace to_lane = protocol::to_lane;

local::WindowShape SmallShape(uint32_t ranks, uint64_t seed) {
  return {.ranks = ranks,
          .blocks = 2 + static_cast<uint32_t>(seed % 3),
          .block_bytes = kScheduledBytes * 2};
}

to_lane::AddProcessSet SetOf(const RolledOp& op, bool one_slot) {
  to_lane::AddProcessSet set{op.process_set, {}, {}};
  for (uint32_t rank : op.ranks) {
    set.slots.Insert(one_slot ? 0 : rank);
    set.ranks.Insert(rank);
  }
  return set;
}

// In some schedules no round is small; in others some ranks have no place now and then.
SmallMemory SmallMemoryOf(const SharedRoom& room, uint64_t seed) {
  return room.Small(static_cast<uint32_t>(seed / 3 % 4));
}

// `lane_of`: returns the lane of a rank.
template <typename LaneOf>
ScheduledMachine MachineOf(LaneOf lane_of) {
  ScheduledMachine machine;
  machine.begin = [lane_of](ScheduledPart& part) {
    lane_of(part.rank).OnMail(to_lane::Begin{&part.exchange});
  };
  machine.give_up = [lane_of](ScheduledPart& part) {
    lane_of(part.rank).OnMail(to_lane::Abort{
        part.op.tensor, part.exchange.serial, {StatusCode::kDeadlineExceeded, "late"}});
  };
  machine.withdraw = [lane_of](ScheduledPart& part) {
    lane_of(part.rank).OnMail(to_lane::Withdraw{&part.exchange});
  };
  return machine;
}

// Draws which rank stops, when, in the middle of which step, and whether it goes on.
ScheduledFault FaultOf(uint64_t seed, uint32_t count) {
  std::mt19937_64 random(seed * 31 + 7);
  ScheduledFault fault;
  fault.rank = static_cast<uint32_t>(random() % count);
  fault.not_before = static_cast<int>(random() % 150);
  const uint64_t within = random() % 4;
  if (within < 3) fault.within = static_cast<HalfStep>(within);
  fault.is_killed = random() % 2 == 0;
  return fault;
}

constexpr uint64_t kSeeds = 250;
// A campaign takes other seeds than the default: --gtest_random_seed=N.
uint64_t FirstSeed() { return kSeeds * static_cast<uint64_t>(GTEST_FLAG_GET(random_seed)); }

class Schedules : public testing::TestWithParam<int> {
 protected:
  void ForSeeds(const std::function<void(uint64_t seed, uint32_t count)>& play) {
    const uint64_t first = FirstSeed();
    for (uint64_t seed = first; seed < first + kSeeds && !HasFailure(); ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      play(seed, static_cast<uint32_t>(GetParam()));
    }
  }
};

// Plays a machine that is put together as in LocalEngine. Returns whether a rank was stopped in the
// middle of a step.
bool PlayWithoutServers(uint64_t seed, uint32_t count, std::optional<ScheduledFault> fault) {
  Schedule ranks(seed, count, SmallShape(count, seed));
  if (fault.has_value()) ranks.SetFault(*fault);
  std::unique_ptr<Carrier> carrier;
  std::vector<std::unique_ptr<WordChannel<LocalWords>>> mail;
  std::vector<std::unique_ptr<WindowLane>> lanes;
  for (uint32_t rank = 0; rank < count; ++rank) {
    mail.push_back(std::make_unique<WordChannel<LocalWords>>(
        ranks.room, *ranks.windows[rank], count,
        WordChannel<LocalWords>::Events{
            [&](uint32_t from, const LocalWords::ToCarrier& word) {
              carrier->OnWord(from, word, {});
            },
            [&, rank](const LocalWords::ToRank& word) {
              if (const auto* failed = std::get_if<Failed>(&word)) {
                lanes[rank]->OnFailed(*failed, Time());
              } else if (const auto* combined = std::get_if<Combined>(&word)) {
                EXPECT_TRUE(lanes[rank]->OnCombined(*combined, Time()).ok());
              }
            },
            [&] { return carrier->KeepsErrors(); }}));
    lanes.push_back(std::make_unique<WindowLane>(
        *ranks.windows[rank], count, SmallMemoryOf(ranks.room, seed),
        WindowLane::Events{
            [&, rank](const LocalWords::ToCarrier& word) { mail[rank]->Say(word); },
            [&, rank](const protocol::FrontMail& told) { ranks.OnTold(told, rank); },
            [&, rank](const RoundKey& key, bool is_over) { mail[rank]->Ended(key, is_over); }}));
  }
  carrier = std::make_unique<Carrier>(
      *ranks.windows[0],
      CarrierOptions{.ranks = count,
                     .piece_bytes_max = kScheduledBytes,
                     .small = SmallMemoryOf(ranks.room, seed)},
      [&](uint32_t to, const LocalWords::ToRank& word) { mail[0]->SayTo(to, word); });
  for (const auto& op : ranks.ops) {
    if (op->process_set == 0) continue;
    for (auto& lane : lanes) lane->OnMail(SetOf(*op, false));
  }
  ScheduledMachine machine = MachineOf([&](uint32_t rank) -> auto& { return *lanes[rank]; });
  machine.step = [&](uint32_t rank) {
    bool did = false;
    EXPECT_TRUE(mail[rank]->Hear([] { return true; }, did).ok());
    if (rank == kCarrierRank) did = carrier->Admit() || did;
    Result<bool> stepped = lanes[rank]->Step(Time());
    EXPECT_TRUE(stepped.ok()) << stepped.status().ToString();
    did = stepped.value() || did;
    mail[rank]->Flush();
    return did;
  };
  machine.take_what_is_there = [&](uint32_t rank) {
    bool did = false;
    EXPECT_TRUE(mail[rank]->Hear([] { return true; }, did).ok());
    while (lanes[rank]->Step(Time()).value()) {
    }
  };
  ranks.Run(machine);
  ranks.Check();
  return ranks.was_struck_within();
}

TEST_P(Schedules, OfAMachineWithoutServers) {
  ForSeeds([](uint64_t seed, uint32_t count) { PlayWithoutServers(seed, count, std::nullopt); });
}

TEST_P(Schedules, OfAMachineWithoutServersOneOfWhoseRanksStops) {
  uint64_t within = 0;
  ForSeeds([&](uint64_t seed, uint32_t count) {
    if (PlayWithoutServers(seed, count, FaultOf(seed, count))) ++within;
  });
  EXPECT_GT(within, kSeeds / 10) << "too few ranks stop in the middle of a step";
}

// Does the work of a lane for the carrier, whose machine is the only member: the pushed bytes are
// the answer. The schedule takes its steps one by one, in any order.
class LoneLane {
 public:
  using Tell = std::function<void(protocol::FrontMail)>;
  LoneLane(Ferry& ferry, Tell tell) : ferry_(ferry), tell_(std::move(tell)) {}

  void OnMail(const protocol::LaneMail& mail) {
    if (const auto* begin = std::get_if<to_lane::Begin>(&mail)) {
      open_[begin->exchange->serial] = {begin->exchange, 0};
      for (uint32_t i = 0; i < begin->exchange->count; ++i) {
        const uint32_t number = begin->exchange->first_piece + i;
        steps_.emplace_back([this, serial = begin->exchange->serial, number] {
          Enter(serial, number, Ferry::Way::kCollect);
        });
      }
    } else if (const auto* abort = std::get_if<to_lane::Abort>(&mail)) {
      Fail(abort->serial, abort->why);
    } else if (const auto* withdraw = std::get_if<to_lane::Withdraw>(&mail)) {
      LetGo(withdraw->exchange->serial);
      tell_(to_front::Released{0, withdraw->exchange->serial, withdraw->exchange->tensor.id});
    }
  }
  // Takes one step; `pick` chooses it by number. False: there is no step.
  bool Step(const std::function<uint64_t(uint64_t)>& pick) {
    if (steps_.empty()) return false;
    const auto at = steps_.begin() + static_cast<ptrdiff_t>(pick(steps_.size()));
    const std::function<void()> step = std::move(*at);
    steps_.erase(at);
    step();
    return true;
  }

 private:
  struct Open {
    const protocol::Exchange* exchange = nullptr;
    uint32_t done = 0;
  };
  struct InStage {
    uint64_t serial = 0;
    protocol::PieceTicket ticket;
    Ferry::Way way = Ferry::Way::kCollect;
  };

  void Enter(uint64_t serial, uint32_t number, Ferry::Way way) {
    auto open = open_.find(serial);
    if (open == open_.end()) return;
    const protocol::Exchange& exchange = *open->second.exchange;
    const protocol::Spans spans = exchange.spans->SpansOf(number);
    std::vector<std::byte>& bytes = bytes_[{serial, number}];
    const bool collects = way == Ferry::Way::kCollect;
    if (collects) bytes.assign(spans.push.size(), std::byte{0});
    Ferry::Piece piece;
    piece.way = way;
    piece.owner = this;
    piece.ticket = {exchange.tensor.id, number, exchange.use, ++entries_};
    piece.key = {exchange.tensor.id, exchange.use, exchange.first_piece};
    piece.piece_bytes = spans.piece_bytes;
    piece.offset = collects ? spans.push_offset : spans.want_offset;
    if (collects) piece.to = bytes;
    if (!collects) piece.from = bytes;
    piece.resume = [this](const protocol::PieceTicket& ticket, protocol::StageVerdict how,
                          const Status& why) {
      steps_.emplace_back([this, entry = ticket.entry, how, why] { Resume(entry, how, why); });
    };
    stages_[entries_] = {serial, piece.ticket, way};
    if (ferry_.Begin(piece)) return;
    steps_.emplace_back(
        [this, entry = entries_] { Resume(entry, protocol::StageVerdict::kDone, {}); });
  }
  void Resume(uint64_t entry, protocol::StageVerdict how, const Status& why) {
    auto found = stages_.find(entry);
    if (found == stages_.end()) return;
    const InStage stage = found->second;
    stages_.erase(found);
    if (how == protocol::StageVerdict::kFailed) return Fail(stage.serial, why);
    Open& open = open_.at(stage.serial);
    if (stage.way == Ferry::Way::kCollect) {
      return Enter(stage.serial, stage.ticket.number, Ferry::Way::kSpread);
    }
    if (++open.done < open.exchange->count) return;
    to_front::PartDone part = PartOf(*open.exchange);
    auto receipt = std::make_shared<SlotSet>();
    receipt->Insert(0);
    part.receipt = std::move(receipt);
    LetGo(stage.serial);
    tell_(part);
  }
  void Fail(uint64_t serial, const Status& why) {
    auto open = open_.find(serial);
    if (open == open_.end()) return;
    to_front::PartDone part = PartOf(*open->second.exchange);
    part.failed_piece = open->second.exchange->first_piece;
    part.status = why;
    LetGo(serial);
    tell_(part);
  }
  static to_front::PartDone PartOf(const protocol::Exchange& exchange) {
    to_front::PartDone part;
    part.serial = exchange.serial;
    part.tensor = exchange.tensor.id;
    part.pieces = exchange.count;
    return part;
  }
  void LetGo(uint64_t serial) {
    for (auto& [entry, stage] : stages_) {
      if (stage.serial == serial) ferry_.CallOff(stage.ticket);
    }
    std::erase_if(stages_, [&](const auto& one) { return one.second.serial == serial; });
    std::erase_if(bytes_, [&](const auto& one) { return one.first.first == serial; });
    open_.erase(serial);
  }

  Ferry& ferry_;
  const Tell tell_;
  std::map<uint64_t, Open> open_;
  std::map<uint64_t, InStage> stages_;  // by entry
  std::map<std::pair<uint64_t, uint32_t>, std::vector<std::byte>> bytes_;
  std::vector<std::function<void()>> steps_;
  uint64_t entries_ = 0;
};

to_lane::View ViewOfMachine(uint32_t ranks) {
  auto view = std::make_shared<wire::View>();
  view->epoch = view->generation = view->began = 1;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    wire::WorkerInfo worker;
    worker.rank = worker.local_rank = rank;
    worker.slot = 0;
    view->workers.push_back(worker);
  }
  view->servers.emplace_back().shard_weights = {1};
  return {view, 0};
}

// A machine that is put together as in MachineLanes.
class MemberMachine {
 public:
  MemberMachine(uint64_t seed, uint32_t count)
      : shape_(SmallShape(count, seed)),
        count_(count),
        ranks_(seed, count, shape_),
        ferry_(*ranks_.windows[0]),
        shards_(ferry_,
                [this](protocol::FrontMail told) {
                  inbox_.emplace_back([this, told = std::move(told)] { uplink_.OnMail(told); });
                }),
        uplink_(count, 1, shape_.block_bytes, ferry_,
                {[this](uint32_t, const protocol::LaneMail& what) { shards_.OnMail(what); },
                 [this](uint32_t to, const MemberWords::ToRank& word) {
                   posts_.emplace_back([this, to, word] { mail_[0]->SayTo(to, word); });
                   ranks_.Wake(0);
                 },
                 [](const protocol::FrontMail&) {},
                 [](const Status& why) { ADD_FAILURE() << why.ToString(); }}) {
    uplink_.OnView(ViewOfMachine(count));
    for (uint32_t rank = 0; rank < count; ++rank) AddRank(rank);
    for (const auto& part : ranks_.parts) {
      if (part->op.how == Combine::kOverlay) part->exchange.root = 0;  // the slot of its machine
    }
    for (const auto& op : ranks_.ops) {
      for (uint32_t rank : op->ranks) {
        if (op->process_set != 0) lanes_[rank]->OnMail(SetOf(*op, true));
      }
    }
  }

  // Like PlayWithoutServers.
  bool Run(std::optional<ScheduledFault> fault) {
    if (fault.has_value()) ranks_.SetFault(*fault);
    ScheduledMachine machine = MachineOf([this](uint32_t rank) -> auto& { return *lanes_[rank]; });
    machine.step = [this](uint32_t rank) { return Step(rank); };
    machine.take_what_is_there = [this](uint32_t rank) { lanes_[rank]->IgnoreAnswers(); };
    machine.others = {
        [this] { return TakeTold(); },
        [this] { return shards_.Step([this](uint64_t end) { return ranks_.Below(end); }); }};
    ranks_.Run(machine);
    ranks_.Check();
    return ranks_.was_struck_within();
  }

 private:
  void AddRank(uint32_t rank) {
    mail_.push_back(std::make_unique<WordChannel<MemberWords>>(
        ranks_.room, *ranks_.windows[rank], count_,
        WordChannel<MemberWords>::Events{
            [this](uint32_t from, const MemberWords::ToCarrier& word) {
              inbox_.emplace_back([this, from, word] { uplink_.OnWord(from, word); });
            },
            [this, rank](const MemberWords::ToRank& word) {
              if (const auto* ended = std::get_if<member::Ended>(&word)) {
                lanes_[rank]->OnEnded(*ended, Time());
              }
            }}));
    lanes_.push_back(std::make_unique<UpwardLane>(
        *ranks_.windows[rank], rank == kCarrierRank ? &ferry_ : nullptr,
        UpwardLane::Events{
            [this, rank](const MemberWords::ToCarrier& word) { mail_[rank]->Say(word); },
            [this, rank](const protocol::FrontMail& told) { ranks_.OnTold(told, rank); }}));
    lanes_[rank]->OnMail(ViewOfMachine(count_));
  }
  bool Step(uint32_t rank) {
    bool did = false;
    if (rank == kCarrierRank) {
      did = !posts_.empty();
      for (const auto& post : std::exchange(posts_, {})) post();
    }
    EXPECT_TRUE(mail_[rank]->Hear([] { return true; }, did).ok());
    if (rank == kCarrierRank) did = ferry_.Admit() || did;
    Result<bool> stepped = lanes_[rank]->Step();
    EXPECT_TRUE(stepped.ok()) << stepped.status().ToString();
    did = stepped.value() || did;
    mail_[rank]->Flush();
    if (rank == kCarrierRank) ferry_.Resume();
    return did;
  }
  bool TakeTold() {
    if (inbox_.empty()) return false;
    const auto first = std::move(inbox_.front());
    inbox_.pop_front();
    first();
    return true;
  }

  const local::WindowShape shape_;
  const uint32_t count_;
  Schedule ranks_;
  std::deque<std::function<void()>> inbox_;   // of the loop that owns the uplink
  std::vector<std::function<void()>> posts_;  // of the carrier's rank
  Ferry ferry_;
  LoneLane shards_;
  Uplink uplink_;
  std::vector<std::unique_ptr<WordChannel<MemberWords>>> mail_;
  std::vector<std::unique_ptr<UpwardLane>> lanes_;
};

TEST_P(Schedules, OfAMachineThatIsOneMember) {
  ForSeeds([](uint64_t seed, uint32_t count) { MemberMachine(seed, count).Run({}); });
}

TEST_P(Schedules, OfAMachineThatIsOneMemberOneOfWhoseRanksStops) {
  uint64_t within = 0;
  ForSeeds([&](uint64_t seed, uint32_t count) {
    if (MemberMachine(seed, count).Run(FaultOf(seed, count))) ++within;
  });
  EXPECT_GT(within, kSeeds / 10) << "too few ranks stop in the middle of a step";
}

INSTANTIATE_TEST_SUITE_P(Ranks, Schedules, testing::Values(2, 3, 4));

}  // namespace
}  // namespace byteps::machine
