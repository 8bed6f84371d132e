// Tests operations and jobs that end otherwise: refused submissions, leaving, and the loss of any
// process. Cluster's destructor checks that each operation ended exactly once.
#include <gtest/gtest.h>

#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

constexpr size_t kFloats = 300000;

class Endings : public ::testing::TestWithParam<Setting> {
 protected:
  ClusterOptions Size(uint32_t workers, uint32_t servers) {
    ClusterOptions options;
    options.medium = GetParam().medium;
    options.lanes = GetParam().lanes;
    options.workers = workers;
    options.servers = servers;
    options.shards = 2;
    return options;
  }

  // Submits operations of all ranks, and operations of this rank alone. Some operations are under
  // way, others not begun.
  std::vector<TicketRef> SubmitHalf(Cluster& cluster, uint32_t rank, std::vector<Bytes>& data) {
    std::vector<TicketRef> tickets;
    data.assign(20, Bytes(kFloats * sizeof(float)));
    for (size_t i = 0; i < data.size(); ++i) {
      std::string name = i % 2 == 0 ? "all " + std::to_string(i)
                                    : "only " + std::to_string(rank) + " " + std::to_string(i);
      tickets.push_back(cluster.Submit(rank, SumOf(name, data[i])));
    }
    return tickets;
  }

  void ExpectLost(const std::vector<TicketRef>& tickets, const std::string& name) {
    size_t lost = 0;
    for (size_t i = 0; i < tickets.size(); ++i) {
      Status ended = tickets[i]->WaitStatus();
      if (ended.ok() && i % 2 == 0) continue;  // all ranks had pushed it
      ++lost;
      EXPECT_EQ(ended.code(), StatusCode::kPeerLost) << ended.ToString();
      EXPECT_NE(ended.message().find(name), std::string::npos) << ended.message();
    }
    EXPECT_GE(lost, tickets.size() / 2);
  }

  // Expects that the job is over: a later operation ends at once, with the same reason.
  void ExpectOver(Cluster& cluster, uint32_t rank, const std::string& name) {
    Bytes data(16);
    Status late = cluster.Submit(rank, SumOf("late", data))->WaitStatus();
    EXPECT_EQ(late.code(), StatusCode::kPeerLost) << late.ToString();
    EXPECT_NE(late.message().find(name), std::string::npos) << late.message();
  }
};

INSTANTIATE_TEST_SUITE_P(Media, Endings, ::testing::ValuesIn(kSettings),
                         [](const auto& setting) { return NameOf(setting.param); });

INSTANTIATE_TEST_SUITE_P(OneMachine, Endings, ::testing::Values(Setting{Medium::kWindow, {1}}));

INSTANTIATE_TEST_SUITE_P(Machines, Endings,
                         ::testing::Values(Setting{Medium::kMachines, {1}},
                                           Setting{Medium::kInTurn, {1}}),
                         [](const auto& setting) { return NameOf(setting.param); });

TEST_P(Endings, ANameInFlightIsRefusedAndTheFirstOneIsNotDisturbed) {
  Cluster cluster(Size(2, 1));
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<Bytes> data(3, Encode(DataType::kFloat32, std::vector<double>(10, 1)));
  TicketRef first = cluster.Submit(0, SumOf("w", data[0]));
  Status second = cluster.Submit(0, SumOf("w", data[1]))->WaitStatus();
  EXPECT_EQ(second.code(), StatusCode::kDuplicateName);
  EXPECT_NE(second.message().find("'w'"), std::string::npos);
  TicketRef other = cluster.Submit(1, SumOf("w", data[2]));
  EXPECT_TRUE(first->WaitStatus().ok());
  EXPECT_TRUE(other->WaitStatus().ok());
  EXPECT_EQ(data[0], Encode(DataType::kFloat32, std::vector<double>(10, 2)));
  EXPECT_EQ(data[1], Encode(DataType::kFloat32, std::vector<double>(10, 1)));
  cluster.LeaveInOrder();
}

