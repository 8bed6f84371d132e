#include "src/machine/serverless/local_rounds.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace byteps::machine {
namespace {

class LocalRoundsTest : public testing::Test {
 protected:
  static LocalFacts FactsOf(RankSet ranks) {
    LocalFacts facts;
    facts.ranks = ranks;
    facts.pieces = {{1, 64}};
    return facts;
  }
  static Status Late(const std::string& why) { return {StatusCode::kDeadlineExceeded, why}; }
  static RoundKey Key(TensorId tensor, uint64_t use = 1) { return {tensor, use, 0}; }
  void Begin(uint32_t rank, TensorId tensor, RankSet ranks = 0b111) {
    rounds.OnBegun(rank, {Key(tensor), FactsOf(ranks), 0});
  }
  void Join(uint32_t rank, uint32_t operations = 0) {
    rounds.OnJoined(rank);
    LocalFacts facts = FactsOf(0b111);
    facts.how = Combine::kLast;
    rounds.OnBegun(rank, {Key(99), facts, operations});
  }

  struct Complete {
    TensorId tensor;
    RankSet ranks;
    uint32_t last;
    friend bool operator==(const Complete&, const Complete&) = default;
  };
  struct Error {
    TensorId tensor;
    RankSet to;
    StatusCode code;
    std::string text;
  };
  using Completes = std::vector<Complete>;

  Completes complete;
  std::vector<Error> failed;
  std::vector<TensorId> broken_off;
  bool can_break_off = true;
  bool is_over_at_once = false;
  bool waits = false;
  RankSet on_device = 0;
  std::vector<SmallPart> parts;
  LocalRounds rounds{{[this](const RoundKey& key, const CompleteRound& round) {
                        complete.push_back({key.tensor, round.ranks, round.last});
                        parts = round.parts;
                        return is_over_at_once;
                      },
                      [this](const RoundKey& key) {
                        broken_off.push_back(key.tensor);
                        return can_break_off;
                      },
                      [this](const RoundKey& key, RankSet to, const Status& why) {
                        failed.push_back({key.tensor, to, why.code(), why.message()});
                      },
                      [this](const CompleteRound& round) {
                        on_device = round.on_device;
                        return waits;
                      }}};
};

TEST_F(LocalRoundsTest, ARoundIsCompleteWhenTheLastRankHasBegunIt) {
  Begin(2, 1);
  Begin(0, 1);
  Begin(0, 2, 0b001);
  EXPECT_EQ(complete, (Completes{{2, 0b001, 0}}));
  Begin(1, 1);
  EXPECT_EQ(complete.back(), (Complete{1, 0b111, 1}));
  rounds.OnOver(Key(1));
  Begin(1, 1);
  EXPECT_EQ(complete.size(), 2u) << "it begins anew";
}

TEST_F(LocalRoundsTest, WhoHasJoinedIsNotAwaited) {
  Begin(0, 1);
  Begin(1, 1);
  Join(2);
  EXPECT_EQ(complete, (Completes{{1, 0b011, 1}}));
  Begin(0, 2);
  Begin(1, 2);
  EXPECT_EQ(complete.back(), (Complete{2, 0b011, 1}));
}

TEST_F(LocalRoundsTest, AJoinWaitsForAllAndIsOverForAll) {
  Join(1);
  Join(0);
  EXPECT_TRUE(complete.empty());
  Join(2);
  EXPECT_EQ(complete, (Completes{{99, 0b111, 2}}));
  Begin(0, 3);
  Begin(1, 3);
  EXPECT_EQ(complete.size(), 1u) << "nobody has joined any more";
}

// A rank says that it has joined, and begins its join somewhat later.
TEST_F(LocalRoundsTest, WhoHasTakenPartInMostHasJoinedLastWhoeverSaysSoLast) {
  Join(2, 1);
  Join(0, 3);
  Join(1, 2);
  EXPECT_EQ(complete, (Completes{{99, 0b111, 0}}));
}

TEST_F(LocalRoundsTest, ARootThatHasJoinedBringsNothing) {
  LocalFacts facts = FactsOf(0b111);
  facts.root = 2;
  Join(2);
  rounds.OnBegun(0, {Key(1), facts, 0});
  rounds.OnBegun(1, {Key(1), facts, 0});
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].to, 0b011u);
  EXPECT_EQ(failed[0].code, StatusCode::kInvalidArgument);
  EXPECT_NE(failed[0].text.find("rank 2 has joined"), std::string::npos);
}

