// The operations of a random schedule (schedule_for_test.h): what each rank brings to an operation,
// and the result that it must get.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/local/window.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/wire/tensor_spec.h"

namespace byteps::machine {

inline constexpr uint32_t kScheduledFloats = 32;
inline constexpr uint32_t kScheduledBytes = kScheduledFloats * sizeof(float);  // of a piece
inline constexpr uint32_t kScheduledRowFloats = 8;

// Is one use of a name, by the ranks of one process set.
struct RolledOp {
  uint32_t number = 0;  // of the schedule, from 1 on
  std::string name;
  wire::TensorSpec spec;
  std::vector<uint32_t> ranks;  // of the process set, ascending
  uint32_t joins_before = 0;
  // Ranks that have joined before this operation, and so never begin it.
  local::RankSet joined = 0;
  std::optional<uint32_t> dissenter;  // this rank means another tensor by the name
  bool is_aborted = false;            // by some rank
  std::optional<uint32_t> unlucky;    // copies from a device may fail on this rank
  bool has_failed_copy = false;       // one of them has failed
  bool has_lost_result = false;       // a copy to a device has failed

  bool Is(wire::Op op) const { return spec.op == op; }
  bool IsOf(uint32_t rank) const { return std::ranges::find(ranks, rank) != ranks.end(); }
  bool IsGathered() const { return Is(wire::Op::kAllgather) || Is(wire::Op::kAlltoall); }
  local::RankSet Ranks() const {
    local::RankSet set = 0;
    for (uint32_t rank : ranks) set |= local::Bit(rank);
    return set;
  }
  // Returns the ranks that begin it, and so take part.
  local::RankSet Contributors() const { return Ranks() & ~joined; }
  // Returns whether the ranks that begin it mean different tensors.
  bool Disagrees() const {
    const local::RankSet set = Contributors();
    return dissenter.has_value() && local::Has(set, *dissenter) && std::popcount(set) > 1;
  }
  // Returns whether nobody brings the bytes.
  bool LacksRoot() const {
    return Is(wire::Op::kBroadcast) && !local::Has(Contributors(), spec.root);
  }
  float ValueOf(uint32_t rank) const { return static_cast<float>(rank + 1 + number); }
  // The rows that a rank brings to an allgather, and to an alltoall for one other rank.
  uint64_t RowsOf(uint32_t rank) const { return (number * 7 + rank * 5) % 23; }
  uint64_t RowsFor(uint32_t rank, uint32_t to) const {
    return (number * 5 + rank * 3 + to * 7) % 9;
  }
  float ValueFor(uint32_t rank, uint32_t to) const {
    return static_cast<float>(100 * number + 10 * rank + to);
  }

  bool IsReduced() const { return Is(wire::Op::kSum) || Is(wire::Op::kMin); }
  // Returns the result of the rank. `added`: by others, to what the ranks have reduced. REQUIRES:
  // it is no join.
  std::vector<float> ResultOf(uint32_t rank, float added = 0) const {
    const local::RankSet among = Contributors();
    std::vector<float> result;
    const auto add = [&](uint64_t rows, float value) {
      result.insert(result.end(), rows * kScheduledRowFloats, value);
    };
    float one = Is(wire::Op::kMin) ? 1e9F : 0;
    for (uint32_t from : ranks) {
      if (!local::Has(among, from)) continue;
      const float theirs = ValueOf(from);
      if (Is(wire::Op::kAllgather)) add(RowsOf(from), theirs);
      if (Is(wire::Op::kAlltoall)) add(RowsFor(from, rank), ValueFor(from, rank));
      if (Is(wire::Op::kSum)) one += theirs;
      if (Is(wire::Op::kMin)) one = std::min(one, theirs);
      if (Is(wire::Op::kBroadcast) && from == spec.root) one = theirs;
    }
    if (IsReduced()) one += added;
    if (!IsGathered()) result.assign(static_cast<size_t>(spec.shape[0]), one);
    return result;
  }
};

// Counts what schedules have played.
struct Played {
  uint64_t within = 0;  // ranks that stopped in the middle of a step
  uint64_t joins = 0;
  uint64_t leaves = 0;
  uint64_t disagreements = 0;
  uint64_t gaps = 0;           // tables of sizes without the numbers of a rank
  uint64_t let_go = 0;         // words to ranks about tensors that all have let go of
  uint64_t failed_copies = 0;  // operations with a copy from a device that has failed
  uint64_t launches = 0;       // of groups of devices
  uint64_t broken = 0;         // groups that have failed by themselves
  uint64_t too_late = 0;       // errors that were asked for behind the answer
  uint64_t lost_results = 0;   // operations with a copy to a device that has failed

  void Add(const Played& other) {
    within += other.within;
    joins += other.joins;
    leaves += other.leaves;
    disagreements += other.disagreements;
    gaps += other.gaps;
    let_go += other.let_go;
    failed_copies += other.failed_copies;
    launches += other.launches;
    broken += other.broken;
    too_late += other.too_late;
    lost_results += other.lost_results;
  }
};

// Rolls the operations of a schedule. Between two joins some ranks have fewer operations than
// others, so they join earlier. All ranks use names in the same order.
class OpRoller {
 public:
  using Ops = std::vector<std::unique_ptr<RolledOp>>;
  OpRoller(std::mt19937_64& random, uint32_t ranks) : random_(random), ranks_(ranks) {}

