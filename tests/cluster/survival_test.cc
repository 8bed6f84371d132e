// Tests jobs that go on: servers, workers, the coordinator and connections are lost in the middle
// of rounds, and some come back. Every sum is checked, bit by bit.
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <string>
#include <vector>

#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

constexpr size_t kElements = 100000;
constexpr size_t kTensors = 8;

// Returns the tag of a round. Worker s pushes 2^s times the tag, so a sum shows its members and its
// round; nothing rounds.
double TagOf(size_t tensor, int round) { return 1 + static_cast<double>(tensor + 10 * round); }
Bytes Push(uint32_t rank, double tag) {
  return Encode(DataType::kFloat32, std::vector<double>(kElements, tag * (1 << rank)));
}
Bytes SumOfRanks(const std::vector<uint32_t>& ranks, double tag) {
  double sum = 0;
  for (uint32_t rank : ranks) sum += tag * (1 << rank);
  return Encode(DataType::kFloat32, std::vector<double>(kElements, sum));
}

class Survival : public ::testing::TestWithParam<Setting> {
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

  // Returns options with a short wait of a restarted coordinator for workers that may come back,
  // before it ends the job.
  ClusterOptions SizeForRestarts(uint32_t workers, uint32_t servers) {
    ClusterOptions options = Size(workers, servers);
    options.silence_end = seconds(10);
    return options;
  }

  // A round of all tensors on some ranks.
  struct Round {
    std::vector<uint32_t> ranks;
    std::vector<std::vector<Bytes>> data;  // by place in ranks, by tensor
    std::vector<std::vector<TicketRef>> tickets;
    std::vector<double> tags;
  };

  static Round Begin(Cluster& cluster, const std::vector<uint32_t>& ranks, int number,
                     const std::string& prefix = "w ") {
    Round round;
    round.ranks = ranks;
    round.data.resize(ranks.size());
    round.tickets.resize(ranks.size());
    for (size_t i = 0; i < kTensors; ++i) round.tags.push_back(TagOf(i, number));
    for (size_t at = 0; at < ranks.size(); ++at) {
      for (double tag : round.tags) round.data[at].push_back(Push(ranks[at], tag));
      for (size_t i = 0; i < kTensors; ++i) {
        round.tickets[at].push_back(
            cluster.Submit(ranks[at], SumOf(prefix + std::to_string(i), round.data[at][i])));
      }
    }
    return round;
  }

  static void ExpectFull(const Round& round, const std::vector<uint32_t>& members) {
    for (size_t at = 0; at < round.ranks.size(); ++at) {
      for (size_t i = 0; i < kTensors; ++i) {
        const protocol::Outcome* outcome = round.tickets[at][i]->Wait();
        ASSERT_NE(outcome, nullptr) << "rank " << round.ranks[at] << ", tensor " << i;
        ASSERT_TRUE(outcome->status.ok()) << outcome->status.ToString();
        EXPECT_EQ(outcome->members, members.size());
        EXPECT_FALSE(outcome->mixed);
        EXPECT_TRUE(round.data[at][i] == SumOfRanks(members, round.tags[i]))
            << "rank " << round.ranks[at] << ", tensor " << i;
      }
    }
  }

  static void ExpectRounds(Cluster& cluster, const std::vector<uint32_t>& ranks, int from, int to,
                           const std::string& prefix = "w ") {
    for (int number = from; number < to; ++number) {
      Round round = Begin(cluster, ranks, number, prefix);
      ExpectFull(round, ranks);
      if (HasFatalFailure()) return;
    }
  }

  static void WaitForFirst(const Round& round) { ASSERT_NE(round.tickets[0][0]->Wait(), nullptr); }
};

INSTANTIATE_TEST_SUITE_P(Media, Survival, ::testing::ValuesIn(kSettings),
                         [](const auto& setting) { return NameOf(setting.param); });

INSTANTIATE_TEST_SUITE_P(Rdma, Survival, ::testing::Values(Setting{Medium::kRdma, {1}}));

INSTANTIATE_TEST_SUITE_P(Machines, Survival,
                         ::testing::Values(Setting{Medium::kMachines, {1}},
                                           Setting{Medium::kMachines, {2, 1, 3}}),
                         [](const auto& one) { return NameOf(one.param); });

