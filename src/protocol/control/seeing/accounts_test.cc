// The report says which ranks are missing in operations that do not end.
#include "src/protocol/control/seeing/accounts.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

using wire::UseStage;

class AccountsTest : public testing::Test {
 protected:
  static wire::UseState State(const std::string& name, UseStage stage, uint32_t age_s = 0,
                              uint32_t process_set = 0) {
    return {{name, {process_set, 0, 1}}, 7, stage, 1000 * age_s, 0};
  }
  void Tell(uint32_t rank, std::vector<wire::UseState> uses, uint32_t idle_s = 0,
            std::vector<wire::ProcessSetRanks> process_sets = {}) {
    wire::Account account;
    account.uses = std::move(uses);
    account.process_sets = std::move(process_sets);
    account.idle_ms = 1000 * idle_s;
    accounts.Take(rank, 100 + rank, account, now);
  }
  std::vector<std::string> Report() {
    return accounts.Report(now, [](uint32_t rank) { return "worker " + std::to_string(rank); });
  }
  std::vector<wire::UseNote> NotesFor(uint32_t rank) {
    now += seconds(1);  // notes of a moment ago are used again
    return accounts.NotesFor(rank, now,
                             [](uint32_t one) { return "worker " + std::to_string(one); });
  }
  using Lines = std::vector<std::string>;

  Time now{};
  Accounts accounts{seconds(60)};
};

TEST_F(AccountsTest, NothingIsDueWhileNothingIsOpenForLong) {
  Tell(0, {});
  Tell(1, {State("x", UseStage::kEnded)});
  EXPECT_FALSE(accounts.NextDue().has_value());
  EXPECT_TRUE(accounts.asked().empty());
}

TEST_F(AccountsTest, TheMissingRankIsNamedWithWhatItDoes) {
  Tell(0, {State("x", UseStage::kExchanges, 61)});
  EXPECT_EQ(accounts.asked(), (std::vector<wire::NamedUse>{{"x", {0, 0, 1}}}));
  Tell(1, {State("x", UseStage::kExchanges, 60)});
  Tell(2, {State("x", UseStage::kNotBegun)}, 62);
  EXPECT_EQ(accounts.NextDue(), now - seconds(1));
  EXPECT_EQ(Report(),
            (Lines{"stalled for 61 s: 1 tensor, 'x'; ranks 0 and 1 have begun and each waits for "
                   "the sum; rank 2 has not begun. worker 2 has nothing open for 62 s: it is in "
                   "its own program, which 'bps stack' on its machine shows"}));
  EXPECT_EQ(accounts.NextDue(), now + seconds(60));
}

TEST_F(AccountsTest, AnInputThatIsLateOnADeviceIsToldInTheReport) {
  Tell(0, {State("x", UseStage::kExchanges, 61)});
  Tell(1, {State("x", UseStage::kAwaitsInput)}, 62);
  EXPECT_EQ(Report(), (Lines{"stalled for 61 s: 1 tensor, 'x'; rank 0 has begun and waits for the "
                             "sum; rank 1 has not begun. worker 1 waits for the input of 'x' on "
                             "its device: the work of its stream has not ended"}));
}

TEST_F(AccountsTest, ACopyThatStandsStillIsToldWithItsRankAndItsDevice) {
  auto tell = [this](std::vector<wire::UseState> uses, std::vector<wire::SlowCopy> copies) {
    wire::Account account;
    account.uses = std::move(uses);
    account.copies = std::move(copies);
    accounts.Take(1, 101, account, now);
  };
  const std::string why = ": its driver does not answer, or the device is busy";
  // The lanes copy, so the rank has begun.
  Tell(0, {State("x", UseStage::kExchanges, 61)});
  tell({State("x", UseStage::kExchanges, 61)},
       {{"y", "cuda:0", true, 61000}, {"x", "cuda:1", false, 60000}});
  EXPECT_EQ(Report(), (Lines{"stalled for 61 s: 1 tensor, 'x'; ranks 0 and 1 have begun and each "
                             "waits for the sum; no rank is missing. worker 1 waits for a copy of "
                             "'x' from cuda:1, which has been under way for 60 s" +
                             why}));
  // The session copies, so the rank has not begun.
  tell({State("x", UseStage::kAwaitsInput)}, {{"x", "cuda:1", false, 60000}});
  EXPECT_EQ(Report(), (Lines{"stalled for 61 s: 1 tensor, 'x'; rank 0 has begun and waits for the "
                             "sum; rank 1 has not begun. worker 1 waits for a copy of 'x' from "
                             "cuda:1, which has been under way for 60 s" +
                             why}));
}

