#include "src/machine/room/open_rounds.h"

#include <gtest/gtest.h>

#include "src/machine/machine_for_test.h"
#include "src/machine/room/shared_room.h"

namespace byteps::machine {
namespace {

class OpenRoundsTest : public testing::Test {
 protected:
  OpenRoundsTest() {
    exchange.serial = 7;
    exchange.tensor.id = 3;
    exchange.use = 9;
    exchange.count = 4;
    exchange.first_piece = 1;
  }

  WindowForTest window{SharedRoom::ShapeFor(2)};
  BlockWork work{window.of(0), {}};
  OpenRounds<int> open{work};
  protocol::Exchange exchange;
  const RoundKey key{3, 9, 1};
};

TEST_F(OpenRoundsTest, ARoundIsFoundByKeyAndBySerialUntilItEnds) {
  EXPECT_EQ(open.Find(key), nullptr);
  EXPECT_FALSE(open.KeyOf(7).has_value());
  open.Begin(exchange).extra = 5;
  ASSERT_NE(open.Find(key), nullptr);
  EXPECT_EQ(open.Find(key)->exchange, &exchange);
  EXPECT_EQ(open.KeyOf(7), key);
  EXPECT_EQ(open.Find({3, 9, 2}), nullptr);
  EXPECT_EQ(open.End(key), 5);
  EXPECT_EQ(open.Find(key), nullptr);
  EXPECT_FALSE(open.KeyOf(7).has_value());
}

TEST_F(OpenRoundsTest, AKeyThatIsBegunAgainKnowsNothingOfBefore) {
  open.Begin(exchange).extra = 5;
  open.End(key);
  exchange.serial = 8;
  EXPECT_EQ(open.Begin(exchange).extra, 0);
  EXPECT_FALSE(open.KeyOf(7).has_value());
  EXPECT_EQ(open.KeyOf(8), key);
}

TEST_F(OpenRoundsTest, LooksAtAll) {
  auto is_five = [](const auto& round) { return round.extra == 5; };
  EXPECT_FALSE(open.Any(is_five));
  open.Begin(exchange).extra = 5;
  EXPECT_TRUE(open.Any(is_five));
}

TEST_F(OpenRoundsTest, ThePartOfARoundHasAllItsPieces) {
  const Time now = Time() + seconds(2);
  protocol::to_front::PartDone good = PartOf(exchange, Status::Ok(), now);
  EXPECT_EQ(good.serial, 7u);
  EXPECT_EQ(good.tensor, 3u);
  EXPECT_EQ(good.pieces, 4u);
  EXPECT_EQ(good.now, now);
  EXPECT_TRUE(good.status.ok());
  const Status why(StatusCode::kPeerLost, "why");
  protocol::to_front::PartDone bad = PartOf(exchange, why, now);
  EXPECT_EQ(bad.status, why);
  EXPECT_EQ(bad.failed_piece, 1u);
  EXPECT_EQ(ReleasedOf(exchange).serial, 7u);
  EXPECT_EQ(ReleasedOf(exchange).tensor, 3u);
}

}  // namespace
}  // namespace byteps::machine