TEST_P(Survival, AServerThatDiesInTheMiddleOfARoundIsNotMissed) {
  Cluster cluster(Size(3, 2));
  ASSERT_TRUE(cluster.Start().ok());
  ExpectRounds(cluster, {0, 1, 2}, 0, 2);
  Round round = Begin(cluster, {0, 1, 2}, 2);
  WaitForFirst(round);
  cluster.KillServer(0);
  ExpectFull(round, {0, 1, 2});
  ExpectRounds(cluster, {0, 1, 2}, 3, 6);
  ExpectRounds(cluster, {0, 1, 2}, 0, 2, "new ");
  cluster.LeaveInOrder();
}

TEST_P(Survival, TwoServersThatDieAtOnceAreNotMissed) {
  Cluster cluster(Size(2, 4));
  ASSERT_TRUE(cluster.Start().ok());
  Round round = Begin(cluster, {0, 1}, 0);
  WaitForFirst(round);
  cluster.KillServer(1);
  cluster.KillServer(3);
  ExpectFull(round, {0, 1});
  ExpectRounds(cluster, {0, 1}, 1, 4);
  cluster.LeaveInOrder();
}

// The worker gets its own reason, not the reason that it was silent.
TEST_P(Survival, AWorkerThatGivesUpIsNotMissed) {
  ClusterOptions options = Size(3, 1);
  options.min_workers = 2;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  ExpectRounds(cluster, {0, 1, 2}, 0, 1);
  Round alone = Begin(cluster, {2}, 1);
  cluster.engine(2).GiveUp("an exception ended it: no data");
  const Status told = alone.tickets[0][0]->WaitStatus();
  EXPECT_EQ(told.code(), StatusCode::kEvicted) << told.ToString();
  EXPECT_NE(told.message().find("no data"), std::string::npos) << told.message();
  EXPECT_EQ(told.message().find("silent"), std::string::npos) << told.message();
  ExpectRounds(cluster, {0, 1}, 1, 3, "of two ");
  cluster.LeaveInOrder();
}

// Each element of a round in which a member was lost is a sum with the member or without it. All
// survivors have the same sum, and the receipt says which.
TEST_P(Survival, AWorkerThatDiesIsInASumOrNotTheSameForAll) {
  ClusterOptions options = Size(3, 2);
  options.min_workers = 2;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  ExpectRounds(cluster, {0, 1, 2}, 0, 2);
  Round doomed = Begin(cluster, {2}, 2);
  Round round = Begin(cluster, {0, 1}, 2);
  WaitForFirst(round);
  cluster.KillWorker(2);
  for (size_t i = 0; i < kTensors; ++i) {
    const protocol::Outcome* first = round.tickets[0][i]->Wait();
    const protocol::Outcome* second = round.tickets[1][i]->Wait();
    ASSERT_TRUE(first != nullptr && second != nullptr);
    ASSERT_TRUE(first->status.ok()) << first->status.ToString();
    ASSERT_TRUE(second->status.ok()) << second->status.ToString();
    EXPECT_TRUE(round.data[0][i] == round.data[1][i]) << i;
    EXPECT_EQ(first->members, second->members);
    EXPECT_EQ(first->mixed, second->mixed);
    size_t with = 0;
    for (double value : Decode(DataType::kFloat32, round.data[0][i])) {
      if (value == 7 * round.tags[i])
        ++with;
      else
        ASSERT_EQ(value, 3 * round.tags[i]) << i;
    }
    EXPECT_EQ(first->members, with == kElements ? 3U : 2U);
    EXPECT_EQ(first->mixed, with != 0 && with != kElements);
  }
  ExpectRounds(cluster, {0, 1}, 3, 5);
  std::vector<Bytes> data = {Push(0, 6), Push(1, 6)};
  std::vector<TicketRef> averages;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    averages.push_back(
        cluster.Submit(rank, OperationOn("average", wire::Op::kAverage, DataType::kFloat32,
                                         {kElements}, data[rank], data[rank])));
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(averages[rank]->WaitStatus().ok()) << averages[rank]->WaitStatus().ToString();
    EXPECT_TRUE(data[rank] ==
                Encode(DataType::kFloat32, std::vector<double>(kElements, (6.0 + 12.0) / 2)));
  }
  cluster.LeaveInOrder();
}

TEST_P(Survival, AWorkerTooManyEndsTheJobWithItsName) {
  if (GetParam().medium == Medium::kMachines) {
    GTEST_SKIP() << "ranks of a machine come and go together: machines_test.cc";
  }
  ClusterOptions options = Size(3, 1);
  options.min_workers = 2;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  cluster.KillWorker(1);
  ExpectRounds(cluster, {0, 2}, 0, 2);
  Round round = Begin(cluster, {0}, 2);
  cluster.KillWorker(2);
  for (const TicketRef& ticket : round.tickets[0]) {
    Status ended = ticket->WaitStatus();
    EXPECT_EQ(ended.code(), StatusCode::kPeerLost) << ended.ToString();
    EXPECT_NE(ended.message().find("worker 2"), std::string::npos) << ended.message();
  }
  EXPECT_EQ(cluster.CoordinatorEnd().code(), StatusCode::kPeerLost);
}