// All ranks have the result, and the copy of one of them does not end.
TEST_F(AccountsTest, ACopyThatOnlyItsOwnRankWaitsForIsTold) {
  wire::Account account;
  account.copies = {{"x", "cuda:1", true, 2000}};
  accounts.Take(1, 101, account, now);
  Tell(0, {});
  EXPECT_EQ(accounts.NextDue(), now + seconds(58));
  now += seconds(3);
  EXPECT_TRUE(Report().empty()) << "it may be a large one";
  account.copies[0].age_ms = 61000;
  now += seconds(57);
  accounts.Take(1, 101, account, now);
  now += seconds(1);
  EXPECT_EQ(Report(), (Lines{"stalled for 62 s: worker 1 waits for a copy of 'x' to cuda:1, which "
                             "has been under way for 62 s: its driver does not answer, or the "
                             "device is busy"}));
  Tell(1, {});
  EXPECT_FALSE(accounts.NextDue().has_value());
}

TEST_F(AccountsTest, ARankAtItsLimitHearsOfTheCopyThatStandsStill) {
  wire::UseState state = State("x", UseStage::kExchanges, 1797);
  state.left_ms = 3000;
  Tell(0, {state});
  wire::Account account;
  account.uses = {State("x", UseStage::kExchanges, 1797)};
  accounts.Take(1, 101, account, now);
  EXPECT_TRUE(NotesFor(0).empty()) << "nobody knows why";
  account.copies = {{"x", "cuda:1", false, 60000}};
  accounts.Take(1, 101, account, now);
  const std::vector<wire::UseNote> notes = NotesFor(0);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].others,
            "worker 1 waits for a copy of 'x' from cuda:1, which has been under way for 61 s: its "
            "driver does not answer, or the device is busy");
}

TEST_F(AccountsTest, TheReportSaysWhenTheFirstWaitEnds) {
  wire::UseState patient = State("x", UseStage::kExchanges, 61);
  patient.left_ms = 1739000;
  wire::UseState soon = State("x", UseStage::kExchanges, 60);
  soon.left_ms = 1000;
  Tell(0, {patient});
  Tell(1, {soon});
  Tell(2, {State("x", UseStage::kNotBegun)}, 62);
  std::string line = Report().at(0);
  EXPECT_TRUE(
      line.ends_with("on its machine shows. The wait ends with an error in 1 s "
                     "(BYTEPS_OPERATION_TIMEOUT)"))
      << line;
  Tell(1, {patient});
  line = Report().at(0);
  EXPECT_TRUE(line.ends_with("in 1739 s (BYTEPS_OPERATION_TIMEOUT)")) << line;
}

// Both ranks of a circle hear what the other one waits for.
TEST_F(AccountsTest, ARankAtItsLimitHearsWhatTheMissingOnesDo) {
  auto open = [](const std::string& name, uint32_t left_ms) {
    wire::UseState state = State(name, UseStage::kExchanges, 1797);
    state.left_ms = left_ms;
    return state;
  };
  Tell(0, {open("a", 60000), State("b", UseStage::kNotBegun)});
  Tell(1, {open("b", 60000), State("a", UseStage::kNotBegun)});
  EXPECT_TRUE(NotesFor(0).empty()) << "there is time";
  Tell(0, {open("a", 3000), State("b", UseStage::kNotBegun)});
  Tell(1, {open("b", 1), State("a", UseStage::kNotBegun)});
  const std::vector<wire::UseNote> first = NotesFor(0);
  const std::vector<wire::UseNote> second = NotesFor(1);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].use.name, "a");
  EXPECT_EQ(first[0].others,
            "rank 1 has not begun it: worker 1 is in 'b' and waits for the sum there, for 1797 s");
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].others,
            "rank 0 has not begun it: worker 0 is in 'a' and waits for the sum there, for 1797 s");
  EXPECT_TRUE(NotesFor(7).empty()) << "nobody";
}

