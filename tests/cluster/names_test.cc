// Tests names. A name is taken until its operation has ended; then all ranks together may use it
// for something else. If one rank differs, all ranks get an error.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

using wire::Op;

class Names : public ::testing::TestWithParam<Medium> {
 protected:
  ClusterOptions Size(uint32_t workers, uint32_t servers = 2) {
    ClusterOptions options;
    options.medium = GetParam();
    options.workers = workers;
    options.servers = servers;
    return options;
  }

  // One use of "x": its value and its shape.
  struct Use {
    Op op = Op::kSum;
    size_t count = 1000;
    DataType type = DataType::kFloat32;
    uint32_t process_set = 0;
  };

  TicketRef Submit(Cluster& cluster, uint32_t rank, const Use& use) {
    memory_.push_back(
        std::make_unique<Bytes>(Encode(use.type, std::vector<double>(use.count, rank + 1.0))));
    Bytes& data = *memory_.back();
    auto shape = static_cast<int64_t>(use.count);
    protocol::Operation operation = OperationOn("x", use.op, use.type, {shape}, data, data);
    operation.spec.process_set = use.process_set;
    return cluster.Submit(rank, std::move(operation));
  }

  // Makes the same call on all ranks.
  void ExpectWorks(Cluster& cluster, const Use& use, uint32_t ranks) {
    std::vector<TicketRef> tickets;
    size_t first = memory_.size();
    for (uint32_t rank = 0; rank < ranks; ++rank) tickets.push_back(Submit(cluster, rank, use));
    double sum = ranks * (ranks + 1) / 2.0;
    double value = use.op == Op::kSum ? sum : use.op == Op::kMax ? ranks : sum / ranks;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      Status ended = tickets[rank]->WaitStatus();
      ASSERT_TRUE(ended.ok()) << ended.ToString();
      EXPECT_EQ(*memory_[first + rank], Encode(use.type, std::vector<double>(use.count, value)));
    }
  }

  // Makes another call on rank 0 than on the others.
  void ExpectMismatch(Cluster& cluster, const Use& odd, const Use& rest, uint32_t ranks) {
    std::vector<TicketRef> tickets;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      tickets.push_back(Submit(cluster, rank, rank == 0 ? odd : rest));
    }
    std::string text = tickets[0]->WaitStatus().message();
    EXPECT_NE(text.find("rank 0 has"), std::string::npos) << text;
    for (const TicketRef& ticket : tickets) {
      EXPECT_EQ(ticket->WaitStatus().code(), StatusCode::kMismatch)
          << ticket->WaitStatus().ToString();
      EXPECT_EQ(ticket->WaitStatus().message(), text);
    }
  }

  // Makes synchronous calls of names, by rank, like a process with one thread. Returns each rank's
  // ends in their order; after an error a rank makes no more calls.
  std::vector<std::vector<Status>> Call(Cluster& cluster,
                                        const std::vector<std::vector<std::string>>& names) {
    std::vector<std::vector<Status>> ends(names.size());
    std::vector<std::thread> ranks;
    for (uint32_t rank = 0; rank < names.size(); ++rank) {
      ranks.emplace_back([&, rank] {
        for (const std::string& name : names[rank]) {
          Bytes data = Encode(DataType::kFloat32, std::vector<double>(10, rank + 1.0));
          protocol::Operation operation =
              OperationOn(name, Op::kSum, DataType::kFloat32, {10}, data, data);
          TicketRef ticket = cluster.Submit(rank, std::move(operation));
          cluster.engine(rank).SetStuck(name);
          ends[rank].push_back(ticket->WaitStatus());
          cluster.engine(rank).SetStuck("");
          if (!ends[rank].back().ok()) return;
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
    return ends;
  }

  // Expects that the last call of each rank ends in the same mismatch, and the calls before in
  // order.
  void ExpectCircle(Cluster& cluster, const std::vector<std::vector<std::string>>& names,
                    const std::vector<size_t>& good) {
    std::vector<std::vector<Status>> ends = Call(cluster, names);
    std::string text = ends[0].back().message();
    for (size_t rank = 0; rank < names.size(); ++rank) {
      ASSERT_EQ(ends[rank].size(), good[rank] + 1) << rank;
      EXPECT_EQ(ends[rank].back().code(), StatusCode::kOutOfStep) << ends[rank].back().ToString();
      EXPECT_EQ(ends[rank].back().message(), text);
    }
    EXPECT_NE(text.find("ranks wait for each other: rank"), std::string::npos) << text;
    EXPECT_NE(text.find("has not begun"), std::string::npos) << text;
  }

  // Returns when all open operations have been reported as overdue. To do so it makes ranks wait
  // for each other: they get an error, and that takes reports of operations that are younger.
  void LetAllBeOverdue(Cluster& cluster, uint32_t ranks) {
    std::vector<std::vector<std::string>> names(ranks, {"one way"});
    names[0] = {"another way"};
    ExpectCircle(cluster, names, std::vector<size_t>(ranks, 0));
  }

  std::vector<std::unique_ptr<Bytes>> memory_;
};

INSTANTIATE_TEST_SUITE_P(Media, Names,
                         ::testing::Values(Medium::kTcp, Medium::kInproc, Medium::kWindow,
                                           Medium::kMachines, Medium::kInTurn),
                         [](const auto& medium) { return std::string(NameOf(medium.param)); });

TEST_P(Names, ANameMayStandForSomethingElseEachTime) {
  Cluster cluster(Size(3));
  ASSERT_TRUE(cluster.Start().ok());
  const Use uses[] = {{Op::kSum},
                      {Op::kAverage},
                      {Op::kSum},
                      {Op::kSum, 40000},
                      {Op::kSum, 1},
                      {Op::kSum, 1, DataType::kInt64},
                      {Op::kMax, 1000, DataType::kInt32}};
  for (int time = 0; time < 4; ++time) {
    for (const Use& use : uses) {
      ExpectWorks(cluster, use, 3);
      if (HasFatalFailure()) return;
    }
  }
  cluster.LeaveInOrder();
}

TEST_P(Names, WhoGoesBackToAnotherOldSpecIsToldInTime) {
  Cluster cluster(Size(3));
  ASSERT_TRUE(cluster.Start().ok());
  for (int time = 0; time < 2; ++time) {
    ExpectWorks(cluster, {Op::kSum}, 3);
    ExpectWorks(cluster, {Op::kAverage}, 3);
    ExpectMismatch(cluster, {Op::kSum}, {Op::kAverage}, 3);
    ExpectWorks(cluster, {Op::kAverage}, 3);
    ExpectMismatch(cluster, {Op::kAverage}, {Op::kSum, 7}, 3);  // an old use, a new use
    if (HasFatalFailure()) return;
  }
  ExpectWorks(cluster, {Op::kSum}, 3);
  cluster.LeaveInOrder();
}

TEST_P(Names, ARankThatIsLateIsNoMismatch) {
  Cluster cluster(Size(2));
  ASSERT_TRUE(cluster.Start().ok());
  ExpectWorks(cluster, {Op::kSum}, 2);
  ExpectWorks(cluster, {Op::kAverage}, 2);
  for (const Use& use : {Use{Op::kSum}, Use{Op::kMax}}) {
    TicketRef early = Submit(cluster, 0, use);
    LetAllBeOverdue(cluster, 2);
    EXPECT_EQ(early->completions(), 0);
    TicketRef late = Submit(cluster, 1, use);
    EXPECT_TRUE(early->WaitStatus().ok()) << early->WaitStatus().ToString();
    EXPECT_TRUE(late->WaitStatus().ok());
  }
  cluster.LeaveInOrder();
}

// Rank 0 uses the name among all ranks, the others in a process set with the same ranks or with
// fewer.
TEST_P(Names, RanksInDifferentProcessSetsAreTold) {
  Cluster cluster(Size(3));
  ASSERT_TRUE(cluster.Start().ok());
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(cluster.engine(rank).AddProcessSet(1, {0, 1}).ok());
    ASSERT_TRUE(cluster.engine(rank).AddProcessSet(2, {0, 1, 2}).ok());
  }
  const Use pair{Op::kSum, 1000, DataType::kFloat32, 1};
  const Use same{Op::kSum, 1000, DataType::kFloat32, 2};
  for (int time = 0; time < 2; ++time) {
    ExpectMismatch(cluster, {Op::kSum}, same, 3);
    ExpectWorks(cluster, {Op::kSum}, 3);
    ExpectWorks(cluster, same, 3);
    ExpectWorks(cluster, pair, 2);
    TicketRef third = Submit(cluster, 2, {Op::kSum});
    ExpectMismatch(cluster, {Op::kSum}, pair, 2);
    EXPECT_EQ(third->WaitStatus().code(), StatusCode::kMismatch);
    ExpectWorks(cluster, pair, 2);
    ExpectWorks(cluster, {Op::kSum}, 3);
    if (HasFatalFailure()) return;
  }
  cluster.LeaveInOrder();
}

// Both process sets use the name at the same time, without an error.
TEST_P(Names, DisjointProcessSetsHaveANameEach) {
  Cluster cluster(Size(4));
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<TicketRef> tickets;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(cluster.engine(rank).AddProcessSet(1, {0, 1}).ok());
    ASSERT_TRUE(cluster.engine(rank).AddProcessSet(2, {2, 3}).ok());
  }
  for (uint32_t rank : {2u, 0u, 1u, 3u}) {
    size_t count = rank < 2 ? 10 : 20;
    uint32_t process_set = rank < 2 ? 1 : 2;
    tickets.push_back(Submit(cluster, rank, {Op::kSum, count, DataType::kFloat32, process_set}));
    LetAllBeOverdue(cluster, 4);  // the first ranks of both sets have said that they wait
  }
  for (const TicketRef& ticket : tickets) EXPECT_TRUE(ticket->WaitStatus().ok());
  cluster.LeaveInOrder();
}

TEST_P(Names, AnotherNumberOfCallsIsTold) {
  Cluster cluster(Size(2));
  ASSERT_TRUE(cluster.Start().ok());
  for (int time = 0; time < 2; ++time) {
    ExpectCircle(cluster, {{"x", "x", "x", "end"}, {"x", "x", "end"}}, {2, 2});
    ExpectWorks(cluster, {Op::kSum}, 2);
    if (HasFatalFailure()) return;
  }
  cluster.LeaveInOrder();
}

TEST_P(Names, AnotherOrderOfCallsIsTold) {
  Cluster cluster(Size(3));
  ASSERT_TRUE(cluster.Start().ok());
  for (int time = 0; time < 2; ++time) {
    ExpectCircle(cluster, {{"x", "y"}, {"y", "x"}, {"x", "y"}}, {0, 0, 0});
    ExpectWorks(cluster, {Op::kSum}, 3);
    if (HasFatalFailure()) return;
  }
  cluster.LeaveInOrder();
}

// A rank that has begun all that others wait for makes nobody wait, in whatever order it waits
// itself.
TEST_P(Names, RanksThatBeginAllAndThenWaitAreNoCircle) {
  Cluster cluster(Size(2));
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<std::vector<std::string>> names = {{"x", "y", "z"}, {"z", "y", "x"}};
  std::map<std::string, Bytes> data[2];
  std::map<std::string, TicketRef> tickets[2];
  for (size_t i = 0; i < 3; ++i) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const std::string& name = names[rank][i];
      Bytes& own = data[rank][name] = Bytes(40);
      tickets[rank][name] =
          cluster.Submit(rank, OperationOn(name, Op::kSum, DataType::kFloat32, {10}, own, own));
    }
    LetAllBeOverdue(cluster, 2);
  }
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      for (const std::string& name : names[rank]) {
        cluster.engine(rank).SetStuck(name);
        Status ended = tickets[rank][name]->WaitStatus();
        EXPECT_TRUE(ended.ok()) << ended.ToString();
        cluster.engine(rank).SetStuck("");
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  cluster.LeaveInOrder();
}

