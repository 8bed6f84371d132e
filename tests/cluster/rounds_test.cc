// Tests operations in which not all ranks take part, or whose results differ by rank: process sets,
// reducescatter, alltoall, join. Each test also runs with a server that dies in the middle.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "src/operations/row.h"
#include "src/operations/sizes.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

using wire::Op;

// The parameters: (setting, true if a server dies).
class Rounds : public ::testing::TestWithParam<std::tuple<Setting, bool>> {
 protected:
  void Start(uint32_t workers) {
    ClusterOptions options;
    options.medium = std::get<0>(GetParam()).medium;
    options.lanes = std::get<0>(GetParam()).lanes;
    options.workers = workers;
    options.servers = 3;
    options.shards = 2;
    options.piece_bytes_max = 1024;
    options.credit_bytes = 20000;
    cluster.emplace(options);
    ASSERT_TRUE(cluster->Start().ok());
  }

  // Kills a server, if the test wants it, in the middle of the submitted operations.
  void MaybeKill(const TicketRef& first) {
    if (!std::get<1>(GetParam()) || killed_) return;
    killed_ = true;
    EXPECT_TRUE(first->WaitStatus().ok());
    cluster->KillServer(1);
  }

  void AddSet(uint32_t number, const std::vector<uint32_t>& ranks) {
    for (uint32_t rank = 0; rank < cluster->options().workers; ++rank) {
      Status added = cluster->engine(rank).AddProcessSet(number, ranks);
      ASSERT_TRUE(added.ok()) << added.ToString();
    }
  }

  Medium medium() const { return std::get<0>(GetParam()).medium; }

  std::optional<Cluster> cluster;
  bool killed_ = false;
};

INSTANTIATE_TEST_SUITE_P(Media, Rounds,
                         ::testing::Combine(::testing::ValuesIn(kSettings), ::testing::Bool()),
                         [](const auto& one) {
                           return NameOf(std::get<0>(one.param)) +
                                  (std::get<1>(one.param) ? "AServerDies" : "");
                         });

INSTANTIATE_TEST_SUITE_P(OneMachine, Rounds,
                         ::testing::Values(std::make_tuple(Setting{Medium::kWindow, {1}}, false)));

INSTANTIATE_TEST_SUITE_P(Machines, Rounds,
                         ::testing::Combine(::testing::Values(Setting{Medium::kMachines, {1}},
                                                              Setting{Medium::kMachines, {2, 1, 3}},
                                                              Setting{Medium::kInTurn, {1}}),
                                            ::testing::Bool()),
                         [](const auto& one) {
                           return NameOf(std::get<0>(one.param)) +
                                  (std::get<1>(one.param) ? "AServerDies" : "");
                         });

// A tensor of one rank, as long as its operation lasts.
struct Call {
  Bytes input;
  Bytes output;
  TicketRef ticket;
};