TEST_P(Endings, ArgumentsThatAreWrongConcernTheirRankAlone) {
  Cluster cluster(Size(2, 1));
  ASSERT_TRUE(cluster.Start().ok());
  Bytes data(64);
  std::vector<protocol::Operation> wrong(4, SumOf("w", data));
  wrong[0].name = "";
  wrong[1].spec.shape = {-1};
  wrong[2].input = nullptr;
  wrong[3] = Broadcast("w", 2, data, data);
  for (protocol::Operation& operation : wrong) {
    EXPECT_EQ(cluster.Submit(0, std::move(operation))->WaitStatus().code(),
              StatusCode::kInvalidArgument);
  }
  TicketRef a = cluster.Submit(0, SumOf("w", data));
  Bytes others(64);
  TicketRef b = cluster.Submit(1, SumOf("w", others));
  EXPECT_TRUE(a->WaitStatus().ok());
  EXPECT_TRUE(b->WaitStatus().ok());
  cluster.LeaveInOrder();
}

TEST_P(Endings, WhatIsSubmittedAfterLeavingEndsAtOnce) {
  Cluster cluster(Size(2, 1));
  ASSERT_TRUE(cluster.Start().ok());
  cluster.engine(0).Leave();
  cluster.engine(0).Leave();
  Bytes data(64);
  TicketRef late = cluster.Submit(0, SumOf("w", data));
  EXPECT_EQ(late->completions(), 1);
  EXPECT_EQ(late->WaitStatus().code(), StatusCode::kShutdown);
  cluster.LeaveInOrder();
}

TEST_P(Endings, LeavingWithOperationsInFlightEndsThemEverywhere) {
  Cluster cluster(Size(3, 2));
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<std::vector<Bytes>> data(3);
  std::vector<std::vector<TicketRef>> tickets;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    tickets.push_back(SubmitHalf(cluster, rank, data[rank]));
  }
  std::vector<TicketRef> mine = SubmitHalf(cluster, 2, data[2]);
  cluster.engine(2).Leave();
  for (size_t i = 0; i < mine.size(); ++i) {
    EXPECT_EQ(mine[i]->completions(), 1);
    StatusCode code = mine[i]->WaitStatus().code();
    EXPECT_TRUE(code == StatusCode::kShutdown || (i % 2 == 0 && code == StatusCode::kOk));
  }
  for (const auto& others : tickets) ExpectLost(others, "worker 2");
  // The job itself goes on, to its end in order.
  cluster.LeaveInOrder();
}

// The leave of a worker is late, because its connection to the coordinator breaks. Until the
// coordinator knows of the leave, nobody sees the worker's other connections close.
TEST_P(Endings, WhoLeavesWithAnOperationOpenIsNotTakenForLost) {
  ClusterOptions options = Size(3, 2);
  options.grace = kPatience;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<Bytes> data(3, Bytes(kFloats * sizeof(float)));
  TicketRef mine = cluster.Submit(2, SumOf("mine", data[2]));
  std::vector<TicketRef> others;
  for (uint32_t rank : {0u, 1u}) others.push_back(cluster.Submit(rank, SumOf("w", data[rank])));
  cluster.CutControl(2);
  cluster.engine(2).Leave();
  EXPECT_EQ(mine->completions(), 1);
  EXPECT_EQ(mine->WaitStatus().code(), StatusCode::kShutdown);
  for (const TicketRef& ticket : others) {
    Status ended = ticket->WaitStatus();
    EXPECT_NE(ended.message().find("worker 2 has left the job"), std::string::npos)
        << ended.ToString();
  }
  cluster.LeaveInOrder();
}

// The user has the memory again when any of the calls returns. The call takes long, because the
// coordinator is away.
TEST_P(Endings, EveryLeaveWaitsUntilNothingIsOpen) {
  ClusterOptions options = Size(2, 1);
  options.grace = kPatience;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  Bytes data(kFloats * sizeof(float));
  TicketRef mine = cluster.Submit(1, SumOf("mine", data));
  cluster.CutControl(1);
  std::vector<std::future<int>> leaving;
  for (int i = 0; i < 4; ++i) {
    leaving.push_back(std::async(std::launch::async, [&] {
      EXPECT_TRUE(cluster.engine(1).Leave());
      return mine->completions();
    }));
  }
  for (auto& one : leaving) EXPECT_EQ(one.get(), 1);
  cluster.LeaveInOrder();
}

