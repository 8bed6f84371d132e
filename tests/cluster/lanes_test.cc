// Tests workers with several lanes, each with a thread of its own: what goes on while one lane
// stands still, ends or breaks. The other files test jobs of several lanes without such trouble.
#include <gtest/gtest.h>

#include <string>
#include <system_error>
#include <vector>

#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

constexpr size_t kLaneFloats = 300000;

class Lanes : public ::testing::TestWithParam<Medium> {
 protected:
  ClusterOptions Size(uint32_t workers, uint32_t servers, const std::vector<uint32_t>& lanes) {
    ClusterOptions options;
    options.medium = GetParam();
    options.workers = workers;
    options.servers = servers;
    options.shards = 2;
    options.lanes = lanes;
    return options;
  }

  static Bytes Ones() { return Encode(DataType::kFloat32, std::vector<double>(kLaneFloats, 1)); }
  static void ExpectSums(Cluster& cluster, const std::vector<uint32_t>& ranks, int count,
                         const std::string& name = "sum ") {
    for (int i = 0; i < count; ++i) {
      std::vector<Bytes> data(ranks.size(), Ones());
      std::vector<TicketRef> tickets;
      for (size_t at = 0; at < ranks.size(); ++at) {
        tickets.push_back(cluster.Submit(ranks[at], SumOf(name + std::to_string(i % 3), data[at])));
      }
      for (const TicketRef& ticket : tickets) {
        ASSERT_TRUE(ticket->WaitStatus().ok()) << ticket->WaitStatus().ToString();
      }
      Bytes expected = Encode(DataType::kFloat32,
                              std::vector<double>(kLaneFloats, static_cast<double>(ranks.size())));
      for (const Bytes& one : data) EXPECT_TRUE(one == expected) << i;
    }
  }

  // Waits until this rank's engine ends new operations with `code`. The operations have no name, so
  // they never begin.
  static bool WaitUntilOver(Cluster& cluster, uint32_t rank, StatusCode code) {
    Bytes data(16);
    auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      if (cluster.Submit(rank, SumOf("", data))->WaitStatus().code() == code) return true;
    }
    return false;
  }
};

INSTANTIATE_TEST_SUITE_P(Media, Lanes, ::testing::Values(Medium::kTcp, Medium::kInproc),
                         [](const auto& medium) { return std::string(NameOf(medium.param)); });

TEST_P(Lanes, MayBeMoreThanThereAreShards) {
  Cluster cluster(Size(3, 1, {16, 1, 2}));
  ASSERT_TRUE(cluster.Start().ok());
  ExpectSums(cluster, {0, 1, 2}, 5);
  cluster.LeaveInOrder();
}

TEST_P(Lanes, PiecesMoveBetweenThemWhenServersComeAndGo) {
  Cluster cluster(Size(3, 3, {3, 2, 1}));
  ASSERT_TRUE(cluster.Start().ok());
  for (uint32_t time = 0; time < 4; ++time) {
    std::vector<std::vector<Bytes>> data(3, std::vector<Bytes>(10, Ones()));
    std::vector<TicketRef> tickets;
    for (size_t i = 0; i < 10; ++i) {
      for (uint32_t rank = 0; rank < 3; ++rank) {
        tickets.push_back(cluster.Submit(rank, SumOf("moved " + std::to_string(i), data[rank][i])));
      }
    }
    ASSERT_NE(tickets[0]->Wait(), nullptr);
    cluster.KillServer(time);
    if (time % 2 == 0) {
      ASSERT_NE(tickets[15]->Wait(), nullptr);
    }
    cluster.RestartServer();
    for (const TicketRef& ticket : tickets) ASSERT_TRUE(ticket->WaitStatus().ok());
    Bytes expected = Encode(DataType::kFloat32, std::vector<double>(kLaneFloats, 3));
    for (const auto& of_rank : data) {
      for (const Bytes& one : of_rank) EXPECT_TRUE(one == expected);
    }
  }
  ExpectSums(cluster, {0, 1, 2}, 3);
  cluster.LeaveInOrder();
}

// The lane may be in the middle of reading or writing the memory.
TEST_P(Lanes, MemoryIsBorrowedWhileOneOfThemStandsStill) {
  Cluster cluster(Size(2, 2, {1, 3}));
  ASSERT_TRUE(cluster.Start().ok());
  ExpectSums(cluster, {0, 1}, 1);
  std::vector<Bytes> data(4, Ones());
  std::vector<TicketRef> tickets;
  for (size_t i = 0; i < data.size(); ++i) {
    tickets.push_back(cluster.Submit(1, SumOf("sum " + std::to_string(i), data[i])));
  }
  auto gate = std::make_shared<Gate>();
  cluster.FreezeLane(1, 2, gate);
  cluster.KillWorker(0);
  ASSERT_TRUE(WaitUntilOver(cluster, 1, StatusCode::kPeerLost));
  EXPECT_EQ(tickets[0]->completions(), 0);
  gate->Open();
  for (const TicketRef& ticket : tickets) {
    EXPECT_EQ(ticket->WaitStatus().code(), StatusCode::kPeerLost)
        << ticket->WaitStatus().ToString();
  }
}