  Ops Roll() {
    constexpr uint32_t kOps = 12;
    const uint32_t joins = Below(3) == 0 ? 1 + Below(2) : 0;
    for (uint32_t joined = 0; joined <= joins; ++joined) {
      const uint32_t count = kOps / (joins + 1);
      // The operations that each rank has before the next join.
      std::vector<uint32_t> own(ranks_, count);
      if (joined < joins) std::ranges::generate(own, [&] { return Below(count + 1); });
      for (uint32_t i = 0; i < count; ++i) {
        RolledOp& op = Add(joined);
        RollName(op);
        RollSpec(op);
        for (uint32_t rank = 0; rank < ranks_; ++rank) {
          if (own[rank] <= i) op.joined |= local::Bit(rank);
        }
      }
      if (joined < joins) MakeJoin(Add(joined));
    }
    return std::move(ops_);
  }

 private:
  uint32_t Below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }
  RolledOp& Add(uint32_t joins_before) {
    ops_.push_back(std::make_unique<RolledOp>());
    RolledOp& op = *ops_.back();
    op.number = static_cast<uint32_t>(ops_.size());
    op.joins_before = joins_before;
    return op;
  }
  // Gives it a name of an earlier operation, or a new one, of a set of all ranks or of all but one.
  void RollName(RolledOp& op) {
    const RolledOp& other = *ops_[Below(op.number)];
    if (!other.name.empty() && !other.Is(wire::Op::kJoin) && Below(2) == 0) {
      op.name = other.name;
      op.spec = other.spec;
      op.ranks = other.ranks;
      return;
    }
    op.name = "name " + std::to_string(op.number);
    local::RankSet in = local::FirstRanks(ranks_);
    if (ranks_ > 2 && Below(3) == 0) {
      in &= ~local::Bit(Below(ranks_));
      op.spec.process_set = static_cast<uint32_t>(in);
    }
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      if (local::Has(in, rank)) op.ranks.push_back(rank);
    }
    if (Below(8) == 0) op.dissenter = op.ranks[Below(static_cast<uint32_t>(op.ranks.size()))];
  }
  // Gives it the tensor of an earlier operation of the name, or another one.
  void RollSpec(RolledOp& op) {
    if (!op.spec.shape.empty() && Below(2) == 0) return;
    constexpr std::array kKinds = {wire::Op::kSum, wire::Op::kMin, wire::Op::kBroadcast,
                                   wire::Op::kAllgather, wire::Op::kAlltoall};
    op.spec.op = kKinds[Below(kKinds.size())];
    op.spec.shape = {op.IsGathered() ? kScheduledRowFloats : (1 + Below(6)) * kScheduledFloats};
    op.spec.root = 0;
    if (op.Is(wire::Op::kBroadcast)) {
      op.spec.root = op.ranks[Below(static_cast<uint32_t>(op.ranks.size()))];
    }
  }
  void MakeJoin(RolledOp& op) const {
    op.name = "join";
    op.spec = {wire::Op::kJoin, DataType::kUint8};
    for (uint32_t rank = 0; rank < ranks_; ++rank) op.ranks.push_back(rank);
  }

  std::mt19937_64& random_;
  const uint32_t ranks_;
  Ops ops_;
};

// The part of one rank in an operation.
struct ScheduledPart {
  ScheduledPart(RolledOp& what, uint32_t of_rank, protocol::OperationId number)
      : op(what), rank(of_rank), id(number) {
    switch (op.spec.op) {
      case wire::Op::kJoin: return;
      case wire::Op::kAllgather:
        rows = op.RowsOf(rank);
        Bring(rows * kScheduledRowFloats, op.ValueOf(rank));
        return;
      case wire::Op::kAlltoall:
        for (uint32_t to : op.ranks) {
          splits.push_back(op.RowsFor(rank, to));
          rows += splits.back();
          Bring(splits.back() * kScheduledRowFloats, op.ValueFor(rank, to));
        }
        return;
      default: Bring(static_cast<size_t>(op.spec.shape[0]), op.ValueOf(rank));
    }
    output.resize(input.size());
  }
  // Moves the input into the heap of the rank, which other ranks read.
  void Share(ByteSpan heap) {
    std::memcpy(heap.data(), own_input.data(), heap.size());
    input = {reinterpret_cast<float*>(heap.data()), own_input.size()};
  }
  protocol::Operation Operation() {
    protocol::Operation operation;
    operation.id = id;
    operation.name = op.name;
    operation.spec = op.spec;
    if (op.dissenter == rank) operation.spec.detail = "another tensor";
    operation.rows = rows;
    operation.splits = splits;
    operation.input = reinterpret_cast<const std::byte*>(input.data());
    operation.output = reinterpret_cast<std::byte*>(output.data());
    if (is_on_device) {
      operation.memory = Memory::kDevice;
      operation.device.owner = id;
    }
    return operation;
  }
  void End(Status how) {
    ++ends;
    status = std::move(how);
    std::ranges::fill(input, 1e9F);  // the user has it again, and others must not read it
    at_end = output;                 // what comes later comes too late
  }
  std::vector<float> Result() const {
    if (!op.IsGathered()) return at_end;
    std::vector<float> result(outcome.gathered_bytes / sizeof(float));
    // An empty result has no memory, and memcpy takes no null pointer.
    if (!result.empty()) {
      std::memcpy(result.data(), outcome.gathered.get(), outcome.gathered_bytes);
    }
    return result;
  }

  RolledOp& op;
  const uint32_t rank;
  const protocol::OperationId id;
  uint64_t rows = 0;
  std::vector<uint64_t> splits;
  std::vector<float> own_input;
  std::span<float> input;
  std::vector<float> output;
  std::vector<float> at_end;  // the output when the operation ended
  bool has_begun = false;
  bool is_refused = false;  // the front has not accepted it
  bool is_on_device = false;
  uint32_t tries_to_give_up = 0;  // by its user, before it has ended
  int ends = 0;
  Status status;
  protocol::Outcome outcome;

 private:
  void Bring(size_t floats, float value) {
    own_input.insert(own_input.end(), floats, value);
    input = own_input;
  }
};

}  // namespace byteps::machine