TEST_P(Endings, ALeaveThatTakesTooLongIsCutShort) {
  ClusterOptions options = Size(2, 1);
  options.leave_limit = milliseconds(1);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  Bytes data(kFloats * sizeof(float));
  TicketRef mine = cluster.Submit(1, SumOf("mine", data));
  cluster.CutControl(1);
  EXPECT_TRUE(cluster.engine(1).Leave());
  EXPECT_EQ(mine->completions(), 1);
  EXPECT_EQ(mine->WaitStatus().code(), StatusCode::kShutdown);
}

// Nobody can end the work that the worker's thread is in the middle of.
TEST_P(Endings, ALeaveSaysThatItsThreadStandsStill) {
  ClusterOptions options = Size(2, 1);
  options.leave_limit = options.end_limit = milliseconds(10);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  Bytes data(kFloats * sizeof(float));
  TicketRef mine = cluster.Submit(1, SumOf("mine", data));
  auto gate = std::make_shared<Gate>();
  cluster.FreezeWorker(1, gate);
  ASSERT_TRUE(gate->AwaitThread());
  EXPECT_FALSE(cluster.engine(1).Leave());
  EXPECT_FALSE(cluster.engine(1).Leave());
  EXPECT_EQ(mine->completions(), 0);
  gate->Open();
  EXPECT_EQ(mine->WaitStatus().code(), StatusCode::kShutdown);
}

// Operations that the loop has not looked at yet are open, too.
TEST_P(Endings, ALeaveAfterTheEndWaitsForWhatWasSubmittedMeanwhile) {
  Cluster cluster(Size(2, 1));
  ASSERT_TRUE(cluster.Start().ok());
  Bytes data(kFloats * sizeof(float));
  TicketRef early = cluster.Submit(0, SumOf("early", data));
  cluster.KillWorker(1);
  EXPECT_EQ(early->WaitStatus().code(), StatusCode::kPeerLost);
  std::vector<TicketRef> late;
  for (int i = 0; i < 1000; ++i) late.push_back(cluster.Submit(0, SumOf("late", data)));
  EXPECT_TRUE(cluster.engine(0).Leave());
  for (const TicketRef& ticket : late) EXPECT_EQ(ticket->completions(), 1);
}

TEST_P(Endings, AWorkerThatDiesIsNamedInEveryOperation) {
  if (GetParam().medium == Medium::kInTurn) {
    GTEST_SKIP() << "rank 0 goes with it, and may be named: machines_test.cc";
  }
  Cluster cluster(Size(3, 2));
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<std::vector<Bytes>> data(3);
  std::vector<std::vector<TicketRef>> tickets;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    tickets.push_back(SubmitHalf(cluster, rank, data[rank]));
  }
  SubmitHalf(cluster, 2, data[2]);
  cluster.KillWorker(2);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ExpectLost(tickets[rank], "worker 2");
    ExpectOver(cluster, rank, "worker 2");
  }
  if (GetParam().medium == Medium::kWindow) return;  // the window has no other processes
  EXPECT_EQ(cluster.CoordinatorEnd().code(), StatusCode::kPeerLost);
  EXPECT_EQ(cluster.ServerEnd(0).code(), StatusCode::kPeerLost);
}

TEST_P(Endings, TheLastServerThatDiesIsNamedInEveryOperation) {
  if (GetParam().medium == Medium::kWindow) GTEST_SKIP() << "it has no servers";
  ClusterOptions options = Size(2, 1);
  options.server_patience = milliseconds(100);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<std::vector<Bytes>> data(2);
  std::vector<std::vector<TicketRef>> tickets;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    tickets.push_back(SubmitHalf(cluster, rank, data[rank]));
  }
  cluster.KillServer(0);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ExpectLost(tickets[rank], "server 0");
    ExpectOver(cluster, rank, "server 0");
  }
  EXPECT_EQ(cluster.CoordinatorEnd().code(), StatusCode::kPeerLost);
}