TEST_P(Rounds, ProcessSetsOverlapAndRunAtOnce) {
  constexpr int64_t kCount = 3000;
  constexpr int kRounds = 6;
  Start(4);
  std::map<uint32_t, std::vector<uint32_t>> sets = {{1, {0, 1, 2}}, {2, {2, 3}}, {7, {3, 0}}};
  for (const auto& [number, ranks] : sets) AddSet(number, ranks);
  sets[0] = {0, 1, 2, 3};
  auto value = [](uint32_t set, uint32_t rank, int round) {
    return 1 + set + 10 * rank + 3 * round;
  };
  for (int round = 0; round < kRounds; ++round) {
    std::map<std::tuple<uint32_t, uint32_t, Op>, Call> calls;
    for (const auto& [set, ranks] : sets) {
      for (uint32_t rank : ranks) {
        for (Op op : {Op::kSum, Op::kAverage, Op::kBroadcast, Op::kAllgather, Op::kBarrier}) {
          Call& call = calls[{set, rank, op}];
          size_t count = op == Op::kAllgather ? 100 * (rank + 1) : kCount;
          if (op == Op::kBarrier) count = 0;
          call.input =
              Encode(DataType::kFloat64, std::vector<double>(count, value(set, rank, round)));
          call.output = call.input;
          protocol::Operation operation =
              OperationOn("s" + std::to_string(set) + operations::NameOf(op), op,
                          DataType::kFloat64, {kCount}, call.input, call.output);
          if (op == Op::kAllgather) operation.spec.shape = {100};
          if (op == Op::kAllgather) operation.rows = rank + 1;
          if (op == Op::kBroadcast) operation.spec.root = ranks.back();
          operation.spec.process_set = set;
          call.ticket = cluster->Submit(rank, operation);
        }
      }
    }
    if (round == 2) MaybeKill(calls.begin()->second.ticket);
    for (auto& [key, call] : calls) {
      const auto& [set, rank, op] = key;
      const std::vector<uint32_t>& ranks = sets[set];
      const protocol::Outcome* outcome = call.ticket->Wait();
      ASSERT_NE(outcome, nullptr);
      ASSERT_TRUE(outcome->status.ok()) << outcome->status.ToString();
      EXPECT_EQ(outcome->members, ranks.size()) << set;
      double sum = 0;
      for (uint32_t member : ranks) sum += value(set, member, round);
      std::vector<double> expected(kCount, sum);
      if (op == Op::kAverage) expected.assign(kCount, sum / static_cast<double>(ranks.size()));
      if (op == Op::kBroadcast) expected.assign(kCount, value(set, ranks.back(), round));
      if (op == Op::kSum || op == Op::kAverage || op == Op::kBroadcast) {
        EXPECT_TRUE(call.output == Encode(DataType::kFloat64, expected)) << set << " " << rank;
      }
      if (op != Op::kAllgather) continue;
      std::vector<double> rows;
      std::vector<int64_t> from_each;
      for (uint32_t member = 0; member < 4; ++member) {
        if (std::find(ranks.begin(), ranks.end(), member) == ranks.end()) continue;
        from_each.push_back(member + 1);
        rows.insert(rows.end(), 100 * (member + 1), value(set, member, round));
      }
      EXPECT_EQ(outcome->received_splits, from_each) << set << " " << rank;
      Bytes got(outcome->gathered.get(), outcome->gathered.get() + outcome->gathered_bytes);
      EXPECT_TRUE(got == Encode(DataType::kFloat64, rows)) << set << " " << rank;
    }
  }
  cluster->LeaveInOrder();
}

TEST_P(Rounds, WhatIsNoProcessSetOfThisRankIsRefusedAtOnce) {
  Start(3);
  AddSet(1, {0, 2});
  Bytes data(4);
  protocol::Operation operation = SumOf("x", data);
  operation.spec.process_set = 1;
  EXPECT_NE(cluster->Submit(1, operation)->WaitStatus().message().find("not rank 1"),
            std::string::npos);
  operation.spec.process_set = 2;
  EXPECT_EQ(cluster->Submit(0, operation)->WaitStatus().code(), StatusCode::kInvalidArgument);
  operation = Broadcast("b", 1, data, data);
  operation.spec.process_set = 1;
  EXPECT_EQ(cluster->Submit(0, operation)->WaitStatus().code(), StatusCode::kInvalidArgument);
  runtime::Engine& engine = cluster->engine(0);
  EXPECT_FALSE(engine.AddProcessSet(0, {0}).ok());
  EXPECT_FALSE(engine.AddProcessSet(1, {0, 2}).ok()) << "numbers are never used again";
  EXPECT_FALSE(engine.AddProcessSet(2, {}).ok());
  EXPECT_FALSE(engine.AddProcessSet(2, {0, 0}).ok());
  EXPECT_FALSE(engine.AddProcessSet(2, {0, 3}).ok());
  EXPECT_TRUE(engine.RemoveProcessSet(1).ok());
  EXPECT_FALSE(engine.RemoveProcessSet(1).ok());
  EXPECT_FALSE(engine.AddProcessSet(1, {0, 2}).ok());
  cluster->LeaveInOrder();
}