TEST_F(AccountsTest, HowLongTheMissingRanksHaveEndedNothingIsToldToWhoHasJoined) {
  auto joined = [] {
    wire::UseState state = State("join", UseStage::kExchanges, 1800);
    state.left_ms = 1;
    return state;
  };
  auto tell = [&](uint32_t rank, uint64_t ended) {
    wire::Account account;
    account.ended = ended;
    account.uses = {State("join", UseStage::kNotBegun)};
    accounts.Take(rank, 100 + rank, account, now);
  };
  tell(1, 5);
  tell(2, 5);
  now += seconds(10);
  tell(1, 5);
  tell(2, 6);
  Tell(0, {joined()});
  EXPECT_EQ(NotesFor(0).at(0).quiet_ms, 1000u) << "rank 2 goes on";
  now += seconds(4);
  tell(1, 5);
  tell(2, 6);
  Tell(0, {joined()});
  EXPECT_EQ(NotesFor(0).at(0).quiet_ms, 6000u);
  now += seconds(4);
  tell(1, 7);
  Tell(0, {joined()});
  EXPECT_EQ(NotesFor(0).at(0).quiet_ms, 1000u) << "rank 1 goes on";
}

TEST_F(AccountsTest, ManyTensorsWithTheSameRankMissingAreOneLine) {
  std::vector<wire::UseState> waits, missing;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    waits.push_back(State(name, UseStage::kExchanges, 70));
    missing.push_back(State(name, UseStage::kNotBegun));
  }
  missing.push_back(State("z", UseStage::kExchanges, 5));
  Tell(0, waits);
  Tell(1, missing);
  EXPECT_EQ(Report(),
            (Lines{"stalled for 70 s: 5 tensors, 'a', 'b', 'c' and 2 more; rank 0 has begun and "
                   "waits for the sum; rank 1 has not begun. worker 1 is in 'z' and waits for the "
                   "sum there, for 5 s"}));
}

TEST_F(AccountsTest, ARankThatSaysNothingStandsStill) {
  Tell(1, {});
  now += seconds(65);
  Tell(0, {State("x", UseStage::kExchanges, 61)});
  EXPECT_EQ(Report(), (Lines{"stalled for 61 s: 1 tensor, 'x'; rank 0 has begun and waits for the "
                             "sum; rank 1 has not answered. worker 1 has said nothing for 65 s: it "
                             "stands still"}));
}

TEST_F(AccountsTest, WhoWasAskedAMomentAgoGetsTimeToAnswer) {
  Tell(0, {State("x", UseStage::kExchanges, 60)});
  Tell(1, {});
  EXPECT_TRUE(Report().empty());
  EXPECT_EQ(accounts.NextDue(), now + milliseconds(500));
  now += milliseconds(500);
  Tell(1, {State("x", UseStage::kNotBegun)});
  EXPECT_EQ(Report().size(), 1u);
}

TEST_F(AccountsTest, WhereNobodyIsMissingItIsNoRank) {
  Tell(0, {State("x", UseStage::kExchanges, 61)});
  Tell(1, {State("x", UseStage::kExchanges, 61)});
  EXPECT_EQ(Report(), (Lines{"stalled for 61 s: 1 tensor, 'x'; ranks 0 and 1 have begun and each "
                             "waits for the sum; no rank is missing, so a server or the network "
                             "holds it up"}));
}

