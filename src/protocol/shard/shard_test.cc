#include "src/protocol/shard/shard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "src/base/allocation_count_for_test.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/shard/shard_fixture_for_test.h"
#include "src/protocol/shard/shard_for_test.h"

namespace byteps::protocol {
namespace {

class ThreeWorkersTest : public ShardTest {
 protected:
  ThreeWorkersTest() : ShardTest(3) {}
};

TEST_F(ShardTest, TheLastContributionIsAnsweredToAll) {
  EXPECT_TRUE(Sum(1, 7, 1, "\x01\x02"));
  EXPECT_TRUE(driver.answers.empty());
  EXPECT_TRUE(Sum(0, 7, 1, "\x10\x20"));
  ASSERT_EQ(driver.answers.size(), 2u);
  for (const SentAnswer& answer : driver.answers) {
    EXPECT_EQ(answer.bytes, "\x11\x22");
    EXPECT_EQ(answer.header.count, 1u);
    EXPECT_EQ(answer.header.status, StatusCode::kOk);
  }
  EXPECT_EQ(shard.open_rounds(), 0u);
}

// A contribution that lies in a buffer of the pool already is not copied (BufferPool::Offer).
TEST_F(ShardTest, AContributionStaysInTheBufferInWhichItHasArrived) {
  const std::string texts[] = {"\x01\x02", "\x10\x20"};
  for (Slot from : {0u, 1u}) {
    BufferRef lying = pool.Take(4096);
    std::memcpy(lying.data(), texts[from].data(), 2);
    pool.Offer(lying, 2);
    Result<ByteSpan> place = Begin(from, Header(7, 1, 2, Combine::kSum), 2);
    EXPECT_TRUE(pool.EndOffer());
    ASSERT_TRUE(place.ok());
    EXPECT_EQ(place.value().data(), lying.data());
    shard.OnPayload(from);
  }
  ASSERT_EQ(driver.answers.size(), 2u);
  for (const SentAnswer& answer : driver.answers) EXPECT_EQ(answer.bytes, "\x11\x22");
}

TEST_F(ThreeWorkersTest, ContributionsAreCombinedInSlotOrder) {
  auto bytes = [](float value) {
    std::string text(4, '\0');
    std::memcpy(text.data(), &value, 4);
    return text;
  };
  std::vector<std::string> inputs = {bytes(1e8F), bytes(-1e8F), bytes(1.0F)};
  std::vector<std::string> sums;
  uint64_t round = 0;
  for (std::vector<Slot> order : {std::vector<Slot>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    ++round;
    for (Slot slot : order) {
      wire::DataHeader header = Header(7, round, 4, Combine::kSum);
      header.dtype = DataType::kFloat32;
      EXPECT_TRUE(Push(slot, header, inputs[slot]));
    }
    sums.push_back(driver.answers.back().bytes);
  }
  EXPECT_EQ(sums, std::vector<std::string>(3, bytes(1.0F)));
}

TEST_F(ShardTest, ARepeatedPushCountsOnceAndIsAnsweredFromTheVerdict) {
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));  // undecided: nothing happens
  EXPECT_TRUE(driver.answers.empty());
  EXPECT_TRUE(Sum(1, 7, 1, "\x02"));
  ASSERT_EQ(driver.answers.size(), 2u);
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  ASSERT_EQ(driver.answers.size(), 3u);
  EXPECT_EQ(driver.answers[2].bytes, "\x03");
}

// A larger piece in a repeat would read the memory behind the verdict.
TEST_F(ShardTest, ARepeatOfAnotherSizeIsRefused) {
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  EXPECT_TRUE(Sum(1, 7, 1, "\x02"));
  Result<ByteSpan> place = Begin(0, Header(7, 1, 2000, Combine::kSum), 2000);
  ASSERT_FALSE(place.ok());
  EXPECT_EQ(place.status().code(), StatusCode::kProtocol);
}

TEST_F(ShardTest, AnotherKindOfPushIsRefusedWhileTheFirstOneComesIn) {
  wire::DataHeader header = Header(7, 1, 4, Combine::kSum);
  Result<ByteSpan> place = Begin(0, header, 4);
  ASSERT_TRUE(place.ok());
  wire::DataHeader other = header;
  other.dtype = DataType::kFloat32;
  EXPECT_EQ(Begin(1, other, 4).status().code(), StatusCode::kProtocol);
  std::fill(place->begin(), place->end(), std::byte{1});
  shard.OnPayload(0);
  EXPECT_TRUE(Sum(1, 7, 1, "\x01\x02\x03\x04"));
  ASSERT_EQ(driver.answers.size(), 2u);
  EXPECT_EQ(driver.answers[0].bytes, "\x02\x03\x04\x05");
}

// Worker 1 disagrees about the home of the piece. By one opinion a view takes the piece away from
// here, by the other it is still here. So worker 0's payload has lost its place.
TEST_F(ShardTest, APayloadWhoseRoundBeganAgainIsForgotten) {
  auto kill = [&](bool alive) {
    view.servers[1].alive = alive;
    view.servers[1].since = ++view.epoch;
    shard.OnView(view, 0);
  };
  view.servers.push_back(view.servers[0]);
  view.servers[1].index = view.servers[1].first_shard = 1;
  kill(false);
  wire::DataHeader header = Header(7, 1, 0, Combine::kSum);  // no bytes, so no place at all
  header.epoch = view.epoch;
  header.home = 1;
  ASSERT_TRUE(Begin(0, header, 0).ok());
  kill(true);
  EXPECT_EQ(shard.open_rounds(), 0u);
  EXPECT_TRUE(Sum(1, 7, 1, "\x01"));
  shard.OnPayload(0);
  EXPECT_EQ(shard.open_rounds(), 1u);
  EXPECT_TRUE(driver.answers.empty());
}

TEST_F(ShardTest, ARepeatAnsweredTwiceIsOneHolder) {
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  EXPECT_TRUE(Sum(1, 7, 1, "\x02"));
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  Say(shard, 0, wire::Ack{2, 1}, now);  // both answers to worker 0; worker 1 may still lack it
  EXPECT_EQ(shard.unstable_verdicts(), 1u);
  Say(shard, 1, wire::Ack{1, 1}, now);
  EXPECT_EQ(shard.unstable_verdicts(), 0u);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST_F(ShardTest, AcknowledgementsFreeTheVerdict) {
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  EXPECT_TRUE(Sum(1, 7, 1, "\x02"));
  EXPECT_EQ(shard.unstable_verdicts(), 1u);
  Say(shard, 0, wire::Ack{99, 1}, now);  // more than was ever sent counts as all
  Say(shard, 1, wire::Ack{1, 1}, now);
  EXPECT_EQ(shard.unstable_verdicts(), 0u);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST_F(ShardTest, NewsOfStabilityWaitsAWhileFromItsEvent) {
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  EXPECT_TRUE(Sum(1, 7, 1, "\x02"));
  now = kStart + seconds(1);
  Say(shard, 0, wire::Ack{1, 1}, now);
  Say(shard, 1, wire::Ack{1, 1}, now);
  EXPECT_EQ(shard.NextTick(), now + ShardOptions().stable_after);
}

TEST_F(ShardTest, TheNextRoundReplacesTheVerdict) {
  for (uint64_t round = 1; round <= 3; ++round) {
    EXPECT_TRUE(Sum(0, 7, round, "\x01"));
    EXPECT_TRUE(Sum(1, 7, round, "\x02"));
    EXPECT_EQ(shard.unstable_verdicts(), 1u);
  }
  size_t answers = driver.answers.size();
  EXPECT_TRUE(Sum(0, 7, 2, "\x01"));  // over for every member
  EXPECT_EQ(driver.answers.size(), answers);
  EXPECT_EQ(shard.open_rounds(), 0u);
}

TEST_F(ShardTest, PushesCarryAcknowledgementsAndAnswersTheWatermark) {
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  EXPECT_TRUE(Sum(1, 7, 1, "\x02"));
  EXPECT_TRUE(Sum(0, 8, 1, "\x01", 1));
  EXPECT_TRUE(Sum(1, 8, 1, "\x02", 1));
  EXPECT_EQ(driver.answers[1].header.unstable, 1u);
  EXPECT_EQ(driver.answers[3].header.unstable, 1u);  // every member has round 1 of tensor 7
  EXPECT_EQ(shard.unstable_verdicts(), 1u);
}

TEST_F(ShardTest, APieceMayMissRounds) {
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  EXPECT_TRUE(Sum(1, 7, 1, "\x02"));
  EXPECT_TRUE(Sum(0, 7, 5, "\x03"));
  EXPECT_FALSE(Sum(1, 7, 6, "\x03"));  // round 5 is open and lacks worker 1
  EXPECT_TRUE(Sum(1, 7, 5, "\x04"));
  EXPECT_EQ(driver.answers.back().bytes, "\x07");
}

TEST_F(ShardTest, RoundsCountToTheEndOf64Bits) {
  for (uint64_t round : {UINT64_MAX - 1, UINT64_MAX}) {
    EXPECT_TRUE(Sum(0, 7, round, "\x01"));
    EXPECT_TRUE(Sum(1, 7, round, "\x02"));
    EXPECT_EQ(driver.answers.back().header.ref.round, round);
  }
  EXPECT_FALSE(Sum(0, 7, 0, "\x01"));
}

TEST_F(ThreeWorkersTest, WantsNameWhatIsMissingOnceASecond) {
  EXPECT_TRUE(Sum(1, 7, 1, "\x01"));
  ASSERT_TRUE(shard.NextTick().has_value());
  EXPECT_EQ(*shard.NextTick(), kStart + milliseconds(10));
  shard.OnTick(kStart + milliseconds(10));
  ASSERT_EQ(driver.wants.size(), 2u);
  EXPECT_EQ(driver.wants[0].first, 0u);
  EXPECT_EQ(driver.wants[1].first, 2u);
  EXPECT_EQ(driver.wants[0].second, (std::vector<wire::PieceRef>{{7, 0, 1}}));
  EXPECT_TRUE(Sum(2, 7, 1, "\x01"));
  ASSERT_EQ(*shard.NextTick(), kStart + milliseconds(1010));
  shard.OnTick(kStart + milliseconds(1010));  // the first want may have met no connection
  ASSERT_EQ(driver.wants.size(), 3u);
  EXPECT_EQ(driver.wants[2].first, 0u);
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  EXPECT_FALSE(shard.NextTick().has_value());
}

TEST_F(ShardTest, WhoHasLeftEndsRoundsItDidNotJoin) {
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  Leave(1);
  ASSERT_EQ(driver.answers.size(), 1u);
  EXPECT_EQ(driver.answers[0].header.status, StatusCode::kPeerLost);
  EXPECT_EQ(ErrorIn(driver.answers[0]).message().substr(0, 17), "worker 1 has left");
  EXPECT_TRUE(Sum(0, 8, 1, "\x01"));  // each later round ends at once, too
  ASSERT_EQ(driver.answers.size(), 2u);
  EXPECT_EQ(driver.answers[1].header.status, StatusCode::kPeerLost);
  Say(shard, 0, wire::Ack{2, 1}, now);
  EXPECT_EQ(shard.unstable_verdicts(), 0u) << "who has left need not hold it";
}

TEST_F(ShardTest, WhoHasLeftStillCountsWhereItPushed) {
  EXPECT_TRUE(Sum(1, 7, 1, "\x01"));
  Leave(1);
  EXPECT_TRUE(Sum(0, 7, 1, "\x02"));
  ASSERT_EQ(driver.answers.size(), 1u);
  EXPECT_EQ(driver.answers[0].to, 0u);
  EXPECT_EQ(driver.answers[0].bytes, "\x03");
  Say(shard, 0, wire::Ack{1, 1}, now);
  EXPECT_EQ(shard.unstable_verdicts(), 0u);
}

TEST_F(ThreeWorkersTest, AnErrorVerdictReachesWhoPushesLater) {
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  Leave(1);
  EXPECT_TRUE(Sum(0, 7, 2, "\x01"));  // worker 0 goes on before worker 2 has pushed round 1
  EXPECT_TRUE(Sum(2, 7, 1, "\x01"));
  EXPECT_EQ(driver.answers.back().to, 2u);
  EXPECT_EQ(driver.answers.back().header.ref.round, 1u);
  EXPECT_EQ(driver.answers.back().header.status, StatusCode::kPeerLost);
}

// The place of a payload outlives its round, however the round ends.
TEST_F(ShardTest, RetireWhileAPayloadIsReceived) {
  Result<ByteSpan> place = Begin(0, Header(7, 1, 4096, Combine::kSum), 4096);
  ASSERT_TRUE(place.ok());
  shard.Retire({7}, 0);
  EXPECT_GE(pool.bytes_in_use(), 4096u);
  std::memset(place.value().data(), 1, 4096);
  shard.OnPayload(0);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  EXPECT_TRUE(Sum(1, 7, 1, "\x01"));  // a late push is read and dropped
  EXPECT_TRUE(driver.answers.empty());
  EXPECT_EQ(shard.open_rounds(), 0u);
  EXPECT_FALSE(shard.NextTick().has_value());
}

// Only one worker has ever used the tensor. It has got an error alone, or has begun a round. When
// that worker is gone, no member would ever take them.
TEST_F(ThreeWorkersTest, WhatNobodyKnowsAnyMoreIsDropped) {
  for (TensorId tensor : {6, 7, 8, 9}) EXPECT_TRUE(Sum(1, tensor, 1, "\x01"));
  Leave(0);
  EXPECT_EQ(shard.unstable_verdicts(), 4u) << "worker 2 lacks them";
  shard.OnStillKnown({7, 9, {8}});
  EXPECT_EQ(shard.unstable_verdicts(), 3u);
  EXPECT_TRUE(Sum(2, 8, 1, "\x01"));
  EXPECT_EQ(driver.answers.back().header.status, StatusCode::kPeerLost) << "it is known";
  shard.OnStillKnown({0, 100, {8, 9}});
  EXPECT_EQ(shard.unstable_verdicts(), 2u);
  shard.OnStillKnown({0, 100, {}});
  EXPECT_EQ(shard.unstable_verdicts(), 0u);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST_F(ShardTest, AnErrorWhileAPayloadIsReceived) {
  Result<ByteSpan> place = Begin(0, Header(7, 1, 64, Combine::kOverlay), 64);
  ASSERT_TRUE(place.ok());
  Leave(1);
  std::memset(place.value().data(), 1, 64);
  shard.OnPayload(0);
  ASSERT_EQ(driver.answers.size(), 1u);
  EXPECT_EQ(ErrorIn(driver.answers[0]).message().substr(0, 17), "worker 1 has left");
}

TEST_F(ShardTest, ALostConnectionDropsWhatWasNotWhole) {
  ASSERT_TRUE(Begin(0, Header(7, 1, 1, Combine::kSum), 1).ok());
  EXPECT_FALSE(Begin(0, Header(8, 1, 1, Combine::kSum), 1).ok()) << "one inside another";
  shard.OnLost(0);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  EXPECT_TRUE(Sum(1, 7, 1, "\x02"));
  EXPECT_TRUE(driver.answers.empty());
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  ASSERT_EQ(driver.answers.size(), 2u);
  shard.OnLost(0);
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  EXPECT_EQ(driver.answers[2].header.count, 1u) << "a new connection counts from 1";
}

TEST_F(ShardTest, AGenerationForgetsEverything) {
  EXPECT_TRUE(Sum(0, 7, 1, "\x01"));
  view.epoch = view.generation = view.began = 2;
  shard.OnView(view, 0);
  EXPECT_EQ(shard.open_rounds(), 0u);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  EXPECT_FALSE(shard.NextTick().has_value());
  EXPECT_FALSE(Sum(1, 7, 1, "\x01")) << "of the old generation";
}

TEST_F(ShardTest, SpansAreOverlaidAndAnsweredAsWanted) {
  wire::DataHeader header = Header(7, 1, 4);
  header.want_offset = 1;
  header.want_bytes = 2;
  EXPECT_TRUE(Push(0, header, "ab"));
  header = Header(7, 1, 4);
  header.offset = 2;
  EXPECT_TRUE(Push(1, header, "cd"));
  ASSERT_EQ(driver.answers.size(), 2u);
  EXPECT_EQ(driver.answers[0].bytes, "bc");
  EXPECT_EQ(driver.answers[0].header.offset, 1u);
  EXPECT_EQ(driver.answers[1].bytes, "abcd");
}

TEST_F(ShardTest, EmptyPiecesAreRoundsToo) {
  EXPECT_TRUE(Push(0, Header(7, 1, 0), ""));
  EXPECT_TRUE(Push(1, Header(7, 1, 0), ""));
  EXPECT_EQ(driver.answers.size(), 2u);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST_F(ThreeWorkersTest, SteadyStateAllocatesNothing) {
  driver.record = false;
  const std::string bytes(256, '\x01');
  auto play = [&](uint64_t round) {
    for (Slot slot = 0; slot < 3; ++slot) {
      for (TensorId tensor = 0; tensor < 3; ++tensor) {
        wire::DataHeader header = Header(tensor, round, bytes.size(), Combine::kSum);
        header.count = (round - 1) * 3;
        EXPECT_TRUE(Push(slot, header, bytes));
      }
    }
  };
  uint64_t round = 0;
  while (round < 20) play(++round);
  uint64_t before = AllocationCount();
  while (round < 120) play(++round);
  EXPECT_EQ(AllocationCount() - before, 0u);
  EXPECT_EQ(driver.answer_count, 120u * 9);
}

}  // namespace
}  // namespace byteps::protocol
