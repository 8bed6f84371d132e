// Contributors that speak for several ranks. Averages count ranks, not contributors.
#include <gtest/gtest.h>

#include "src/protocol/shard/room_for_test.h"
#include "src/protocol/shard/shard_fixture_for_test.h"
#include "src/protocol/shard/shard_mistakes_for_test.h"

namespace byteps::protocol {
namespace {

// The contributors have 2 ranks and 1 rank.
class ContributorsTest : public testing::TestWithParam<ShardMistake> {
 protected:
  ContributorsTest() {
    view = ViewOfContributors({2, 1});
    shard.OnView(view, 0);
  }
  void Push(Slot from, uint32_t set, const std::string& text) {
    wire::DataHeader header = PushOf({7, 0, 1}, 1, Combine::kAverage);
    header.process_set = set;
    Result<ByteSpan> place = shard.OnDataHeader(from, wire::FrameKind::kPush, header, 1, kStart);
    ASSERT_TRUE(place.ok()) << place.status().message();
    place.value()[0] = static_cast<std::byte>(text[0]);
    shard.OnPayload(from);
  }
  std::string Average() { return driver.answers.empty() ? "" : driver.answers[0].bytes; }

  wire::View view;
  BufferPool pool;
  KernelArithmetic arithmetic;
  RecordingShardDriver driver;
  MistakenShard mistaken{GetParam(), arithmetic, driver};
  Shard shard{mistaken.OptionsFrom({}), pool, mistaken.arithmetic(), mistaken.driver()};
};

TEST_P(ContributorsTest, AnAverageCountsRanks) {
  Push(0, 0, "\x05");
  Push(1, 0, "\x01");
  bool right = Average() == "\x02";  // 6 / 3
  EXPECT_EQ(right, GetParam() == ShardMistake::kNone);
}

INSTANTIATE_TEST_SUITE_P(All, ContributorsTest,
                         testing::Values(ShardMistake::kNone,
                                         ShardMistake::kDivisorCountsContributors));

class RightContributorsTest : public ContributorsTest {};

TEST_P(RightContributorsTest, AContributorOfASetSpeaksForItsRanksInIt) {
  for (Slot slot : {0u, 1u}) Say(shard, slot, wire::ProcessSet{4, 1, BitmapOf({1, 2})});
  Push(0, 4, "\x05");
  Push(1, 4, "\x01");
  EXPECT_EQ(Average(), "\x03") << "6 / 2";
}

TEST_P(RightContributorsTest, WhoIsLostCountsWhereItPushed) {
  Push(0, 0, "\x05");
  Lose(view, 0);
  shard.OnView(view, 0);
  Push(1, 0, "\x01");
  EXPECT_EQ(Average(), "\x02") << "6 / 3";
}

TEST_P(RightContributorsTest, WhoHasJoinedCountsWithItsRanks) {
  Say(shard, 0, wire::Joined{1, 1, {}});
  Push(1, 0, "\x09");
  EXPECT_EQ(Average(), "\x03") << "9 / 3";
}

TEST_P(RightContributorsTest, ARankThatHasLeftEndsWhatItsContributorHasNotPushed) {
  view.workers[1].left = true;
  ++view.epoch;
  shard.OnView(view, 0);
  Push(1, 0, "\x01");
  ASSERT_EQ(driver.answers.size(), 1u);
  EXPECT_EQ(driver.answers[0].header.status, StatusCode::kPeerLost);
  Push(0, 0, "\x05");
  EXPECT_EQ(driver.answers.back().to, 0u) << "rank 0 is still there";
}

INSTANTIATE_TEST_SUITE_P(All, RightContributorsTest, testing::Values(ShardMistake::kNone));

}  // namespace
}  // namespace byteps::protocol
