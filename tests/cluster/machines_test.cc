// Tests jobs with servers in which the ranks of each machine are one member.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

class Machines : public ::testing::Test {
 protected:
  static ClusterOptions Size(uint32_t workers, uint32_t machine_ranks, uint32_t servers) {
    ClusterOptions options;
    options.medium = Medium::kMachines;
    options.workers = workers;
    options.machine_ranks = machine_ranks;
    options.servers = servers;
    return options;
  }
  static Bytes Filled(double value, size_t count) {
    return Encode(DataType::kFloat32, std::vector<double>(count, value));
  }
  // Sums tensors in which rank r has r + 1 everywhere, and checks the sums.
  static void ExpectSums(Cluster& cluster, size_t count, const std::string& name) {
    const uint32_t workers = cluster.options().workers;
    std::vector<Bytes> data;
    for (uint32_t rank = 0; rank < workers; ++rank) data.push_back(Filled(rank + 1, count));
    std::vector<TicketRef> tickets;
    for (uint32_t rank = 0; rank < workers; ++rank) {
      tickets.push_back(cluster.Submit(rank, SumOf(name, data[rank])));
    }
    const Bytes expected = Filled(workers * (workers + 1) / 2, count);
    for (uint32_t rank = 0; rank < workers; ++rank) {
      ASSERT_TRUE(tickets[rank]->WaitStatus().ok()) << tickets[rank]->WaitStatus().ToString();
      EXPECT_TRUE(data[rank] == expected) << "rank " << rank;
    }
  }
};

struct Shape {
  uint32_t workers;
  uint32_t machine_ranks;
  uint32_t servers;
};

// A rank alone on its machine is a plain member, even if it is rank 0.
TEST_F(Machines, SumWhereMachinesHaveDifferentNumbersOfRanks) {
  for (const std::vector<uint32_t>& sizes :
       std::vector<std::vector<uint32_t>>{{2, 1}, {1, 2, 1}, {1, 3, 2}}) {
    const MachineLayout layout(sizes);
    ClusterOptions options = Size(static_cast<uint32_t>(layout.workers()), 1, 2);
    options.machine_sizes = sizes;
    Cluster cluster(options);
    Status started = cluster.Start();
    ASSERT_TRUE(started.ok()) << started.ToString();
    for (int use = 0; use < 3; ++use) ExpectSums(cluster, 100000, "sum");
    cluster.LeaveInOrder();
  }
}

// Tests 2 x 2, 2 x 4, 3 + 1, one machine, and 1 + 1 ranks.
TEST_F(Machines, SumOverMachinesOfAnyNumberOfRanks) {
  for (Shape shape :
       {Shape{4, 2, 1}, Shape{8, 4, 2}, Shape{4, 3, 1}, Shape{3, 3, 2}, Shape{2, 1, 1}}) {
    Cluster cluster(Size(shape.workers, shape.machine_ranks, shape.servers));
    Status started = cluster.Start();
    ASSERT_TRUE(started.ok()) << started.ToString();
    for (int use = 0; use < 3; ++use) ExpectSums(cluster, 100000, "sum");
    cluster.LeaveInOrder();
  }
}

