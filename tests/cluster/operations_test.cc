// Tests every operation, type and shape, through whole jobs.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "src/operations/row.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

using wire::Op;

constexpr Op kReductions[] = {Op::kSum, Op::kAverage, Op::kMin, Op::kMax, Op::kProduct};

class Operations : public ::testing::TestWithParam<Medium> {
 protected:
  ClusterOptions Size(uint32_t workers, uint32_t servers, uint32_t shards) {
    ClusterOptions options;
    options.medium = GetParam();
    options.workers = workers;
    options.servers = servers;
    options.shards = shards;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Media, Operations,
                         ::testing::Values(Medium::kTcp, Medium::kInproc, Medium::kWindow,
                                           Medium::kMachines, Medium::kInTurn),
                         [](const auto& medium) { return std::string(NameOf(medium.param)); });

// Returns values from 0 to 4. They are exact in every type, and so are all results of two of them.
std::vector<double> Contribution(DataType type, uint32_t rank, uint64_t round, size_t count) {
  std::vector<double> values(count);
  uint64_t modulus = type == DataType::kBool ? 2 : 5;
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<double>((i / (rank + 1) + 3 * rank + round) % modulus);
  }
  return values;
}

double Combined(Op op, DataType type, double a, double b) {
  bool integer = type != DataType::kFloat32 && type != DataType::kFloat64 &&
                 type != DataType::kFloat16 && type != DataType::kBfloat16;
  bool average = op == Op::kAverage && type != DataType::kBool;
  double result = 0;
  switch (op) {
    case Op::kSum:
    case Op::kAverage: result = a + b; break;
    case Op::kMin: result = std::min(a, b); break;
    case Op::kMax: result = std::max(a, b); break;
    default: result = a * b;
  }
  if (type == DataType::kBool) return result > 0 ? 1 : 0;
  if (average) result = integer ? std::floor(result / 2) : result / 2;
  return result;
}

// One tensor of one rank: its memory and its ticket.
struct Trial {
  DataType type;
  Op op;
  size_t count;
  bool in_place;
  Bytes input;
  Bytes output;
  TicketRef ticket;
};

std::vector<Trial> AllTrials() {
  std::vector<Trial> trials;
  for (int type = 0; type < kDataTypeCount; ++type) {
    for (Op op : kReductions) {
      for (size_t count : {size_t{0}, size_t{1}, size_t{1023}, size_t{5000}}) {
        bool in_place = (type + trials.size()) % 2 == 0;
        trials.push_back({static_cast<DataType>(type), op, count, in_place, {}, {}, nullptr});
      }
    }
  }
  return trials;
}

void SubmitAll(Cluster& cluster, uint32_t rank, uint64_t round, std::vector<Trial>& trials) {
  for (size_t i = 0; i < trials.size(); ++i) {
    Trial& trial = trials[i];
    trial.input = Encode(trial.type, Contribution(trial.type, rank, round, trial.count));
    trial.output.assign(trial.input.size(), std::byte{0xee});
    Bytes& target = trial.in_place ? trial.input : trial.output;
    trial.ticket =
        cluster.Submit(rank, OperationOn("trial " + std::to_string(i), trial.op, trial.type,
                                         {static_cast<int64_t>(trial.count)}, trial.input, target));
  }
}

void CheckAll(uint64_t round, std::vector<Trial>& trials) {
  for (Trial& trial : trials) {
    Status ended = trial.ticket->WaitStatus();
    ASSERT_TRUE(ended.ok()) << ended.ToString();
    std::vector<double> a = Contribution(trial.type, 0, round, trial.count);
    std::vector<double> b = Contribution(trial.type, 1, round, trial.count);
    std::vector<double> expected(trial.count);
    for (size_t i = 0; i < trial.count; ++i) {
      expected[i] = Combined(trial.op, trial.type, a[i], b[i]);
    }
    ASSERT_EQ(Decode(trial.type, trial.in_place ? trial.input : trial.output), expected)
        << operations::NameOf(trial.op) << " of " << trial.count << " " << NameOf(trial.type);
  }
}

TEST_P(Operations, EveryReductionOfEveryTypeInSeveralRounds) {
  ClusterOptions options = Size(2, 2, 2);
  options.piece_bytes_max = 4096;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<std::vector<Trial>> trials(2, AllTrials());
  for (uint64_t round = 1; round <= 3; ++round) {
    for (uint32_t rank = 0; rank < 2; ++rank) SubmitAll(cluster, rank, round, trials[rank]);
    for (uint32_t rank = 0; rank < 2; ++rank) CheckAll(round, trials[rank]);
    if (HasFatalFailure()) return;
  }
  cluster.LeaveInOrder();
}