TEST_P(Survival, TheOnlyServerIsStartedAgain) {
  Cluster cluster(Size(2, 1));
  ASSERT_TRUE(cluster.Start().ok());
  ExpectRounds(cluster, {0, 1}, 0, 2);
  Round round = Begin(cluster, {0, 1}, 2);
  WaitForFirst(round);
  cluster.KillServer(0);
  Round late = Begin(cluster, {0, 1}, 0, "late ");
  cluster.RestartServer();
  ExpectFull(round, {0, 1});
  ExpectFull(late, {0, 1});
  ExpectRounds(cluster, {0, 1}, 3, 5);
  cluster.LeaveInOrder();
}

TEST_P(Survival, AServerThatIsStartedAgainTakesItsPiecesBack) {
  Cluster cluster(Size(3, 2));
  ASSERT_TRUE(cluster.Start().ok());
  for (int time = 0; time < 3; ++time) {
    Round round = Begin(cluster, {0, 1, 2}, 10 * time);
    WaitForFirst(round);
    cluster.KillServer(time == 0 ? 0 : static_cast<uint32_t>(time) + 1);
    ExpectFull(round, {0, 1, 2});
    ExpectRounds(cluster, {0, 1, 2}, 10 * time + 1, 10 * time + 3);
    round = Begin(cluster, {0, 1, 2}, 10 * time + 3);
    cluster.RestartServer();
    ExpectFull(round, {0, 1, 2});
    ExpectRounds(cluster, {0, 1, 2}, 10 * time + 4, 10 * time + 6);
    if (HasFatalFailure()) return;
  }
  cluster.LeaveInOrder();
}

TEST_P(Survival, StepsDoNotNoticeThatTheCoordinatorIsAway) {
  Cluster cluster(SizeForRestarts(2, 2));
  ASSERT_TRUE(cluster.Start().ok());
  ExpectRounds(cluster, {0, 1}, 0, 2);
  Round round = Begin(cluster, {0, 1}, 2);
  cluster.KillCoordinator();
  ExpectFull(round, {0, 1});
  ExpectRounds(cluster, {0, 1}, 3, 6);
  // New names wait, because nobody can declare them now.
  Round fresh = Begin(cluster, {0, 1}, 0, "fresh ");
  ASSERT_TRUE(cluster.RestartCoordinator().ok());
  ExpectFull(fresh, {0, 1});
  ExpectRounds(cluster, {0, 1}, 6, 8);
  ExpectRounds(cluster, {0, 1}, 0, 2, "later ");
  cluster.LeaveInOrder();
}

// Otherwise the new coordinator would find the places of the workers taken when they come again.
TEST_P(Survival, WhoLeavesWhileTheCoordinatorIsAwayTellsTheNextOne) {
  ClusterOptions options = SizeForRestarts(2, 1);
  options.leave_limit = seconds(1);  // by then they have noticed
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  ExpectRounds(cluster, {0, 1}, 0, 2);
  cluster.KillCoordinator();
  std::vector<std::future<bool>> leaving;
  for (uint32_t worker : {0, 1}) {
    leaving.push_back(
        std::async(std::launch::async, [&, worker] { return cluster.engine(worker).Leave(); }));
  }
  for (auto& one : leaving) {
    EXPECT_EQ(one.wait_for(milliseconds(1200)), std::future_status::timeout);
  }
  ASSERT_TRUE(cluster.RestartCoordinator().ok());
  for (auto& one : leaving) EXPECT_TRUE(one.get());
  ASSERT_TRUE(cluster.NextGeneration().ok());
  ExpectRounds(cluster, {0, 1}, 0, 2);
  cluster.LeaveInOrder();
}