// The sum adds the ranks of each machine in their order, then the machines.
TEST_F(Machines, TheBitsAreThoseOfSumsOfSums) {
  constexpr size_t kCount = 70000;
  const auto plus = [](const Bytes& a, const Bytes& b) {
    Bytes sum = a;
    auto* to = reinterpret_cast<float*>(sum.data());
    const auto* from = reinterpret_cast<const float*>(b.data());
    for (size_t i = 0; i < kCount; ++i) to[i] += from[i];
    return sum;
  };
  std::vector<Bytes> inputs;
  for (uint32_t rank = 0; rank < 4; ++rank) inputs.push_back(RandomFloats(kCount, rank));
  const Bytes expected = plus(plus(inputs[0], inputs[1]), plus(inputs[2], inputs[3]));
  ASSERT_FALSE(expected == plus(plus(plus(inputs[0], inputs[1]), inputs[2]), inputs[3]));
  for (uint32_t piece_bytes : {4096u, 262144u}) {
    for (uint32_t servers : {1u, 3u}) {
      ClusterOptions options = Size(4, 2, servers);
      options.piece_bytes_max = piece_bytes;
      options.lanes = {servers, 1};
      Cluster cluster(options);
      ASSERT_TRUE(cluster.Start().ok());
      std::vector<Bytes> data = inputs;
      std::vector<TicketRef> tickets;
      for (uint32_t rank : {3u, 1u, 0u, 2u}) {
        tickets.push_back(cluster.Submit(rank, SumOf("sum", data[rank])));
      }
      for (const TicketRef& ticket : tickets) ASSERT_TRUE(ticket->WaitStatus().ok());
      for (const Bytes& one : data) EXPECT_TRUE(one == expected);
      cluster.LeaveInOrder();
    }
  }
}

TEST_F(Machines, WhatARankHasNotBegunIsNotSent) {
  Cluster cluster(Size(4, 2, 1));
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<Bytes> data(4, Filled(1, 1000));
  std::vector<TicketRef> tickets;
  for (uint32_t rank : {0u, 1u, 2u}) {
    tickets.push_back(cluster.Submit(rank, SumOf("w", data[rank])));
  }
  ExpectSums(cluster, 1000, "another one");
  for (const TicketRef& ticket : tickets) EXPECT_EQ(ticket->completions(), 0);
  tickets.push_back(cluster.Submit(3, SumOf("w", data[3])));
  for (const TicketRef& ticket : tickets) EXPECT_TRUE(ticket->WaitStatus().ok());
  for (const Bytes& one : data) EXPECT_TRUE(one == Filled(4, 1000));
  cluster.LeaveInOrder();
}

// Ranks 2 and 3 are one member, or in turn 1 and 3; `victim` is one of them.
TEST_F(Machines, ARankThatDiesTakesItsMachineAlongAndTheOthersGoOn) {
  struct Case {
    Medium medium;
    uint32_t victim;
    uint32_t sibling;
    std::vector<uint32_t> others;
  };
  for (const Case& one : std::vector<Case>{{Medium::kMachines, 2, 3, {0, 1}},
                                           {Medium::kMachines, 3, 2, {0, 1}},
                                           {Medium::kInTurn, 1, 3, {0, 2}},
                                           {Medium::kInTurn, 3, 1, {0, 2}}}) {
    const uint32_t victim = one.victim;
    ClusterOptions options = Size(4, 2, 2);
    options.medium = one.medium;
    options.min_workers = 2;
    Cluster cluster(options);
    Status begun = cluster.Start();
    ASSERT_TRUE(begun.ok()) << begun.ToString();
    ExpectSums(cluster, 1000, "before");
    std::vector<Bytes> data(4, Filled(1, 50000));
    std::vector<TicketRef> tickets;
    for (uint32_t rank : {one.others[0], one.others[1], one.sibling}) {
      tickets.push_back(cluster.Submit(rank, SumOf("w", data[rank])));
    }
    cluster.KillWorker(victim);
    Status sibling = tickets[2]->WaitStatus();
    EXPECT_FALSE(sibling.ok());
    EXPECT_NE(sibling.message().find("worker " + std::to_string(victim)), std::string::npos)
        << sibling.ToString();
    for (size_t i : {0u, 1u}) {
      const protocol::Outcome* outcome = tickets[i]->Wait();
      ASSERT_NE(outcome, nullptr);
      ASSERT_TRUE(outcome->status.ok()) << outcome->status.ToString();
      EXPECT_EQ(outcome->members, 2u);
      EXPECT_TRUE(data[one.others[i]] == Filled(2, 50000));
    }
  }
}