// The others are stuck in one operation after another, for long each time.
TEST_P(Names, ARankThatIsLateIsInNoCircle) {
  Cluster cluster(Size(3));
  ASSERT_TRUE(cluster.Start().ok());
  std::thread late([&] {
    for (const char* name : {"x", "y", "x"}) {
      std::this_thread::sleep_for(4 * kOverdueAfter);  // tidy-allow(sleep): lateness
      Bytes data(40);
      TicketRef ticket =
          cluster.Submit(2, OperationOn(name, Op::kSum, DataType::kFloat32, {10}, data, data));
      cluster.engine(2).SetStuck(name);
      EXPECT_TRUE(ticket->WaitStatus().ok()) << ticket->WaitStatus().ToString();
      cluster.engine(2).SetStuck("");
    }
  });
  for (const std::vector<Status>& ends : Call(cluster, {{"x", "y", "x"}, {"x", "y", "x"}})) {
    for (const Status& end : ends) EXPECT_TRUE(end.ok()) << end.ToString();
  }
  late.join();
  cluster.LeaveInOrder();
}

// A rank that has joined misses uses of the name, and mistakes, too.
TEST_P(Names, RanksThatHadJoinedCountAsTheOthersDo) {
  Cluster cluster(Size(3));
  ASSERT_TRUE(cluster.Start().ok());
  auto join = [&](uint32_t rank) {
    protocol::Operation operation;
    operation.name = "join";
    operation.spec.op = Op::kJoin;
    return cluster.Submit(rank, std::move(operation));
  };
  for (int time = 0; time < 2; ++time) {
    ExpectWorks(cluster, {Op::kSum}, 3);
    std::vector<TicketRef> joins = {join(2)};
    ExpectWorks(cluster, {Op::kMax}, 2);
    ExpectWorks(cluster, {Op::kSum}, 2);
    ExpectMismatch(cluster, {Op::kSum}, {Op::kMax}, 2);
    ExpectMismatch(cluster, {Op::kSum}, {Op::kMax, 5}, 2);
    ExpectWorks(cluster, {Op::kSum, 7}, 2);
    joins.push_back(join(0));
    joins.push_back(join(1));
    for (const TicketRef& ticket : joins) {
      ASSERT_TRUE(ticket->WaitStatus().ok()) << ticket->WaitStatus().ToString();
    }
    ExpectWorks(cluster, {Op::kSum, 7}, 3);
    ExpectMismatch(cluster, {Op::kSum}, {Op::kSum, 7}, 3);
    if (HasFatalFailure()) return;
  }
  ExpectWorks(cluster, {Op::kSum}, 3);
  cluster.LeaveInOrder();
}