TEST_P(Endings, ACoordinatorThatDoesNotComeBackIsNamedInEveryOperation) {
  if (GetParam().medium == Medium::kWindow) GTEST_SKIP() << "it has no coordinator";
  ClusterOptions options = Size(2, 2);
  options.coordinator_patience = milliseconds(100);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<std::vector<Bytes>> data(2);
  std::vector<std::vector<TicketRef>> tickets;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    tickets.push_back(SubmitHalf(cluster, rank, data[rank]));
  }
  cluster.KillCoordinator();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ExpectLost(tickets[rank], "coordinator");
    ExpectOver(cluster, rank, "BYTEPS_COORDINATOR_PATIENCE");
  }
  for (uint32_t server = 0; server < 2; ++server) {
    Status ended = cluster.ServerEnd(server);
    EXPECT_EQ(ended.code(), StatusCode::kPeerLost);
    EXPECT_NE(ended.message().find("coordinator"), std::string::npos) << ended.message();
  }
}

// The others have given up an operation that a rank does not start in time, and the rank hears so.
TEST_P(Endings, AnOperationThatTakesTooLongEndsOnEveryRank) {
  ClusterOptions options = Size(2, 2);
  options.operation_limit = seconds(2);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<Bytes> data(2, Bytes(kFloats * sizeof(float)));
  TicketRef early = cluster.Submit(0, SumOf("w", data[0]));
  TicketRef late = cluster.Submit(1, SumOf("w", data[1]));
  ASSERT_TRUE(early->WaitStatus().ok()) << early->WaitStatus().ToString();
  ASSERT_TRUE(late->WaitStatus().ok());
  early = cluster.Submit(0, SumOf("w", data[0]));
  Status ended = early->WaitStatus();
  EXPECT_EQ(ended.code(), StatusCode::kDeadlineExceeded) << ended.ToString();
  for (const char* text : {"rank 0 has waited", "tensor 'w', sum of", "nothing from rank 1"}) {
    EXPECT_NE(ended.message().find(text), std::string::npos) << ended.message();
  }
  late = cluster.Submit(1, SumOf("w", data[1]));
  EXPECT_EQ(late->WaitStatus(), ended);
  // The next operation works as usual.
  early = cluster.Submit(0, SumOf("w", data[0]));
  late = cluster.Submit(1, SumOf("w", data[1]));
  EXPECT_TRUE(early->WaitStatus().ok());
  EXPECT_TRUE(late->WaitStatus().ok());
  cluster.LeaveInOrder();
}

// Submits more operations than a worker gives up in one turn of its loop.
TEST_P(Endings, ManyOperationsThatTakeTooLongAllEnd) {
  ClusterOptions options = Size(2, 1);
  options.operation_limit = milliseconds(100);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<Bytes> data(1000, Bytes(16));
  std::vector<TicketRef> tickets;
  for (size_t i = 0; i < data.size(); ++i) {
    tickets.push_back(cluster.Submit(0, SumOf("w " + std::to_string(i), data[i])));
  }
  for (const TicketRef& ticket : tickets) {
    Status ended = ticket->WaitStatus();
    ASSERT_EQ(ended.code(), StatusCode::kDeadlineExceeded) << ended.ToString();
  }
  cluster.LeaveInOrder();
}