TEST_F(LocalRoundsTest, ALateRoundFailsForThoseThatCameAndForThoseThatComeLater) {
  Begin(0, 1);
  rounds.OnAbort(0, {Key(1), Late("rank 0 has waited too long")});
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].to, 0b001u);
  EXPECT_EQ(failed[0].code, StatusCode::kDeadlineExceeded);
  EXPECT_EQ(failed[0].text, "rank 0 has waited too long; the tensor has nothing from rank 1, 2");
  rounds.OnAbort(0, {Key(1), Late("again")});
  EXPECT_EQ(failed.size(), 1u) << "once";
  Begin(2, 1);
  Begin(1, 1);
  ASSERT_EQ(failed.size(), 3u);
  EXPECT_EQ(failed[2].to, 0b010u);
  EXPECT_EQ(failed[2].text, failed[0].text);
  EXPECT_TRUE(complete.empty());
}

TEST_F(LocalRoundsTest, ARankWithoutInputEndsTheRoundForAll) {
  const Status why(StatusCode::kUnavailable, "rank 1 has no input");
  Begin(0, 1);
  rounds.OnBegun(1, {Key(1), FactsOf(0b111), 0, {}, why});
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].to, 0b011u);
  EXPECT_EQ(failed[0].code, StatusCode::kUnavailable);
  EXPECT_EQ(failed[0].text, "rank 1 has no input; the tensor has nothing from rank 2");
  rounds.OnBegun(2, {Key(1), FactsOf(0b111), 0, {}, Late("rank 2 has none, either")});
  ASSERT_EQ(failed.size(), 2u);
  EXPECT_EQ(failed[1].to, 0b100u);
  EXPECT_EQ(failed[1].text, failed[0].text) << "one error for all";
  for (uint32_t rank = 0; rank < 3; ++rank) Begin(rank, 1);
  EXPECT_EQ(complete, (Completes{{1, 0b111, 2}})) << "the next use";
}

TEST_F(LocalRoundsTest, AnAbortOfWhatIsCompleteAsksTheBlocks) {
  for (uint32_t rank : {0, 1, 2}) Begin(rank, 1);
  can_break_off = false;
  rounds.OnAbort(1, {Key(1), Late("late")});
  EXPECT_TRUE(failed.empty()) << "some rank may have the result";
  can_break_off = true;
  rounds.OnAbort(1, {Key(1), Late("late")});
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].to, 0b111u);
}

TEST_F(LocalRoundsTest, AnAbortOfWhatARankHasNotBegunChangesNothing) {
  Begin(0, 1);
  rounds.OnAbort(1, {Key(1), Late("late")});
  rounds.OnAbort(1, {Key(7), Late("late")});
  EXPECT_TRUE(failed.empty());
}

TEST_F(LocalRoundsTest, WhoLeavesIsNamedInWhatItWouldBeNeededFor) {
  Begin(0, 1);
  Begin(2, 2);
  for (uint32_t rank : {0, 1, 2}) Begin(rank, 3);
  rounds.OnLeft(2);
  ASSERT_EQ(failed.size(), 3u);
  for (const Error& error : failed) {
    EXPECT_EQ(error.code, StatusCode::kPeerLost);
    EXPECT_EQ(error.text.rfind("worker 2 has left the job", 0), 0u);
    EXPECT_EQ(error.to & 0b100, 0u) << "it knows";
  }
  EXPECT_EQ(broken_off, std::vector<TensorId>{3});
  Begin(1, 4);
  EXPECT_EQ(failed.back().tensor, 4u);
  Begin(0, 5, 0b011);
  Begin(1, 5, 0b011);
  EXPECT_EQ(complete.back().tensor, 5u) << "others go on without it";
}