TEST_P(Names, ServersMayDieInBetween) {
  if (GetParam() == Medium::kWindow) GTEST_SKIP() << "it has no servers";
  ClusterOptions options = Size(2, 3);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  for (uint32_t server = 0; server < 2; ++server) {
    ExpectWorks(cluster, {Op::kSum}, 2);
    ExpectWorks(cluster, {Op::kAverage, 50000}, 2);
    TicketRef early = Submit(cluster, 0, {Op::kSum});
    cluster.KillServer(server);
    TicketRef late = Submit(cluster, 1, {Op::kSum});
    EXPECT_TRUE(early->WaitStatus().ok());
    EXPECT_TRUE(late->WaitStatus().ok());
    ExpectWorks(cluster, {Op::kAverage, 50000}, 2);
    ExpectMismatch(cluster, {Op::kSum}, {Op::kAverage, 50000}, 2);
    if (HasFatalFailure()) return;
  }
  ExpectWorks(cluster, {Op::kSum}, 2);
  cluster.LeaveInOrder();
}

TEST_P(Names, ACoordinatorThatIsStartedAgainFindsWhoIsStuck) {
  if (GetParam() == Medium::kWindow) GTEST_SKIP() << "it has no coordinator";
  ClusterOptions options = Size(2);
  options.silence_end = seconds(10);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  ExpectWorks(cluster, {Op::kSum}, 2);
  Bytes first(40), second(40);
  auto stick = [&](uint32_t rank, const char* name, Bytes& data) {
    TicketRef ticket =
        cluster.Submit(rank, OperationOn(name, Op::kSum, DataType::kFloat32, {10}, data, data));
    cluster.engine(rank).SetStuck(name);
    return ticket;
  };
  TicketRef a = stick(0, "a", first);
  std::this_thread::sleep_for(3 * kOverdueAfter);  // tidy-allow(sleep): its report goes out
  cluster.KillCoordinator();
  TicketRef b = stick(1, "b", second);
  ASSERT_TRUE(cluster.RestartCoordinator().ok());
  EXPECT_EQ(a->WaitStatus().code(), StatusCode::kOutOfStep) << a->WaitStatus().ToString();
  EXPECT_EQ(b->WaitStatus().code(), StatusCode::kOutOfStep) << b->WaitStatus().ToString();
  ExpectWorks(cluster, {Op::kSum}, 2);
  cluster.LeaveInOrder();
}

TEST_P(Names, ACoordinatorThatIsStartedAgainFindsThemToo) {
  if (GetParam() == Medium::kWindow) GTEST_SKIP() << "it has no coordinator";
  ClusterOptions options = Size(2);
  options.silence_end = seconds(10);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  for (int time = 0; time < 2; ++time) {
    ExpectWorks(cluster, {Op::kSum}, 2);
    ExpectWorks(cluster, {Op::kAverage}, 2);
    TicketRef odd = Submit(cluster, 0, {Op::kSum});
    cluster.KillCoordinator();
    TicketRef other = Submit(cluster, 1, {Op::kAverage});
    ASSERT_TRUE(cluster.RestartCoordinator().ok());
    EXPECT_EQ(odd->WaitStatus().code(), StatusCode::kMismatch);
    EXPECT_EQ(other->WaitStatus().code(), StatusCode::kMismatch);
    if (HasFatalFailure()) return;
  }
  ExpectWorks(cluster, {Op::kSum}, 2);
  cluster.LeaveInOrder();
}

}  // namespace
}  // namespace byteps::cluster