struct ScatterCase {
  uint32_t set;
  DataType type;
  Op combine;
  int64_t rows;
  int64_t columns;
  bool in_place;
};

double ScatterElement(uint32_t rank, size_t i, int round) {
  return static_cast<double>((i + 2 * rank + static_cast<size_t>(round)) % 8);
}

const std::vector<std::vector<uint32_t>> kScatterSets = {{0, 1, 2, 3}, {0, 1, 3}};

std::vector<ScatterCase> ScatterCases() {
  std::vector<ScatterCase> cases;
  for (DataType type :
       {DataType::kFloat32, DataType::kFloat16, DataType::kInt64, DataType::kUint8}) {
    for (Op combine : {Op::kSum, Op::kAverage, Op::kMax}) {
      for (int64_t rows : {0, 1, 3, 6, 41}) {
        uint32_t set = rows % 2 == 0 ? 1 : 0;
        bool in_place = type == DataType::kInt64;
        cases.push_back({set, type, combine, rows, rows == 41 ? 333 : 5, in_place});
      }
    }
  }
  cases.push_back({0, DataType::kFloat32, Op::kSum, 4, 0, false});
  return cases;
}

// Returns the first and the end of a rank's elements.
std::pair<size_t, size_t> ShareOf(const ScatterCase& one, uint32_t rank) {
  const std::vector<uint32_t>& ranks = kScatterSets[one.set];
  auto place = static_cast<uint64_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  auto rows = static_cast<uint64_t>(one.rows);
  auto columns = static_cast<uint64_t>(one.columns);
  return {operations::RowsBefore(rows, place, ranks.size()) * columns,
          operations::RowsBefore(rows, place + 1, ranks.size()) * columns};
}

// Returns the bytes that a rank must get.
Bytes Scattered(const ScatterCase& one, uint32_t rank, int round) {
  const std::vector<uint32_t>& ranks = kScatterSets[one.set];
  std::vector<double> expected;
  auto [begin, end] = ShareOf(one, rank);
  for (size_t i = begin; i < end; ++i) {
    double result = 0;
    for (uint32_t member : ranks) {
      double value = ScatterElement(member, i, round);
      result = one.combine == Op::kMax ? std::max(result, value) : result + value;
    }
    if (one.combine == Op::kAverage) result /= static_cast<double>(ranks.size());
    bool whole = one.type == DataType::kInt64 || one.type == DataType::kUint8;
    expected.push_back(whole ? std::floor(result) : result);
  }
  return Encode(one.type, expected);
}