TEST_P(Survival, ACoordinatorThatIsStartedAgainKnowsEveryMistakeToo) {
  Cluster cluster(SizeForRestarts(2, 1));
  ASSERT_TRUE(cluster.Start().ok());
  for (int time = 0; time < 3; ++time) {
    std::vector<Bytes> data(2, Bytes(64));
    TicketRef a = cluster.Submit(0, SumOf("odd", data[0]));
    data[1].resize(128);
    TicketRef b = cluster.Submit(1, SumOf("odd", data[1]));
    EXPECT_EQ(a->WaitStatus().code(), StatusCode::kMismatch);
    EXPECT_EQ(b->WaitStatus().code(), StatusCode::kMismatch);
    cluster.KillCoordinator();
    ASSERT_TRUE(cluster.RestartCoordinator().ok());
    ExpectRounds(cluster, {0, 1}, time, time + 1, "w" + std::to_string(time % 2) + " ");
    if (HasFatalFailure()) return;
  }
  cluster.LeaveInOrder();
}

TEST_P(Survival, AServerThatDiesWhileTheCoordinatorIsAwayIsReplacedAfterwards) {
  ClusterOptions options = SizeForRestarts(2, 3);
  options.silence_evict = seconds(3);  // by then the others are connected again
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  ExpectRounds(cluster, {0, 1}, 0, 2);
  cluster.KillCoordinator();
  Round round = Begin(cluster, {0, 1}, 2);
  cluster.KillServer(1);
  ASSERT_TRUE(cluster.RestartCoordinator().ok());
  ExpectFull(round, {0, 1});
  ExpectRounds(cluster, {0, 1}, 3, 5);
  cluster.LeaveInOrder();
}

TEST_P(Survival, AConnectionThatBreaksIsMadeAgainAndNothingIsLost) {
  ClusterOptions options = Size(2, 2);
  // In this test a closed connection is no sign of a loss, however long a slow machine lets threads
  // wait, or takes for a handshake under TLS.
  options.grace = options.unreachable_after = kPatience;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  for (int number = 0; number < 10; ++number) {
    Round round = Begin(cluster, {0, 1}, number);
    if (number > 0) WaitForFirst(round);
    cluster.Cut(static_cast<uint32_t>(number) % 2, static_cast<uint32_t>(number / 2) % 2);
    ExpectFull(round, {0, 1});
    if (HasFatalFailure()) return;
  }
  cluster.LeaveInOrder();
}

// One of the two must go, although both can talk to the coordinator.
TEST_P(Survival, AServerThatOneWorkerCannotReachIsGivenUp) {
  Cluster cluster(Size(3, 3));
  ASSERT_TRUE(cluster.Start().ok());
  ExpectRounds(cluster, {0, 1, 2}, 0, 1);
  Round round = Begin(cluster, {0, 1, 2}, 1);
  cluster.Block(0, 2);
  ExpectFull(round, {0, 1, 2});
  ExpectRounds(cluster, {0, 1, 2}, 2, 4);
  Status ended = cluster.ServerEnd(2);
  EXPECT_EQ(ended.code(), StatusCode::kEvicted) << ended.ToString();
}

TEST_P(Survival, AFrozenWorkerIsLeftBehindAndToldSo) {
  ClusterOptions options = Size(3, 2);
  options.min_workers = 2;
  options.silence_evict = seconds(2);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  ExpectRounds(cluster, {0, 1, 2}, 0, 2);
  auto gate = std::make_shared<Gate>();
  cluster.FreezeWorker(2, gate);
  Round frozen = Begin(cluster, {2}, 2);
  ExpectRounds(cluster, {0, 1}, 2, 4);
  gate->Open();
  for (const TicketRef& ticket : frozen.tickets[0]) {
    Status ended = ticket->WaitStatus();
    EXPECT_EQ(ended.code(), StatusCode::kEvicted) << ended.ToString();
    EXPECT_NE(ended.message().find("went on without it"), std::string::npos) << ended.message();
  }
  ExpectRounds(cluster, {0, 1}, 4, 6);
}

TEST_P(Survival, AFrozenServerIsLeftBehindAndStops) {
  ClusterOptions options = Size(2, 2);
  options.silence_evict = seconds(2);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  ExpectRounds(cluster, {0, 1}, 0, 2);
  auto gate = std::make_shared<Gate>();
  cluster.FreezeServer(0, gate);
  ExpectRounds(cluster, {0, 1}, 2, 4);
  gate->Open();
  Status ended = cluster.ServerEnd(0);
  EXPECT_EQ(ended.code(), StatusCode::kEvicted) << ended.ToString();
  ExpectRounds(cluster, {0, 1}, 4, 6);
}