TEST_F(AccountsTest, OnlyRanksOfTheProcessSetAreMissing) {
  Tell(0, {State("x", UseStage::kExchanges, 61, 3)}, 0, {{3, {2, 0}}});
  Tell(1, {});
  Tell(2, {State("x", UseStage::kNotBegun, 0, 3)}, 61);
  std::vector<Accounts::Wait> waits = accounts.Waits(now);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].waiting, std::vector<uint32_t>{0});
  EXPECT_EQ(waits[0].missing, std::vector<uint32_t>{2});
  EXPECT_TRUE(waits[0].silent.empty());
}

TEST_F(AccountsTest, WhatHasGoneOnIsNotReported) {
  Tell(0, {State("x", UseStage::kExchanges, 61)});
  Tell(0, {});
  EXPECT_FALSE(accounts.NextDue().has_value());
  EXPECT_TRUE(Report().empty());
}

TEST_F(AccountsTest, AFewLinesAreEnough) {
  std::vector<wire::UseState> waits;
  for (int i = 0; i < 8; ++i) waits.push_back(State(std::to_string(i), UseStage::kExchanges, 61));
  Tell(0, waits);
  for (uint32_t rank = 1; rank <= 8; ++rank) {  // each has begun all but one
    std::vector<wire::UseState> its = waits;
    its[rank - 1].stage = UseStage::kNotBegun;
    Tell(rank, its);
  }
  EXPECT_EQ(Report().size(), 4u);
}

TEST_F(AccountsTest, WhoIsGoneIsNotMissing) {
  Tell(0, {State("x", UseStage::kExchanges, 61)});
  Tell(1, {State("x", UseStage::kNotBegun)});
  accounts.ForgetIf([](uint64_t one) { return one == 101; });
  EXPECT_TRUE(accounts.Waits(now)[0].missing.empty());
}

TEST_F(AccountsTest, ItCanBeSwitchedOff) {
  Accounts quiet{Duration()};
  wire::Account account;
  account.uses = {State("x", UseStage::kExchanges, 61)};
  quiet.Take(0, 100, account, now);
  EXPECT_FALSE(quiet.NextDue().has_value());
}

TEST_F(AccountsTest, TheShareOfWaitingIsAMeanOfTheLastSeconds) {
  wire::Account account;
  auto tell = [&](Duration passed, Duration waited) {
    now += passed;
    account.waited_us += static_cast<uint64_t>(waited / microseconds(1));
    accounts.Take(0, 100, account, now);
    return accounts.tellers().at(0).waited_share;
  };
  EXPECT_EQ(tell(seconds(0), seconds(3)), 0) << "when it waited is not known";
  EXPECT_DOUBLE_EQ(tell(seconds(2), milliseconds(500)), 0.25);
  EXPECT_DOUBLE_EQ(tell(seconds(1), seconds(1)), 0.625);
  EXPECT_DOUBLE_EQ(tell(seconds(2), seconds(3)), 1) << "it cannot have waited longer";
  EXPECT_DOUBLE_EQ(tell(seconds(4), Duration::zero()), 0);
}

TEST_F(AccountsTest, AServerTellsItsBytesAndItsProcessorTime) {
  EXPECT_TRUE(accounts.servers().empty());
  accounts.TakeServer(200, {1000, 500, 7'000'000}, now);
  EXPECT_EQ(accounts.servers().at(200).cpu_share, 0);
  now += seconds(2);
  accounts.TakeServer(200, {3000, 4500, 10'000'000}, now);
  const Accounts::ServerTeller& told = accounts.servers().at(200);
  EXPECT_DOUBLE_EQ(told.received_per_s, 1000);
  EXPECT_DOUBLE_EQ(told.sent_per_s, 2000);
  EXPECT_DOUBLE_EQ(told.cpu_share, 1.5);
  EXPECT_EQ(told.account.received, 3000u);
  accounts.TakeServer(201, {}, now);
  accounts.ForgetIf([](uint64_t incarnation) { return incarnation == 200; });
  EXPECT_EQ(accounts.servers().size(), 1u);
  EXPECT_TRUE(accounts.servers().contains(201));
}

}  // namespace
}  // namespace byteps::protocol