protocol::Operation ScatterOf(size_t number, const ScatterCase& one, uint32_t rank, int round,
                              Call& call) {
  std::vector<double> values(static_cast<size_t>(one.rows * one.columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = ScatterElement(rank, i, round);
  call.input = Encode(one.type, values);
  auto [begin, end] = ShareOf(one, rank);
  call.output.assign((end - begin) * SizeOf(one.type), std::byte{0xee});
  protocol::Operation operation =
      OperationOn("r" + std::to_string(number), Op::kReducescatter, one.type,
                  {one.rows, one.columns}, call.input, call.output);
  operation.spec.combine = one.combine;
  operation.spec.process_set = one.set;
  if (one.in_place) operation.output = call.input.data() + begin * SizeOf(one.type);
  return operation;
}

TEST_P(Rounds, ReducescatterGivesEachRankItsRows) {
  Start(4);
  AddSet(1, {1, 3, 0});
  const std::vector<ScatterCase> cases = ScatterCases();
  for (int round = 0; round < 3; ++round) {
    std::map<std::pair<size_t, uint32_t>, Call> calls;
    for (size_t c = 0; c < cases.size(); ++c) {
      for (uint32_t rank : kScatterSets[cases[c].set]) {
        Call& call = calls[{c, rank}];
        call.ticket = cluster->Submit(rank, ScatterOf(c, cases[c], rank, round, call));
      }
    }
    if (round == 1) MaybeKill(calls.begin()->second.ticket);
    for (auto& [key, call] : calls) {
      const ScatterCase& one = cases[key.first];
      const protocol::Outcome* outcome = call.ticket->Wait();
      ASSERT_NE(outcome, nullptr) << key.first;
      ASSERT_TRUE(outcome->status.ok()) << outcome->status.ToString();
      EXPECT_EQ(outcome->members, kScatterSets[one.set].size());
      auto [begin, end] = ShareOf(one, key.second);
      if (one.columns > 0) {
        EXPECT_EQ(outcome->rows * static_cast<uint64_t>(one.columns), end - begin);
      }
      Bytes got = call.output;
      if (one.in_place) {
        auto own = call.input.begin() + static_cast<ptrdiff_t>(begin * SizeOf(one.type));
        got.assign(own, own + static_cast<ptrdiff_t>(got.size()));
      }
      EXPECT_TRUE(got == Scattered(one, key.second, round))
          << "case " << key.first << ", rank " << key.second;
    }
  }
  cluster->LeaveInOrder();
}

// Returns the number of rows that go from one rank to another. Some ranks send nothing, some get
// nothing.
uint64_t RowsFrom(uint32_t from, uint32_t to, int round) {
  if (from == 1 && round % 2 == 0) return 0;
  if (to == 2 && round % 3 == 0) return 0;
  return (from * 7 + to * 5 + static_cast<uint64_t>(round)) % 9 * 40;
}

TEST_P(Rounds, AlltoallOfUnevenSplits) {
  constexpr uint64_t kColumns = 3;
  Start(4);
  AddSet(5, {0, 2, 3});
  const std::map<uint32_t, std::vector<uint32_t>> sets = {{0, {0, 1, 2, 3}}, {5, {0, 2, 3}}};
  auto element = [](uint32_t from, uint32_t to, uint64_t row, int round) {
    return static_cast<double>(from * 1000 + to * 100 + row % 100 + static_cast<uint64_t>(round));
  };
  for (int round = 0; round < 5; ++round) {
    std::map<std::pair<uint32_t, uint32_t>, Call> calls;
    for (const auto& [set, ranks] : sets) {
      for (uint32_t rank : ranks) {
        Call& call = calls[{set, rank}];
        std::vector<double> values;
        std::vector<uint64_t> splits;
        for (uint32_t to : ranks) {
          splits.push_back(round == 4 ? 6 : RowsFrom(rank, to, round));
          for (uint64_t row = 0; row < splits.back(); ++row) {
            values.insert(values.end(), kColumns, element(rank, to, row, round));
          }
        }
        call.input = Encode(DataType::kInt32, values);
        protocol::Operation operation =
            OperationOn("a" + std::to_string(set), Op::kAlltoall, DataType::kInt32,
                        {static_cast<int64_t>(kColumns)}, call.input, call.output);
        operation.rows = values.size() / kColumns;
        operation.spec.process_set = set;
        if (round != 4) operation.splits = splits;  // in the last round the parts are equal
        call.ticket = cluster->Submit(rank, operation);
      }
    }
    if (round == 2) MaybeKill(calls.begin()->second.ticket);
    for (auto& [key, call] : calls) {
      const auto& [set, rank] = key;
      const protocol::Outcome* outcome = call.ticket->Wait();
      ASSERT_NE(outcome, nullptr);
      ASSERT_TRUE(outcome->status.ok()) << outcome->status.ToString();
      std::vector<double> expected;
      std::vector<int64_t> received;
      for (uint32_t from : sets.at(set)) {
        uint64_t rows = round == 4 ? 6 : RowsFrom(from, rank, round);
        received.push_back(static_cast<int64_t>(rows));
        for (uint64_t row = 0; row < rows; ++row) {
          expected.insert(expected.end(), kColumns, element(from, rank, row, round));
        }
      }
      EXPECT_EQ(outcome->received_splits, received);
      EXPECT_EQ(outcome->rows * kColumns, expected.size());
      Bytes got(outcome->gathered.get(), outcome->gathered.get() + outcome->gathered_bytes);
      EXPECT_TRUE(got == Encode(DataType::kInt32, expected)) << "set " << set << ", rank " << rank;
    }
  }
  cluster->LeaveInOrder();
}

protocol::Operation JoinOf() {
  protocol::Operation operation;
  operation.name = "join";
  operation.spec.op = Op::kJoin;
  operation.spec.dtype = DataType::kInt64;
  return operation;
}

// Returns the number of steps for which rank r has data.
int StepsOf(uint32_t rank, int phase) { return 2 + static_cast<int>((rank * 3 + phase) % 4) * 2; }

constexpr uint32_t kJoiners = 4;
constexpr int64_t kJoinCount = 2000;
double StepValue(uint32_t rank, int step) { return (1 << rank) * (1 + step); }

// The part of a rank in a step. The last part belongs to a process set of ranks 0 to 2.
struct StepPart {
  const char* name;
  Op op;
  uint32_t set = 0;
};
constexpr StepPart kStepParts[] = {{"sum", Op::kSum},           {"average", Op::kAverage},
                                   {"max", Op::kMax},           {"gather", Op::kAllgather},
                                   {"barrier", Op::kBarrier},   {"scatter", Op::kReducescatter},
                                   {"exchange", Op::kAlltoall}, {"of a set", Op::kAverage, 1}};

protocol::Operation StepOf(const StepPart& part, uint32_t rank, int step, Call& call) {
  bool own_rows = part.op == Op::kAllgather || part.op == Op::kAlltoall;
  call.input = Encode(DataType::kFloat64, std::vector<double>(kJoinCount, StepValue(rank, step)));
  call.output = call.input;
  protocol::Operation operation =
      OperationOn(part.name, part.op, DataType::kFloat64, {kJoinCount}, call.input, call.output);
  operation.spec.process_set = part.set;
  if (part.op == Op::kBarrier) operation.spec.shape.clear();
  if (!own_rows) return operation;
  operation.spec.shape = {kJoinCount / kJoiners};
  operation.rows = kJoiners;
  return operation;
}

// Returns the result of all ranks that take part. `here`: the ranks that have not joined.
std::vector<double> StepResult(const StepPart& part, const std::vector<uint32_t>& here, int step) {
  double sum = 0;
  for (uint32_t rank : here) sum += part.set == 0 || rank <= 2 ? StepValue(rank, step) : 0;
  std::vector<double> rows;
  size_t count = kJoinCount / (part.op == Op::kAlltoall ? kJoiners : 1);
  for (uint32_t rank : here) rows.insert(rows.end(), count, StepValue(rank, step));
  switch (part.op) {
    case Op::kAverage: return std::vector<double>(kJoinCount, sum / (part.set == 0 ? kJoiners : 3));
    case Op::kMax: return std::vector<double>(kJoinCount, StepValue(here.back(), step));
    case Op::kReducescatter: return std::vector<double>(kJoinCount / kJoiners, sum);
    case Op::kAllgather:
    case Op::kAlltoall: return rows;
    case Op::kBarrier: return {};
    default: return std::vector<double>(kJoinCount, sum);
  }
}

void ExpectStep(const StepPart& part, Call& call, const std::vector<uint32_t>& here, int step,
                bool machines) {
  const protocol::Outcome* outcome = call.ticket->Wait();
  ASSERT_NE(outcome, nullptr) << part.name;
  ASSERT_TRUE(outcome->status.ok()) << outcome->status.ToString();
  Bytes got = call.output;
  if (outcome->gathered != nullptr) {
    got.assign(outcome->gathered.get(), outcome->gathered.get() + outcome->gathered_bytes);
  }
  Bytes expected = Encode(DataType::kFloat64, StepResult(part, here, step));
  got.resize(std::min(got.size(), expected.size()));
  EXPECT_TRUE(got == expected) << part.name << " in step " << step;
  // The receipt of a sum does not tell the ranks of a machine apart; sizes do.
  if (part.set == 0 && (!machines || outcome->gathered != nullptr)) {
    EXPECT_EQ(outcome->members, here.size());
  }
}

TEST_P(Rounds, RanksJoinAfterUnevenNumbersOfSteps) {
  Start(kJoiners);
  AddSet(1, {0, 1, 2});
  for (int phase = 0; phase < 3; ++phase) {
    std::vector<TicketRef> joins(kJoiners);
    int steps = 0;
    for (uint32_t rank = 0; rank < kJoiners; ++rank) steps = std::max(steps, StepsOf(rank, phase));
    for (int step = 0; step <= steps; ++step) {
      std::vector<uint32_t> here;
      for (uint32_t rank = 0; rank < kJoiners; ++rank) {
        if (step < StepsOf(rank, phase)) here.push_back(rank);
        if (step == StepsOf(rank, phase)) joins[rank] = cluster->Submit(rank, JoinOf());
      }
      std::map<std::pair<const StepPart*, uint32_t>, Call> calls;
      for (const StepPart& part : kStepParts) {
        for (uint32_t rank : here) {
          // In a process set, all ranks of a machine join or none does.
          bool left_out = part.set != 0 && (rank > 2 || HasMachines(medium()));
          if (left_out) continue;
          Call& call = calls[{&part, rank}];
          call.ticket = cluster->Submit(rank, StepOf(part, rank, step, call));
        }
      }
      if (phase == 1 && step == 3) MaybeKill(calls.begin()->second.ticket);
      for (auto& [key, call] : calls) {
        ExpectStep(*key.first, call, here, step, HasMachines(medium()));
      }
    }
    std::optional<uint64_t> last;
    for (const TicketRef& join : joins) {
      const protocol::Outcome* outcome = join->Wait();
      ASSERT_NE(outcome, nullptr);
      ASSERT_TRUE(outcome->status.ok()) << outcome->status.ToString();
      if (!last.has_value()) last = outcome->rows;
      EXPECT_EQ(outcome->rows, *last) << "the same on every rank";
    }
    ASSERT_LT(*last, kJoiners);
    EXPECT_EQ(StepsOf(static_cast<uint32_t>(*last), phase), steps);
  }
  cluster->LeaveInOrder();
}

TEST_P(Rounds, AJoinedRankIsNoRootAndBeginsNothing) {
  Start(3);
  Bytes data(400, std::byte{7});
  TicketRef early = cluster->Submit(1, JoinOf());
  TicketRef refused = cluster->Submit(1, Barrier("b"));
  EXPECT_EQ(refused->WaitStatus().code(), StatusCode::kInvalidArgument);
  std::vector<Bytes> outs(3, Bytes(400));
  std::vector<TicketRef> casts;
  for (uint32_t rank : {0u, 2u}) {
    casts.push_back(cluster->Submit(rank, Broadcast("from 1", 1, data, outs[rank])));
    casts.push_back(cluster->Submit(rank, Broadcast("from 0", 0, data, outs[rank])));
  }
  MaybeKill(casts[1]);
  for (size_t i : {size_t{0}, size_t{2}}) {
    Status ended = casts[i]->WaitStatus();
    EXPECT_EQ(ended.code(), StatusCode::kInvalidArgument) << ended.ToString();
    EXPECT_NE(ended.message().find("rank 1 has joined"), std::string::npos) << ended.message();
    EXPECT_TRUE(casts[i + 1]->WaitStatus().ok()) << casts[i + 1]->WaitStatus().ToString();
  }
  std::vector<TicketRef> joins = {cluster->Submit(0, JoinOf()), early};
  joins.push_back(cluster->Submit(2, JoinOf()));
  for (const TicketRef& join : joins) EXPECT_TRUE(join->WaitStatus().ok());
  std::vector<TicketRef> barriers;
  for (uint32_t rank : {0u, 1u, 2u}) barriers.push_back(cluster->Submit(rank, Barrier("b")));
  for (const TicketRef& barrier : barriers) EXPECT_TRUE(barrier->WaitStatus().ok());
  cluster->LeaveInOrder();
}

}  // namespace
}  // namespace byteps::cluster