TEST_P(Operations, OneWorkerAlone) {
  Cluster cluster(Size(1, 1, 2));
  ASSERT_TRUE(cluster.Start().ok());
  Bytes data = RandomFloats(100000, 1);
  Bytes before = data;
  EXPECT_TRUE(cluster.Submit(0, SumOf("a", data))->WaitStatus().ok());
  EXPECT_EQ(data, before);
  cluster.LeaveInOrder();
}

// A tensor without dimensions has one element. A tensor with a zero among its dimensions has none,
// and perhaps no memory.
TEST_P(Operations, TensorsWithoutDimensionsOrElements) {
  Cluster cluster(Size(3, 2, 1));
  ASSERT_TRUE(cluster.Start().ok());
  for (int round = 0; round < 3; ++round) {
    std::vector<TicketRef> tickets;
    std::vector<Bytes> scalars(3);
    Bytes none;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      scalars[rank] = Encode(DataType::kFloat32, {1.0 + rank});
      tickets.push_back(cluster.Submit(rank, OperationOn("scalar", Op::kAverage, DataType::kFloat32,
                                                         {}, scalars[rank], scalars[rank])));
      tickets.push_back(cluster.Submit(
          rank, OperationOn("empty", Op::kAverage, DataType::kInt32, {3, 0, 2}, none, none)));
      tickets.push_back(cluster.Submit(rank, Broadcast("empty broadcast", 1, none, none)));
      tickets.push_back(cluster.Submit(rank, Allgather("no rows", 0, 8, none)));
      tickets.push_back(cluster.Submit(rank, Allgather("rows of nothing", rank + 1, 0, none)));
    }
    for (const TicketRef& ticket : tickets) ASSERT_TRUE(ticket->WaitStatus().ok());
    for (const Bytes& scalar : scalars) {
      EXPECT_EQ(Decode(DataType::kFloat32, scalar), std::vector<double>{2});
    }
    for (size_t i = 4; i < tickets.size(); i += 5) EXPECT_EQ(tickets[i]->Wait()->rows, 6u);
  }
  cluster.LeaveInOrder();
}

TEST_P(Operations, BroadcastKeepsBitPatternsFromEveryRoot) {
  ClusterOptions options = Size(3, 2, 2);
  options.piece_bytes_max = 4096;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  for (uint32_t root = 0; root < 3; ++root) {
    for (bool in_place : {true, false}) {
      std::vector<Bytes> data;
      std::vector<Bytes> out;
      for (uint32_t rank = 0; rank < 3; ++rank) {
        data.push_back(RandomBits(50000, rank + 10 * root));
        out.emplace_back(50000);
      }
      Bytes expected = data[root];
      std::vector<TicketRef> tickets;
      std::string name = "from " + std::to_string(root) + (in_place ? " in place" : "");
      for (uint32_t rank = 0; rank < 3; ++rank) {
        Bytes& target = in_place ? data[rank] : out[rank];
        tickets.push_back(cluster.Submit(rank, Broadcast(name, root, data[rank], target)));
      }
      for (uint32_t rank = 0; rank < 3; ++rank) {
        ASSERT_TRUE(tickets[rank]->WaitStatus().ok());
        EXPECT_EQ(in_place ? data[rank] : out[rank], expected);
      }
    }
  }
  cluster.LeaveInOrder();
}

// The number of pieces changes from round to round, up and down.
TEST_P(Operations, AllgatherOfRowCountsThatDifferAndChange) {
  ClusterOptions options = Size(3, 2, 2);
  options.piece_bytes_max = 4096;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  constexpr uint64_t kRowsByRound[][3] = {{2000, 0, 700},  {1, 2, 3},    {0, 0, 0},
                                          {900, 900, 900}, {0, 4000, 1}, {2000, 0, 700}};
  for (const auto& rows : kRowsByRound) {
    std::vector<Bytes> data;
    Bytes expected;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      data.push_back(RandomBits(rows[rank] * 12, rank + 1));
      expected.insert(expected.end(), data[rank].begin(), data[rank].end());
    }
    std::vector<TicketRef> tickets;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      tickets.push_back(cluster.Submit(rank, Allgather("gather", rows[rank], 12, data[rank])));
    }
    for (const TicketRef& ticket : tickets) {
      Status ended = ticket->WaitStatus();
      ASSERT_TRUE(ended.ok()) << ended.ToString();
      const protocol::Outcome* outcome = ticket->Wait();
      EXPECT_EQ(outcome->rows, rows[0] + rows[1] + rows[2]);
      EXPECT_TRUE(std::ranges::equal(outcome->received_splits, rows));
      ASSERT_EQ(outcome->gathered_bytes, expected.size());
      if (expected.empty()) continue;
      EXPECT_EQ(std::memcmp(outcome->gathered.get(), expected.data(), expected.size()), 0);
    }
  }
  cluster.LeaveInOrder();
}