// The user has the memory again when an operation has ended, whatever was on its way.
TEST_P(Endings, MemoryIsFreeWhenAnOperationEnds) {
  const bool has_services = GetParam().medium != Medium::kWindow;
  for (int how = 0; how < (has_services ? 4 : 2); ++how) {
    ClusterOptions options = Size(2, how == 3 ? 1 : 2);
    options.coordinator_patience = milliseconds(100);
    options.server_patience = milliseconds(100);
    Cluster cluster(options);
    ASSERT_TRUE(cluster.Start().ok());
    std::vector<Bytes> data(40, Bytes(kFloats * sizeof(float)));
    std::vector<TicketRef> tickets;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      for (size_t i = rank; i < data.size(); i += 2) {
        tickets.push_back(cluster.Submit(rank, SumOf("w " + std::to_string(i / 2), data[i]),
                                         [&data, i] { data[i] = Bytes(); }));
      }
    }
    EXPECT_NE(tickets[0]->Wait(), nullptr);  // in the middle of the operations
    if (how == 0) cluster.engine(1).Leave();
    if (how == 1 && !has_services) cluster.KillWorker(1);
    if ((how == 1 || how == 3) && has_services) cluster.KillServer(0);
    if (how == 2) cluster.KillCoordinator();
    for (const TicketRef& ticket : tickets) EXPECT_NE(ticket->Wait(), nullptr);
  }
}

class Limits : public ::testing::TestWithParam<Medium> {
 protected:
  // Returns options with a limit that is long enough for some accounts of both ranks: before its
  // limit a rank must hear what the missing ranks do.
  ClusterOptions Limited() {
    ClusterOptions options;
    options.medium = GetParam();
    options.window_beats = true;
    options.operation_limit = seconds(8);
    return options;
  }
  static void ExpectLate(const Status& ended, std::initializer_list<const char*> texts) {
    EXPECT_EQ(ended.code(), StatusCode::kDeadlineExceeded) << ended.ToString();
    for (const char* text : texts) {
      EXPECT_NE(ended.message().find(text), std::string::npos) << ended.message();
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Media, Limits,
                         ::testing::Values(Medium::kTcp, Medium::kWindow, Medium::kMachines),
                         [](const auto& medium) { return NameOf(medium.param); });

TEST_P(Limits, EachRankOfACircleHearsOfBothSides) {
  Cluster cluster(Limited());
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<Bytes> data(2, Bytes(kFloats * sizeof(float)));
  TicketRef first = cluster.Submit(0, SumOf("a", data[0]));
  TicketRef second = cluster.Submit(1, SumOf("b", data[1]));
  ExpectLate(first->WaitStatus(),
             {"rank 0 has waited longer than the limit of 8 s (BYTEPS_OPERATION_TIMEOUT) for "
              "tensor 'a'",
              "rank 1 has not begun it: worker 1", "is in 'b' and waits for the sum there",
              "nothing from rank"});
  ExpectLate(second->WaitStatus(), {"rank 1 has waited", "tensor 'b'", "worker 0", "is in 'a'"});
  cluster.LeaveInOrder();
}

// Rank 0 lives, may have data for all that anybody knows, and does nothing.
TEST_P(Limits, AJoinDoesNotWaitForEverForARankThatDoesNothing) {
  Cluster cluster(Limited());
  ASSERT_TRUE(cluster.Start().ok());
  protocol::Operation join;
  join.name = "join";
  join.spec.op = wire::Op::kJoin;
  join.spec.dtype = DataType::kInt64;
  ExpectLate(cluster.Submit(1, std::move(join))->WaitStatus(),
             {"rank 1 has waited", "for tensor 'join'", "worker 0", "it is in its own program"});
  cluster.LeaveInOrder();
}

// Nobody sends anything else meanwhile, so no other event carries the news.
TEST(QuietJob, WhatTakesTooLongEnds) {
  ClusterOptions options;
  options.alive_every = 2 * kPatience;
  options.operation_limit = seconds(2);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<Bytes> data(2, Encode(DataType::kFloat32, std::vector<double>(10, 1)));
  Status ended = cluster.Submit(0, SumOf("w", data[0]))->WaitStatus();
  EXPECT_EQ(ended.code(), StatusCode::kDeadlineExceeded) << ended.ToString();
  EXPECT_EQ(cluster.Submit(1, SumOf("w", data[1]))->WaitStatus(), ended);
  cluster.LeaveInOrder();
}

}  // namespace
}  // namespace byteps::cluster