// If the worker's connections closed before its leave is sent, the others would take it for lost.
TEST_P(Lanes, WhoLeavesWhileOneOfThemStandsStillIsNotTakenForLost) {
  ClusterOptions options = Size(3, 2, {1, 1, 3});
  options.leave_limit = options.end_limit = milliseconds(50);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<Bytes> data(3, Ones());
  TicketRef mine = cluster.Submit(2, SumOf("mine", data[2]));
  std::vector<TicketRef> others;
  for (uint32_t rank : {0u, 1u}) others.push_back(cluster.Submit(rank, SumOf("w", data[rank])));
  auto gate = std::make_shared<Gate>();
  cluster.FreezeLane(2, 1, gate);
  EXPECT_FALSE(cluster.engine(2).Leave());
  EXPECT_EQ(mine->completions(), 0);
  gate->Open();
  EXPECT_EQ(mine->WaitStatus().code(), StatusCode::kShutdown);
  for (const TicketRef& ticket : others) {
    Status ended = ticket->WaitStatus();
    EXPECT_NE(ended.message().find("worker 2 has left the job"), std::string::npos)
        << ended.ToString();
  }
  cluster.LeaveInOrder();
}

// However an operation ends, bytes on their way to its memory go nowhere.
TEST_P(Lanes, NothingIsWrittenBehindTheEndOfAnOperation) {
  for (int how = 0; how < 5; ++how) {
    const Bytes pattern = RandomBits(kLaneFloats * sizeof(float), 7);
    std::vector<Bytes> data(40, Ones());
    {
      ClusterOptions options = Size(2, how == 1 ? 1 : 2, {3, 2});
      options.coordinator_patience = milliseconds(100);
      options.server_patience = milliseconds(100);
      Cluster cluster(options);
      ASSERT_TRUE(cluster.Start().ok());
      std::vector<TicketRef> tickets;
      for (size_t i = 0; i < data.size(); ++i) {
        auto name = "w " + std::to_string(i / 2);
        tickets.push_back(cluster.Submit(static_cast<uint32_t>(i % 2), SumOf(name, data[i]),
                                         [&data, &pattern, i] { data[i] = pattern; }));
      }
      ASSERT_NE(tickets[0]->Wait(), nullptr);  // in the middle of the operations
      if (how == 0) cluster.engine(1).Leave();
      if (how == 1) cluster.KillServer(0);
      if (how == 2) cluster.KillCoordinator();
      if (how == 3) cluster.KillWorker(1);
      if (how == 4) cluster.BreakLane(1, 1);
      for (size_t i = 0; i < tickets.size(); ++i) EXPECT_NE(tickets[i]->Wait(), nullptr) << how;
    }
    for (size_t i = 0; i < data.size(); ++i) EXPECT_TRUE(data[i] == pattern) << how << " " << i;
  }
}

TEST_P(Lanes, WhatOneOfThemThrowsEndsTheWorkerAndTheOthersGoOn) {
  for (uint32_t broken : {0u, 2u}) {
    ClusterOptions options = Size(3, 2, {1, 3, 2});
    options.min_workers = 2;
    Cluster cluster(options);
    ASSERT_TRUE(cluster.Start().ok());
    ExpectSums(cluster, {0, 1, 2}, 1);
    std::vector<Bytes> data(10, Ones());
    std::vector<TicketRef> tickets;
    for (size_t i = 0; i < data.size(); ++i) {
      tickets.push_back(cluster.Submit(1, SumOf("sum " + std::to_string(i), data[i])));
    }
    cluster.BreakLane(1, broken);
    for (const TicketRef& ticket : tickets) {
      Status ended = ticket->WaitStatus();
      EXPECT_EQ(ended.code(), StatusCode::kExhausted) << ended.ToString();
      EXPECT_NE(ended.message().find("network thread"), std::string::npos) << ended.message();
    }
    EXPECT_EQ(cluster.Submit(1, SumOf("late", data[0]))->WaitStatus().code(),
              StatusCode::kExhausted);
    EXPECT_TRUE(cluster.engine(1).Leave());
    EXPECT_FALSE(cluster.engine(1).RemoveProcessSet(1).ok());
    // A sum that the worker had begun may contain what it pushed.
    ExpectSums(cluster, {0, 2}, 4, "without it ");
  }
}

TEST_P(Lanes, WhatAShardThrowsEndsItsServerAndTheOthersGoOn) {
  Cluster cluster(Size(2, 2, {1, 2}));
  ASSERT_TRUE(cluster.Start().ok());
  ExpectSums(cluster, {0, 1}, 1);
  cluster.BreakShard(1, 0);
  Status ended = cluster.ServerEnd(1);
  EXPECT_EQ(ended.code(), StatusCode::kExhausted) << ended.ToString();
  EXPECT_NE(ended.message().find("no memory for what the workers push"), std::string::npos);
  ExpectSums(cluster, {0, 1}, 3);
}

// A transport that can make only `count` loops. Lanes are made with the worker.
class FewLoops final : public transport::Transport {
 public:
  FewLoops(std::shared_ptr<transport::Transport> shared, int count)
      : shared_(std::move(shared)), left_(count) {}
  std::unique_ptr<transport::Loop> MakeLoop() override {
    if (left_-- == 0) {
      throw std::system_error(std::make_error_code(std::errc::too_many_files_open));
    }
    return shared_->MakeLoop();
  }

 private:
  const std::shared_ptr<transport::Transport> shared_;
  int left_;
};

TEST_P(Lanes, AWorkerThatCannotHaveThemSaysSo) {
  Cluster cluster(Size(1, 1, {3}));
  ASSERT_TRUE(cluster.StartServices().ok());
  auto few = std::make_unique<FewLoops>(cluster.transport(), 2);
  Result<runtime::StartedEngine> started =
      runtime::StartWorkerEngine(std::move(few), cluster.WorkerOptions(0), cluster.log());
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.status().code(), StatusCode::kExhausted) << started.status().ToString();
}

}  // namespace
}  // namespace byteps::cluster
