// Tests ranks that disagree about a tensor: each rank gets one error, which names both sides.
#include <gtest/gtest.h>

#include "src/operations/row.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

using wire::Op;

constexpr uint32_t kWorkers = 3;

// The way in which a rank's idea of a tensor differs.
struct Difference {
  const char* what;
  Op op = Op::kSum;
  DataType type = DataType::kFloat32;
  std::vector<int64_t> shape = {60, 50};
  uint32_t root = 0;
};

protocol::Operation OperationOf(const Difference& side, Bytes& data) {
  protocol::Operation operation = OperationOn("w", side.op, side.type, side.shape, data, data);
  operation.spec.root = side.root;
  return operation;
}

class Mismatch : public ::testing::TestWithParam<Medium> {
 protected:
  ClusterOptions Options() {
    ClusterOptions options;
    options.medium = GetParam();
    options.workers = kWorkers;
    options.servers = 2;
    options.shards = 2;
    return options;
  }

  // Expects a mismatch if rank `odd` uses `theirs`, and the others `ours`.
  void ExpectMismatch(Cluster& cluster, uint32_t odd, const Difference& ours,
                      const Difference& theirs) {
    std::vector<Bytes> data(kWorkers, Bytes(3000 * 8));
    std::vector<TicketRef> tickets;
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      tickets.push_back(cluster.Submit(rank, OperationOf(rank == odd ? theirs : ours, data[rank])));
    }
    for (const TicketRef& ticket : tickets) {
      Status ended = ticket->WaitStatus();
      ASSERT_EQ(ended.code(), StatusCode::kMismatch) << theirs.what << ": " << ended.ToString();
      Bytes unused;
      std::string mine = operations::Describe(OperationOf(ours, unused).spec);
      std::string other = operations::Describe(OperationOf(theirs, unused).spec);
      EXPECT_NE(mine, other);
      for (const std::string& part :
           {std::string("'w'"), "rank " + std::to_string(odd) + " has " + other, mine}) {
        EXPECT_NE(ended.message().find(part), std::string::npos)
            << ended.message() << " lacks " << part;
      }
    }
  }

  // `shape` has 3000 elements, or is empty for a flat tensor of `count`.
  void ExpectSum(Cluster& cluster, const std::string& name, size_t count,
                 const std::vector<int64_t>& shape = {}) {
    std::vector<Bytes> data;
    std::vector<TicketRef> tickets;
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      data.push_back(Encode(DataType::kFloat32, std::vector<double>(count, rank + 1.0)));
    }
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      protocol::Operation operation = SumOf(name, data[rank]);
      if (!shape.empty()) operation.spec.shape = shape;
      tickets.push_back(cluster.Submit(rank, std::move(operation)));
    }
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      Status ended = tickets[rank]->WaitStatus();
      ASSERT_TRUE(ended.ok()) << ended.ToString();
      EXPECT_EQ(data[rank], Encode(DataType::kFloat32, std::vector<double>(count, 6)));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Media, Mismatch,
                         ::testing::Values(Medium::kTcp, Medium::kInproc, Medium::kWindow,
                                           Medium::kMachines, Medium::kInTurn),
                         [](const auto& medium) { return std::string(NameOf(medium.param)); });

TEST_P(Mismatch, EveryRankIsToldWhateverDiffersAndTheNameWorksAgain) {
  Cluster cluster(Options());
  ASSERT_TRUE(cluster.Start().ok());
  const Difference ours{"nothing"};
  const Difference others[] = {
      {"shape", Op::kSum, DataType::kFloat32, {50, 60}},
      {"rank of the shape", Op::kSum, DataType::kFloat32, {3000}},
      {"element count", Op::kSum, DataType::kFloat32, {1}},
      {"type", Op::kSum, DataType::kInt32},
      {"size of the type", Op::kSum, DataType::kFloat64},
      {"operation", Op::kAverage},
      {"kind of operation", Op::kAllgather},
  };
  for (const Difference& theirs : others) {
    for (uint32_t odd = 0; odd < kWorkers; ++odd) {
      ExpectMismatch(cluster, odd, ours, theirs);
      if (HasFatalFailure()) return;
    }
    ExpectSum(cluster, "w", 3000, ours.shape);
    ExpectSum(cluster, "w", 3000, ours.shape);
  }
  cluster.LeaveInOrder();
}