TEST_F(Machines, ARankThatDiesEndsAJobThatNeedsAll) {
  Cluster cluster(Size(4, 2, 1));
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<Bytes> data(4, Filled(1, 50000));
  std::vector<TicketRef> tickets;
  for (uint32_t rank : {0u, 1u, 2u}) {
    tickets.push_back(cluster.Submit(rank, SumOf("w", data[rank])));
  }
  cluster.KillWorker(3);
  for (const TicketRef& ticket : tickets) {
    Status ended = ticket->WaitStatus();
    EXPECT_EQ(ended.code(), StatusCode::kPeerLost) << ended.ToString();
    // The coordinator may see the end of rank 2 first; rank 2 ends because rank 3 has.
    bool names_one = ended.message().find("worker 3") != std::string::npos ||
                     ended.message().find("worker 2") != std::string::npos;
    EXPECT_TRUE(names_one) << ended.ToString();
  }
  EXPECT_NE(tickets[2]->WaitStatus().message().find("worker 3"), std::string::npos);
}

// Rank 0 carries the others. It hears from the coordinator only when it is connected again, and the
// server hears later. Until then a rank that has gone must not look like a rank that left in order.
TEST_F(Machines, AllHearWhyARankHasGivenUp) {
  for (bool leaves_then : {false, true}) {
    ClusterOptions options = Size(3, 3, 1);
    options.alive_every = kPatience;  // the coordinator sees only the cut of rank 0
    options.grace = kPatience;        // rank 0 comes again, however late
    options.leave_limit = milliseconds(1);
    Cluster cluster(options);
    ASSERT_TRUE(cluster.Start().ok());
    ExpectSums(cluster, 1000, "sum");
    std::vector<Bytes> data(3, Filled(1, 1000));
    std::vector<TicketRef> tickets;
    for (uint32_t rank : {0u, 2u}) {
      tickets.push_back(cluster.Submit(rank, SumOf("sum", data[rank])));
    }
    auto server = std::make_shared<Gate>();
    auto coordinator = std::make_shared<Gate>();
    cluster.FreezeServerControl(0, server);
    cluster.FreezeCoordinator(coordinator);
    cluster.CutControl(0);
    cluster.engine(1).GiveUp("an exception ended it: no data");
    if (leaves_then) EXPECT_TRUE(cluster.engine(1).Leave());
    coordinator->Open();
    for (const TicketRef& ticket : tickets) {
      Status ended = ticket->WaitStatus();
      EXPECT_EQ(ended.code(), StatusCode::kPeerLost) << ended.ToString();
      EXPECT_NE(ended.message().find("an exception ended it: no data"), std::string::npos)
          << ended.ToString();
    }
    server->Open();
  }
}

// The coordinator stands still, so no view says meanwhile that rank 1 has left.
TEST_F(Machines, ARoundThatARankBeganBeforeItLeftEndsForTheRanksThatBeginItLater) {
  ClusterOptions options = Size(3, 3, 1);
  options.leave_limit = milliseconds(1);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  ExpectSums(cluster, 1000, "sum");
  auto coordinator = std::make_shared<Gate>();
  cluster.FreezeCoordinator(coordinator);
  std::vector<Bytes> data(3, Filled(1, 1000));
  TicketRef own = cluster.Submit(1, SumOf("sum", data[1]));
  EXPECT_TRUE(cluster.engine(1).Leave());
  EXPECT_EQ(own->WaitStatus().code(), StatusCode::kShutdown);
  for (uint32_t rank : {0u, 2u}) {
    Status ended = cluster.Submit(rank, SumOf("sum", data[rank]))->WaitStatus();
    EXPECT_NE(ended.message().find("worker 1"), std::string::npos) << ended.ToString();
  }
  coordinator->Open();
}

TEST_F(Machines, SeveralGenerationsWithTheSameServers) {
  Cluster cluster(Size(4, 2, 2));
  ASSERT_TRUE(cluster.Start().ok());
  for (int generation = 0; generation < 5; ++generation) {
    ExpectSums(cluster, 1000, "w");
    Status again = cluster.NextGeneration();
    ASSERT_TRUE(again.ok()) << again.ToString();
  }
  ExpectSums(cluster, 1000, "w");
  cluster.LeaveInOrder();
}

}  // namespace
}  // namespace byteps::cluster
