// Jobs in which a process has ended before they begin.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/protocol/control/failure_for_test.h"

namespace byteps::protocol {
namespace {

// Three workers (10, 11, 12), two servers (20, 21), started by one launcher on one host.
class StartTest : public FailureTest {
 protected:
  void Ended(uint32_t process, std::optional<uint32_t> rank) {
    coordinator().OnProcessEnded({"h", process, rank}, now);
    Pump();
  }

  wire::Join Process(Role role, int32_t place, uint32_t process) {
    wire::Join join = Join(role, place);
    join.process = process;
    return join;
  }

  void StartWithout(int32_t rank) {
    for (int32_t i = 0; i < 3; ++i) {
      if (i != rank) Say(static_cast<ConnectionId>(10 + i), Process(Role::kWorker, i, 100 + i));
    }
    for (int32_t i = 0; i < 2; ++i) {
      Say(static_cast<ConnectionId>(20 + i), Process(Role::kServer, i, 200 + i));
    }
  }
};

TEST_F(StartTest, NobodyWaitsForAWorkerThatHasEnded) {
  Ended(101, 1);
  StartWithout(1);
  const wire::View& view = ViewOf(10);
  ASSERT_EQ(view.epoch, 1u);
  EXPECT_EQ(Workers(view), (std::vector<uint64_t>{0, 2}));
  ASSERT_EQ(view.gone.size(), 1u) << "ranks are counted as if it had been lost later";
  EXPECT_EQ(view.gone[0].rank, 1u);
  EXPECT_EQ(wire::WorkersOfGeneration(view).size(), 3u);
  EXPECT_EQ(ViewOf(21), view);
}

TEST_F(StartTest, NorForOneThatEndsWhileTheOthersWait) {
  Say(11, Process(Role::kWorker, 1, 101));
  StartWithout(1);
  EXPECT_EQ(ViewOf(10).epoch, 1u) << "all were here";
  machine.reset();
  driver = {};
  cursor = 0;
  members.clear();
  deaf = {11};  // this worker ends before it can promise
  Say(11, Process(Role::kWorker, 1, 101));
  StartWithout(1);
  EXPECT_TRUE(To<wire::Commit>(10).empty());
  Ended(101, 1);
  Lose(11);
  ASSERT_EQ(To<wire::Commit>(10).size(), 1u);
  EXPECT_EQ(Workers(ViewOf(10)), (std::vector<uint64_t>{0, 2}));
}

TEST_F(StartTest, WithTooFewTheJobEndsAtOnceForThoseWhoWait) {
  options.min_workers = 0;
  StartWithout(1);
  EXPECT_TRUE(driver.finished.empty());
  Ended(101, 1);
  EXPECT_NE(EndText().find("worker 1 ended before joining it, and it needs 3 workers"),
            std::string::npos)
      << EndText();
  EXPECT_EQ(To<wire::JobOver>(10).size(), 1u);
}

TEST_F(StartTest, ProgramsThatNeverJoinEndTheJobInOrder) {
  Say(20, Process(Role::kServer, 0, 200));
  Ended(100, 0);
  Ended(102, 2);
  Ended(101, 1);
  EXPECT_TRUE(driver.finished.empty()) << "the other server may be that of a job that runs";
  Say(21, Process(Role::kServer, 1, 201));
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_TRUE(driver.finished[0].ok()) << EndText();
  EXPECT_EQ(To<wire::JobOver>(20).at(0).code, StatusCode::kOk);
}

TEST_F(StartTest, TheyDoSoAlsoWithoutServersAfterAWhile) {
  for (uint32_t rank : {0, 1, 2}) Ended(100 + rank, rank);
  Wait(options.silence_end - milliseconds(100));
  EXPECT_TRUE(driver.finished.empty());
  Wait(milliseconds(200));
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_TRUE(driver.finished[0].ok()) << EndText();
}

// Server 0 did not hear the job's end from a scheduler that died before.
TEST_F(StartTest, AServerOfAJobThatRanIsHeardBeforeTheEnd) {
  StartWithout(-1);
  for (ConnectionId worker : {10, 11, 12}) Say(worker, wire::Leave{});
  Restart();
  for (uint32_t rank : {0, 1, 2}) Ended(100 + rank, rank);
  EXPECT_TRUE(driver.finished.empty());
  ReconnectAll({20, 21});
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_EQ(To<wire::JobOver>(120).size() + To<wire::JobOver>(121).size(), 2u);
}

// The program of the waiting process would begin anew what the others have brought to an end.
TEST_F(StartTest, WhoWaitsToBeLetInDoesNotStartAFinishedJobAgain) {
  Ended(101, 1);
  StartWithout(1);
  Say(13, Process(Role::kWorker, 1, 103));
  for (ConnectionId worker : {10, 12}) Say(worker, wire::Leave{});
  Ended(100, 0);
  EXPECT_TRUE(driver.finished.empty());
  Ended(102, 2);
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_TRUE(driver.finished[0].ok()) << EndText();
  EXPECT_EQ(To<wire::JobOver>(13).size(), 1u);
}

TEST_F(StartTest, WhenTheTimeIsOverAJobBeginsWithThoseWhoAreEnough) {
  options.min_workers = 2;
  StartWithout(1);
  Wait(seconds(119), {10, 12, 20, 21});
  EXPECT_TRUE(To<wire::Commit>(10).empty());
  Wait(seconds(2), {10, 12, 20, 21});
  EXPECT_EQ(Workers(ViewOf(10)), (std::vector<uint64_t>{0, 2}));
  EXPECT_TRUE(Said("starting with those who are here: 2/3 workers"));
}

TEST_F(StartTest, WhenTheTimeIsOverTooFewAreTooFew) {
  options.min_workers = 3;
  StartWithout(1);
  Wait(seconds(121), {10, 12, 20, 21});
  EXPECT_NE(EndText().find("missing worker 1"), std::string::npos) << EndText();
}

// The difference stands once in the log and in every text about missing members.
TEST_F(StartTest, WhoWasRefusedIsToldWhileTheJobWaitsAndWhenItGivesUp) {
  options.min_workers = 0;
  wire::Join differs = Process(Role::kServer, 1, 201);
  differs.server_count = 3;
  Say(10, Process(Role::kWorker, 0, 100));
  for (ConnectionId id : {20, 21, 22}) {
    differs.process = 200 + static_cast<uint32_t>(id);
    Say(id, differs);
    coordinator().OnRefused("10.0.0.3:47" + std::to_string(id), Role::kServer, "another secret",
                            now);
  }
  coordinator().OnRefused("10.0.0.4:4711", std::nullopt, "another version", now);
  Wait(seconds(6), {10});
  std::string last = driver.reports.back();
  std::string waiting = To<wire::Waiting>(10).at(0).text;
  Wait(seconds(120), {10});
  for (const std::string& text : {last, waiting, EndText()}) {
    EXPECT_NE(text.find("; refused server 1 (process 222 on ): you were told of 3 servers"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("; refused 10.0.0.3:4722 (server): another secret"), std::string::npos)
        << text;
    EXPECT_NE(text.find("; refused 10.0.0.4:4711: another version"), std::string::npos) << text;
  }
  auto told = [&](const std::string& words) {
    return std::count_if(driver.reports.begin(), driver.reports.end(), [&](const auto& line) {
      return line.starts_with("refused ") && line.find(words) != std::string::npos;
    });
  };
  EXPECT_EQ(told("you were told of 3 servers"), 1);
  EXPECT_EQ(told("another secret"), 1);
}

TEST_F(StartTest, WhoEndedBecauseItWasRefusedIsToldWithTheReason) {
  options.min_workers = 0;
  StartWithout(1);
  coordinator().OnRefused("10.0.0.3:4711", Role::kWorker, "another secret", now);
  Ended(101, 1);
  EXPECT_NE(EndText().find("needs 3 workers; refused 10.0.0.3:4711 (worker): another secret"),
            std::string::npos)
      << EndText();
}

TEST_F(StartTest, RefusalsOfAnEarlierGatheringAreForgotten) {
  coordinator().OnRefused("10.0.0.3:4711", Role::kWorker, "another secret", now);
  StartWithout(-1);
  coordinator().OnRefused("10.0.0.3:4712", Role::kWorker, "another secret", now);
  for (ConnectionId worker : {10, 11, 12}) Say(worker, wire::Leave{});
  Say(13, Process(Role::kWorker, 0, 100));
  Wait(seconds(6), {13, 20, 21});
  EXPECT_EQ(To<wire::Waiting>(13).at(0).text.find("refused"), std::string::npos);
}

TEST_F(StartTest, APieceIsAsLongAsTheWorkersSay) {
  options.worker_machines = 1;
  options.server_count = 1;
  wire::Join server = Join(Role::kServer, 0);
  server.piece_bytes_max = 0;
  wire::Join worker = Join(Role::kWorker, 0);
  worker.piece_bytes_max = 65536;
  Say(20, server);
  Say(10, worker);
  EXPECT_EQ(ViewOf(20).piece_bytes_max, 65536u);
}

// A scheduler and a server end at the same moment. The new server comes while the new scheduler
// asks what was decided.
TEST_F(StartTest, AServersSuccessorFindsItsPlaceFreeAfterARestart) {
  StartWithout(-1);
  Restart();
  Ended(201, std::nullopt);
  Say(31, Process(Role::kServer, 1, 301));
  ReconnectAll({10, 11, 12, 20});
  EXPECT_TRUE(To<wire::Refused>(31).empty());
  EXPECT_EQ(ViewOf(110).servers[1].incarnation, IncarnationAt(31));
}

TEST_F(StartTest, NewsOfTheDeathThatWaitedCountsBeforeTheSuccessorIsJudged) {
  StartWithout(-1);
  Restart();
  Say(31, Process(Role::kServer, 1, 301));
  Reconnect(10, 110);
  Suspect(110, Role::kServer, 1, wire::Suspicion::kNonsense);
  ReconnectAll({11, 12, 20});
  EXPECT_TRUE(To<wire::Refused>(31).empty());
  EXPECT_EQ(ViewOf(110).servers[1].incarnation, IncarnationAt(31));
}

}  // namespace
}  // namespace byteps::protocol
