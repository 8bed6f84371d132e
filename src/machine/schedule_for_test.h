// The ranks of one machine in one thread, under a random schedule. Each rank takes turns as its
// loop does (word_loop.h): until nothing is left to do, and then only after an event of its own. An
// event that nobody tells therefore shows as an operation that never ends; no timer can hide it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "src/local/heaps_for_test.h"
#include "src/local/window.h"
#include "src/machine/room/shared_room.h"
#include "src/machine/room/words.h"
#include "src/machine/schedule_faults_for_test.h"
#include "src/protocol/worker/exchange/exchange.h"
#include "src/protocol/worker/exchange/mail.h"

namespace byteps::machine {

inline constexpr uint32_t kScheduledFloats = 24;
inline constexpr uint32_t kScheduledBytes = kScheduledFloats * sizeof(float);
inline constexpr int kTurnsMax = 200'000;

struct RolledOp {
  TensorId tensor = 0;
  Combine how = Combine::kSum;
  uint32_t process_set = 0;
  std::vector<uint32_t> ranks;
  uint32_t root = 0;
  uint32_t pieces = 1;
  bool is_aborted = false;  // by some rank
};

// The bytes that one rank brings to an operation, and gets.
struct ScheduledPart final : protocol::SpanSource {
  // `shared`: room for the input in the rank's heap; empty: the part has memory of its own.
  ScheduledPart(RolledOp& what, uint32_t of_rank, uint64_t serial, ByteSpan shared)
      : op(what),
        rank(of_rank),
        own_input(shared.empty() ? what.pieces * kScheduledFloats : 0),
        input(shared.empty() ? std::span<float>(own_input)
                             : std::span(reinterpret_cast<float*>(shared.data()),
                                         shared.size() / sizeof(float))),
        output(input.size()),
        homes(what.pieces, 0) {
    std::ranges::fill(input, static_cast<float>(of_rank + 1 + what.tensor));
    exchange.serial = serial;
    exchange.name = "w";
    exchange.tensor = {op.tensor, op.how, DataType::kFloat32, 0, op.process_set};
    exchange.use = 1;
    exchange.count = op.pieces;
    exchange.homes = &homes;
    exchange.spans = this;
    if (op.how == Combine::kOverlay) exchange.root = op.root;
  }
  protocol::Spans SpansOf(uint32_t number) const override {
    return SpansOfPlace(
        number, static_cast<uint32_t>(std::ranges::find(op.ranks, rank) - op.ranks.begin()));
  }
  protocol::Spans SpansOfPlace(uint32_t number, uint32_t place) const override {
    const bool moves = op.how == Combine::kOverlay;
    const bool is_root = op.ranks[place] == op.root;
    protocol::Spans spans;
    spans.piece_bytes = kScheduledBytes;
    const size_t at = size_t{number} * kScheduledBytes;
    if (!moves || is_root)
      spans.push = std::as_bytes(std::span(input)).subspan(at, kScheduledBytes);
    auto all = std::as_writable_bytes(std::span(output));
    if (!moves || !is_root) spans.want = all.subspan(at, kScheduledBytes);
    return spans;
  }
  float Expected() const {
    float result = static_cast<float>(op.root + 1 + op.tensor);
    if (op.how == Combine::kOverlay) return rank == op.root ? 0 : result;
    result = op.how == Combine::kSum ? 0 : 1e9F;
    for (uint32_t one : op.ranks) {
      const auto theirs = static_cast<float>(one + 1 + op.tensor);
      result = op.how == Combine::kSum ? result + theirs : std::min(result, theirs);
    }
    return result;
  }

  RolledOp& op;
  const uint32_t rank;
  std::vector<float> own_input;
  const std::span<float> input;
  mutable std::vector<float> output;
  std::vector<ShardId> homes;
  protocol::Exchange exchange;
  bool has_begun = false;
  int ends = 0;
  Status status;
};

// Stops one rank in the middle of a step, or between two steps. The rank is killed, or goes on when
// nothing else can be done.
struct ScheduledFault {
  uint32_t rank = 0;
  int not_before = 0;              // in turns
  std::optional<HalfStep> within;  // none, or no such step for long: between two steps
  bool is_killed = false;
};
inline constexpr int kWaitForStepTurns = 300;

// The calls of the schedule to the parts of a machine.
struct ScheduledMachine {
  std::function<void(ScheduledPart&)> begin;
  std::function<void(ScheduledPart&)> give_up;
  // Returns true if there may be more to do.
  std::function<bool(uint32_t rank)> step;
  // A rank was lost. Makes this rank take what lies in the window.
  std::function<void(uint32_t rank)> take_what_is_there;
  // Ends, afterwards, the parts that this rank has still open.
  std::function<void(ScheduledPart&)> withdraw;
  // The steps of all other parts of the machine.
  std::vector<std::function<bool()>> others;
};

struct alignas(64) ScheduledLine {
  std::byte bytes[64] = {};
};

// The ranks of one machine, and their operations. The other parts of the machine take turns as
// `others`.
class Schedule {
 public:
  Schedule(uint64_t seed, uint32_t count, const local::WindowShape& shape)
      : random(seed * 0x9e3779b97f4a7c15 + 1),
        count_(count),
        shape_(shape),
        lines_(SharedRoom::BytesFor(shape) / sizeof(ScheduledLine) + 1),
        heaps_(count),
        room(std::as_writable_bytes(std::span(lines_)), shape) {
    for (uint32_t rank = 0; rank < count; ++rank) {
      windows.push_back(
          std::make_unique<local::Window>(room.window(), shape, rank, &heaps_.of(rank)));
    }
    sleeping_.assign(count, false);
    seen_.assign(count, 0);
    is_over_.assign(count, false);
    RollOps();
  }