TEST_P(Operations, NobodyPassesABarrierBeforeAllHaveEntered) {
  Cluster cluster(Size(4, 1, 1));
  ASSERT_TRUE(cluster.Start().ok());
  for (int round = 1; round <= 10; ++round) {
    std::atomic<int> entered = 0;
    std::vector<TicketRef> tickets;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      entered.fetch_add(1);
      tickets.push_back(
          cluster.Submit(rank, Barrier("all here"), [&entered] { EXPECT_EQ(entered.load(), 4); }));
    }
    for (const TicketRef& ticket : tickets) ASSERT_TRUE(ticket->WaitStatus().ok());
  }
  cluster.LeaveInOrder();
}

// Submits small and large tensors, of different urgency, in another order on every rank and in
// every round.
TEST_P(Operations, ManyTensorsInFlight) {
  constexpr size_t kTensors = 600;
  Cluster cluster(Size(2, 2, 2));
  ASSERT_TRUE(cluster.Start().ok());
  std::mt19937 random(7);
  std::vector<size_t> order(kTensors);
  std::iota(order.begin(), order.end(), size_t{0});
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<Bytes>> data(2, std::vector<Bytes>(kTensors));
    std::vector<TicketRef> tickets;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      std::shuffle(order.begin(), order.end(), random);
      for (size_t i : order) {
        size_t count = i % 50 == 0 ? 100000 : 1 + i;
        data[rank][i] = Encode(DataType::kInt32, std::vector<double>(count, rank + 1.0 + i));
        protocol::Operation operation =
            OperationOn("tensor " + std::to_string(i), Op::kSum, DataType::kInt32,
                        {static_cast<int64_t>(count)}, data[rank][i], data[rank][i]);
        operation.priority = static_cast<int32_t>(i % 7);
        tickets.push_back(cluster.Submit(rank, std::move(operation)));
      }
    }
    for (const TicketRef& ticket : tickets) ASSERT_TRUE(ticket->WaitStatus().ok());
    for (size_t i = 0; i < kTensors; ++i) {
      size_t count = data[0][i].size() / sizeof(int32_t);
      ASSERT_EQ(data[0][i], Encode(DataType::kInt32, std::vector<double>(count, 3.0 + 2.0 * i)));
      ASSERT_EQ(data[1][i], data[0][i]);
    }
  }
  cluster.LeaveInOrder();
}

// Callbacks may submit, as training loops often do.
TEST_P(Operations, ACallbackSubmitsTheNextRound) {
  Cluster cluster(Size(2, 1, 1));
  ASSERT_TRUE(cluster.Start().ok());
  constexpr int kRounds = 50;
  struct Loop {
    Bytes data = Encode(DataType::kFloat32, std::vector<double>(3000, 1.0));
    int rounds = 0;
    Ticket done;
  };
  std::vector<Loop> loops(2);
  std::function<void(uint32_t)> submit = [&](uint32_t rank) {
    cluster.engine(rank).Submit(SumOf("w", loops[rank].data), [&, rank](protocol::Outcome outcome) {
      bool more = outcome.status.ok() && ++loops[rank].rounds < kRounds;
      if (more) return submit(rank);
      loops[rank].done.Complete(std::move(outcome));
    });
  };
  for (uint32_t rank = 0; rank < 2; ++rank) submit(rank);
  for (Loop& loop : loops) {
    EXPECT_TRUE(loop.done.WaitStatus().ok());
    EXPECT_EQ(loop.rounds, kRounds);
    EXPECT_EQ(Decode(DataType::kFloat32, loop.data)[2999], std::ldexp(1.0, kRounds));
  }
  cluster.LeaveInOrder();
}

}  // namespace
}  // namespace byteps::cluster