TEST_P(Mismatch, EveryRankIsToldOfAnotherRoot) {
  Cluster cluster(Options());
  ASSERT_TRUE(cluster.Start().ok());
  const Difference ours{"nothing", Op::kBroadcast};
  Difference theirs{"root", Op::kBroadcast};
  theirs.root = 2;
  for (uint32_t odd = 0; odd < kWorkers; ++odd) ExpectMismatch(cluster, odd, ours, theirs);
  ExpectSum(cluster, "w", 3000);
  cluster.LeaveInOrder();
}

// All three ranks differ; the error names the first two sides that are known.
TEST_P(Mismatch, ThreeOpinionsAreOneMismatch) {
  Cluster cluster(Options());
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<Bytes> data(kWorkers, Bytes(4000));
  for (int attempt = 0; attempt < 5; ++attempt) {
    std::vector<TicketRef> tickets;
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      Difference side{"length", Op::kSum, DataType::kInt8, {10 + rank}};
      tickets.push_back(cluster.Submit(rank, OperationOf(side, data[rank])));
    }
    std::string text = tickets[0]->WaitStatus().message();
    for (const TicketRef& ticket : tickets) {
      EXPECT_EQ(ticket->WaitStatus().code(), StatusCode::kMismatch);
      EXPECT_EQ(ticket->WaitStatus().message(), text);
    }
  }
  ExpectSum(cluster, "w", 1000);
  cluster.LeaveInOrder();
}

// A tensor was good for two rounds, and changes on one rank in the third. The pushes of the other
// ranks are queued, on their way, and already at the servers. Their memory is freed with the
// operation.
TEST_P(Mismatch, ALaterRoundWithPushesUnderWay) {
  constexpr size_t kCount = size_t{2} << 20;
  ClusterOptions options = Options();
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  for (uint32_t odd = 0; odd < kWorkers; ++odd) {
    std::string name = "big " + std::to_string(odd);
    ExpectSum(cluster, name, kCount);
    ExpectSum(cluster, name, kCount);
    std::vector<Bytes> data(kWorkers, Bytes(kCount * sizeof(float), std::byte{1}));
    Bytes bystander = Encode(DataType::kFloat32, std::vector<double>(100, 1));
    std::vector<TicketRef> tickets(kWorkers);
    auto submit = [&](uint32_t rank, protocol::Operation operation) {
      tickets[rank] = cluster.Submit(rank, std::move(operation), [&data, rank] {
        data[rank] = Bytes();  // as a user may do when the operation has ended
      });
    };
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      if (rank != odd) submit(rank, SumOf(name, data[rank]));
    }
    data[odd].resize(kCount);
    submit(odd, SumOf(name, data[odd]));
    for (const TicketRef& ticket : tickets) {
      Status ended = ticket->WaitStatus();
      EXPECT_EQ(ended.code(), StatusCode::kMismatch) << ended.ToString();
    }
    ExpectSum(cluster, name, kCount / 2);
    ExpectSum(cluster, name, kCount / 2);
    if (HasFatalFailure()) return;
  }
  cluster.LeaveInOrder();
}

// One rank is a round ahead: it has begun the third round. Another rank, still in the second, will
// break the declaration with its third.
TEST_P(Mismatch, HitsTheRoundThatDiffersAndNoEarlierOne) {
  constexpr size_t kCount = 300000;
  Cluster cluster(Options());
  ASSERT_TRUE(cluster.Start().ok());
  ExpectSum(cluster, "w", kCount);
  std::vector<Bytes> good(kWorkers);
  std::vector<Bytes> bad(kWorkers, Bytes(4 * kCount));
  std::vector<TicketRef> rounds[2];
  rounds[0].resize(kWorkers);
  rounds[1].resize(kWorkers);
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    good[rank] = Encode(DataType::kFloat32, std::vector<double>(kCount, rank + 1.0));
    rounds[0][rank] = cluster.Submit(rank, SumOf("w", good[rank]));
  }
  for (uint32_t rank : {2u, 0u, 1u}) {
    ASSERT_TRUE(rounds[0][rank]->WaitStatus().ok());
    protocol::Operation operation = SumOf("w", bad[rank]);
    if (rank == 2) operation.spec.op = Op::kMax;
    rounds[1][rank] = cluster.Submit(rank, std::move(operation));
  }
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    EXPECT_EQ(good[rank], Encode(DataType::kFloat32, std::vector<double>(kCount, 6)));
    EXPECT_EQ(rounds[1][rank]->WaitStatus().code(), StatusCode::kMismatch);
  }
  ExpectSum(cluster, "w", kCount);
  cluster.LeaveInOrder();
}

}  // namespace
}  // namespace byteps::cluster