  uint64_t Below(uint64_t end) { return random() % end; }

  // Runs until nothing can be done any more.
  void Run(const ScheduledMachine& machine) {
    for (int turn = 0; turn < kTurnsMax; ++turn) {
      if (fault_.has_value() && !is_struck_) Strike(turn);
      std::vector<std::function<void()>> choices = ChoicesOf(machine);
      if (!choices.empty() && (machine.others.empty() || stopped_ == 0 || Below(3) != 0)) {
        choices[Below(choices.size())]();
        continue;
      }
      bool did = false;
      // The other parts belong to the carrier's process.
      const size_t count = stopped_ == 0 ? 0 : machine.others.size();
      for (size_t i = 0, first = count == 0 ? 0 : Below(count); i < count; ++i)
        did = did || machine.others[(first + i) % count]();
      if (did || !choices.empty() || !HasBegunAll()) continue;
      if (!is_struck_ || fault_->is_killed || stopped_ == kNobody) return;
      CheckBesideTheFrozen();
      Thaw();
    }
    ADD_FAILURE() << "after " << kTurnsMax << " turns there is still something to do";
  }
  void Wake(uint32_t rank) { sleeping_[rank] = false; }

  void SetFault(const ScheduledFault& fault) { fault_ = fault; }

  void OnTold(const protocol::FrontMail& mail, uint32_t rank) {
    const auto* done = std::get_if<protocol::to_front::PartDone>(&mail);
    if (done == nullptr) return;
    for (const auto& part : parts) {
      if (part->rank != rank || part->exchange.serial != done->serial) continue;
      End(*part, done->status);
    }
  }

  void Check() const {
    for (const auto& part : parts) {
      if (part->rank == killed_) continue;
      const std::string what = "tensor " + std::to_string(part->op.tensor) + ", rank " +
                               std::to_string(part->rank) + ": " + part->status.ToString();
      ASSERT_EQ(part->ends, 1) << what;
      const auto& first =
          *std::ranges::find_if(parts, [&](const auto& one) { return &one->op == &part->op; });
      // When a rank is lost, ranks that have their part end well, and the others do not.
      if (killed_ == kNobody) {
        EXPECT_EQ(part->status, first->status) << what;
      }
      if (!part->status.ok()) {
        EXPECT_TRUE(part->op.is_aborted || part->status == Lost()) << what;
        EXPECT_TRUE(part->status != Lost() || killed_ != kNobody) << what;
        continue;
      }
      EXPECT_EQ(part->output, std::vector<float>(part->output.size(), part->Expected())) << what;
    }
  }
  bool was_struck_within() const { return within_.has_value(); }

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;
  static Status Lost() { return {StatusCode::kPeerLost, "a rank of the schedule was killed"}; }

  static void End(ScheduledPart& part, const Status& how) {
    ++part.ends;
    part.status = how;
    std::ranges::fill(part.input, 1e9F);  // the user has it again, and others must not read it
  }
  bool HasBegunAll() const {
    for (uint32_t rank = 0; rank < count_; ++rank) {
      if (rank != stopped_ && !is_over_[rank] && !to_begin_[rank].empty()) return false;
    }
    return true;
  }