// To the others the server is another process, without its old contents, and does their work when
// they are gone.
TEST_P(Survival, AServerThatWasLeftBehindComesBackByItself) {
  ClusterOptions options = Size(2, 2);
  options.silence_evict = seconds(2);
  options.comebacks = 1;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  ExpectRounds(cluster, {0, 1}, 0, 2);
  auto gate = std::make_shared<Gate>();
  cluster.FreezeServer(0, gate);
  ExpectRounds(cluster, {0, 1}, 2, 4);
  gate->Open();
  cluster.KillServer(1);
  ExpectRounds(cluster, {0, 1}, 4, 6);
  ExpectRounds(cluster, {0, 1}, 0, 2, "new ");
  cluster.LeaveInOrder();
}

TEST_P(Survival, AServerThatIsLeftBehindAgainAndAgainEnds) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ClusterOptions options = Size(2, 2);
  options.exit_notices = pipe_ends[0];
  options.comebacks = 1;
  {
    Cluster cluster(options);
    ASSERT_TRUE(cluster.Start().ok());
    std::string notice = "exited " + std::to_string(kFirstServerProcess) + "\n";
    auto leave_behind = [&] { return write(pipe_ends[1], notice.data(), notice.size()) > 0; };
    ASSERT_TRUE(leave_behind());
    ExpectRounds(cluster, {0, 1}, 0, 2);
    cluster.KillServer(1);
    ExpectRounds(cluster, {0, 1}, 2, 4);
    ASSERT_TRUE(leave_behind()) << "it was back";
    Status ended = cluster.ServerEnd(0);
    EXPECT_EQ(ended.code(), StatusCode::kEvicted) << ended.ToString();
    EXPECT_NE(ended.message().find("(the last of 1 times in a row)"), std::string::npos)
        << ended.message();
    cluster.RestartServer();
    ExpectRounds(cluster, {0, 1}, 4, 6);
  }
  for (int end : pipe_ends) close(end);
}

// The launcher has seen the end, so nobody waits for silence or a closed connection.
TEST_P(Survival, AProcessThatTheLauncherSawEndIsLeftBehindAtOnce) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ClusterOptions options = Size(2, 2);
  options.exit_notices = pipe_ends[0];
  {
    Cluster cluster(options);
    ASSERT_TRUE(cluster.Start().ok());
    ExpectRounds(cluster, {0, 1}, 0, 1);
    auto gate = std::make_shared<Gate>();
    cluster.FreezeServer(1, gate);
    Round round = Begin(cluster, {0, 1}, 1);
    std::string notice = "exited " + std::to_string(kFirstServerProcess + 1) + "\n";
    EXPECT_EQ(write(pipe_ends[1], notice.data(), notice.size()),
              static_cast<ssize_t>(notice.size()));
    ExpectFull(round, {0, 1});
    gate->Open();
    EXPECT_EQ(cluster.ServerEnd(1).code(), StatusCode::kEvicted);
  }
  for (int end : pipe_ends) close(end);
}

// A worker that has an answer that others may lack stays until they have it. Afterwards the server
// that knew the answer may die.
TEST_P(Survival, AWorkerLeavesOnlyWhenNobodyNeedsWhatItHolds) {
  if (GetParam().medium == Medium::kMachines) {
    GTEST_SKIP() << "ranks of a machine come and go together: machines_test.cc";
  }
  ClusterOptions options = Size(2, 2);
  options.min_workers = 1;
  options.lanes = {1};  // no other thread acknowledges the answer
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<Bytes> data = {Push(0, 1), Push(1, 1)};
  auto gate = std::make_shared<Gate>();
  auto stopped = std::make_shared<Gate>();
  // The slow worker stands still with the answer in hand, before it can acknowledge it.
  TicketRef slow = cluster.Submit(1, SumOf("w", data[1]), [gate, stopped] {
    stopped->Open();
    gate->Wait();
  });
  TicketRef fast = cluster.Submit(0, SumOf("w", data[0]));
  ASSERT_TRUE(stopped->Wait());
  ASSERT_TRUE(fast->WaitStatus().ok());
  auto leaving = std::async(std::launch::async, [&] { cluster.engine(0).Leave(); });
  EXPECT_EQ(leaving.wait_for(milliseconds(200)), std::future_status::timeout);
  gate->Open();
  ASSERT_EQ(leaving.wait_for(kPatience), std::future_status::ready);
  ASSERT_TRUE(slow->WaitStatus().ok());
  EXPECT_TRUE(data[0] == SumOfRanks({0, 1}, 1));
  EXPECT_TRUE(data[1] == SumOfRanks({0, 1}, 1));
  cluster.KillServer(0);
  ExpectRounds(cluster, {1}, 0, 2);
  cluster.LeaveInOrder();
}

}  // namespace
}  // namespace byteps::cluster