// The rank's operation had no number yet when the rank said that it leaves.
TEST_F(LocalRoundsTest, WhatARankBeginsAfterItHasLeftNeverIsComplete) {
  rounds.OnLeft(1);
  Begin(1, 1);
  Begin(0, 1);
  Begin(2, 1);
  EXPECT_TRUE(complete.empty());
  ASSERT_EQ(failed.size(), 2u);
  for (const Error& error : failed) {
    EXPECT_EQ(error.text.rfind("worker 1 has left the job", 0), 0u) << error.text;
  }
}

TEST_F(LocalRoundsTest, NothingBeginsWithoutTheCarrier) {
  rounds.OnLeft(0);
  Begin(1, 1, 0b110);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_NE(failed[0].text.find("worker 0"), std::string::npos);
}

TEST_F(LocalRoundsTest, WhoHadJoinedMayLeave) {
  Join(2);
  rounds.OnLeft(2);
  Begin(0, 1);
  Begin(1, 1);
  EXPECT_EQ(complete, (Completes{{1, 0b011, 1}}));
}

TEST_F(LocalRoundsTest, RanksThatDisagreeAreForgotten) {
  Begin(0, 1);
  Begin(1, 2);
  rounds.Retire(1, 1);
  rounds.Retire(2, 1);
  EXPECT_TRUE(failed.empty()) << "the names say so";
  Begin(1, 1);
  Begin(2, 1);
  Begin(0, 1);
  EXPECT_TRUE(complete.empty()) << "what was under way meanwhile counts no more";
}

TEST_F(LocalRoundsTest, WhatIsOverAtOnceBeginsAnew) {
  is_over_at_once = true;
  for (int time = 0; time < 2; ++time) {
    for (uint32_t rank : {0, 1, 2}) {
      rounds.OnBegun(rank, {Key(1), FactsOf(0b111), 0, {rank + 4, 0, 64}});
    }
  }
  EXPECT_EQ(complete.size(), 2u);
  EXPECT_EQ(parts, (std::vector<SmallPart>{{4, 0, 64}, {5, 0, 64}, {6, 0, 64}}));
}

TEST_F(LocalRoundsTest, KeepsErrorsUntilTheLastRankHasBegun) {
  Begin(0, 1);
  EXPECT_FALSE(rounds.KeepsErrors());
  rounds.OnAbort(0, {Key(1), Late("late")});
  Begin(1, 1);
  EXPECT_TRUE(rounds.KeepsErrors());
  Begin(2, 1);
  EXPECT_FALSE(rounds.KeepsErrors());
}

TEST_F(LocalRoundsTest, ACompleteRoundMayHaveToWait) {
  waits = true;
  for (uint32_t rank : {0, 1, 2}) {
    Begun begun{Key(1), FactsOf(0b111), 0, {rank + 4, 0, 64}, {}};
    begun.on_device = rank != 1;
    rounds.OnBegun(rank, begun);
  }
  EXPECT_EQ(on_device, 0b101u);
  EXPECT_TRUE(complete.empty());
  Begin(0, 2);
  rounds.OnAbort(0, {Key(2), Late("late")});
  EXPECT_EQ(failed.size(), 1u) << "others go on";
  waits = false;
  rounds.LookAtAll();
  EXPECT_EQ(complete, (Completes{{1, 0b111, 2}}));
  EXPECT_EQ(parts.size(), 3u);
}

TEST_F(LocalRoundsTest, ARoundThatWaitsEndsInTheErrorOfARank) {
  waits = true;
  for (uint32_t rank : {0, 1, 2}) Begin(rank, 1);
  rounds.OnAbort(1, {Key(1), Late("late")});
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].to, 0b111u);
  EXPECT_TRUE(broken_off.empty());
  waits = false;
  rounds.LookAtAll();
  EXPECT_TRUE(complete.empty());
}

}  // namespace
}  // namespace byteps::machine