  std::vector<std::function<void()>> ChoicesOf(const ScheduledMachine& machine) {
    std::vector<std::function<void()>> choices;
    for (uint32_t rank = 0; rank < count_; ++rank) {
      if (rank == stopped_ || is_over_[rank]) continue;
      if (!to_begin_[rank].empty() && Below(4) == 0) {
        choices.emplace_back([&, rank] { BeginNext(machine, rank); });
      }
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
  void BeginNext(const ScheduledMachine& machine, uint32_t rank) {
    ScheduledPart& part = *to_begin_[rank].front();
    to_begin_[rank].pop_front();
    part.has_begun = true;
    machine.begin(part);
    sleeping_[rank] = false;  // its thread has posted work
    if (Below(12) != 0) return;
    part.op.is_aborted = true;
    machine.give_up(part);
  }
  void EndAll(const ScheduledMachine& machine, uint32_t rank) {
    machine.take_what_is_there(rank);
    for (const auto& part : parts) {
      if (part->rank != rank || part->ends != 0) continue;
      if (part->has_begun) machine.withdraw(*part);
      End(*part, Lost());
    }
    is_over_[rank] = true;
  }

  void Strike(int turn) {
    const ScheduledFault& fault = *fault_;
    if (turn < fault.not_before) return;
    const bool waits = turn < fault.not_before + kWaitForStepTurns;
    local::Window& window = *windows[fault.rank];
    within_.emplace(room, shape_, window, heaps_);
    const bool is_within = fault.within.has_value() && within_->Begin(*fault.within);
    if (!is_within) within_.reset();
    if (fault.within.has_value() && !is_within && waits) return;
    is_struck_ = true;
    stopped_ = fault.rank;
    if (!fault.is_killed) return;
    killed_ = fault.rank;
    windows[(fault.rank + 1) % count_]->MarkLost(fault.rank);
  }
  // Checks that ranks do not wait for a rank that they do not need. There is one exception: that
  // rank had all blocks, with the reserve, when it stopped, which a third, late rank may have
  // brought about. Without the carrier nothing begins.
  void CheckBesideTheFrozen() const {
    if (stopped_ == 0 || BlocksOf(*windows[stopped_]) == shape_.blocks) return;
    for (const auto& part : parts) {
      if (std::ranges::find(part->op.ranks, stopped_) != part->op.ranks.end()) continue;
      EXPECT_EQ(part->ends, 1) << "tensor " << part->op.tensor << " waits for rank " << stopped_
                               << ", which takes no part in it";
    }
  }
  // Returns the number of blocks that the rank has to release.
  static uint32_t BlocksOf(local::Window& window) {
    uint32_t blocks = 0;
    uint64_t number = 0;
    while (std::optional<local::AdmittedUse> at = window.NextAfter(number).value()) {
      number = at->number;
      if (window.IsOurs(*at) && !window.IsOver(*at)) ++blocks;
    }
    return blocks;
  }
  void Thaw() {
    if (within_.has_value()) within_->Finish();
    sleeping_[stopped_] = false;
    stopped_ = kNobody;
  }

  void RollOps() {
    to_begin_.resize(count_);
    for (TensorId tensor = 1; tensor <= 12; ++tensor) {
      auto op = std::make_unique<RolledOp>();
      op->tensor = tensor;
      op->how = std::array{Combine::kSum, Combine::kMin, Combine::kOverlay}[Below(3)];
      op->pieces = 1 + static_cast<uint32_t>(Below(6));
      RankSet in = FirstRanks(count_);
      if (count_ > 2 && Below(3) == 0) in &= ~Bit(static_cast<uint32_t>(Below(count_)));
      for (uint32_t rank = 0; rank < count_; ++rank) {
        if (Has(in, rank)) op->ranks.push_back(rank);
      }
      op->process_set = op->ranks.size() == count_ ? 0 : static_cast<uint32_t>(in);
      op->root = op->ranks[Below(op->ranks.size())];
      ops.push_back(std::move(op));
    }
    uint64_t serial = 0;
    for (uint32_t rank = 0; rank < count_; ++rank) {
      for (const auto& op : ops) {
        if (std::ranges::find(op->ranks, rank) == op->ranks.end()) continue;
        ByteSpan shared;
        if (Below(2) == 0) {
          shared = heaps_.own(rank).Take(size_t{op->pieces} * kScheduledBytes).value();
        }
        parts.push_back(std::make_unique<ScheduledPart>(*op, rank, ++serial, shared));
        to_begin_[rank].push_back(parts.back().get());
      }
      std::ranges::shuffle(to_begin_[rank], random);
    }
  }

  std::mt19937_64 random;
  const uint32_t count_;
  const local::WindowShape shape_;
  std::vector<ScheduledLine> lines_;
  local::HeapsForTest heaps_;

 public:
  const SharedRoom room;
  std::vector<std::unique_ptr<local::Window>> windows;
  std::vector<std::unique_ptr<RolledOp>> ops;
  std::vector<std::unique_ptr<ScheduledPart>> parts;

 private:
  std::vector<std::deque<ScheduledPart*>> to_begin_;
  std::vector<bool> sleeping_;
  std::vector<uint32_t> seen_;
  std::vector<bool> is_over_;  // of ranks that have heard of a loss
  std::optional<ScheduledFault> fault_;
  std::optional<StoppedStep> within_;
  bool is_struck_ = false;
  uint32_t stopped_ = kNobody;
  uint32_t killed_ = kNobody;
};

}  // namespace byteps::machine
