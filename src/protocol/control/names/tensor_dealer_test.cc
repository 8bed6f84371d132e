#include "src/protocol/control/names/tensor_dealer.h"

#include <gtest/gtest.h>

#include "src/operations/sizes.h"
#include "src/wire/control.h"

namespace byteps::protocol {
namespace {

class TensorDealerTest : public testing::Test {
 protected:
  TensorDealerTest() { Begin(dealer); }
  static wire::TensorSpec SpecOf(int64_t elements) {
    return {wire::Op::kSum, DataType::kFloat32, 0, {elements}};
  }
  static void Begin(TensorDealer& which) {
    which.Begin(plan::PieceAssigner::Create({{1, 1}}, 4096).value(), 4, 4096);
  }
  TensorDealer dealer;
};

TEST_F(TensorDealerTest, NumbersRiseAndEnd) {
  dealer.Number(10, 2);
  EXPECT_EQ(dealer.Deal(SpecOf(3)).value().tensor, 10u);
  EXPECT_EQ(dealer.Deal(SpecOf(-1)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(dealer.Deal(SpecOf(3)).value().tensor, 11u);
  EXPECT_EQ(dealer.Deal(SpecOf(3)).status().code(), StatusCode::kExhausted);
}

TEST_F(TensorDealerTest, ARestartedOneDealsOnWhereTheLatestTensorEnded) {
  Attempt attempt;
  const Attempt::Entry& first = attempt.Add(SpecOf(3), dealer.Deal(SpecOf(3)).value());
  std::vector<uint64_t> expected = dealer.Deal(SpecOf(4)).value().placement;
  TensorDealer next;
  Begin(next);
  next.Number(100, 10);
  EXPECT_TRUE(next.StillKnown().empty());
  next.Hear(1);
  next.Hear(105);
  ASSERT_TRUE(next.GoOnAfter(&first).ok());
  EXPECT_EQ(next.Deal(SpecOf(4)).value().placement, expected);
  ASSERT_EQ(next.StillKnown().size(), 1u);
  EXPECT_EQ(next.StillKnown()[0], (wire::StillKnown{0, 100, {1}}))
      << "its own numbers are no matter of the earlier ones";
}

TEST_F(TensorDealerTest, ALongListOfWhatIsStillKnownComesInParts) {
  constexpr TensorId kFirst = 1 << 22;
  constexpr TensorId kTensors = 600000;
  dealer.Number(kFirst, 1000);
  for (TensorId i = 0; i < kTensors; ++i) dealer.Hear(2 * i + 1);
  ASSERT_TRUE(dealer.GoOnAfter(nullptr).ok());
  std::vector<wire::StillKnown> parts = dealer.StillKnown();
  ASSERT_EQ(parts.size(), 3u);
  TensorId at = 0;
  TensorId next = 1;
  for (const wire::StillKnown& part : parts) {
    EXPECT_EQ(part.first, at) << "nothing lies between two parts";
    EXPECT_LT(wire::EncodeControl(part).size(), wire::kControlBytesMax / 8);
    for (TensorId tensor : part.tensors) {
      ASSERT_EQ(tensor, next);
      ASSERT_TRUE(part.first <= tensor && tensor < part.end);
      next += 2;
    }
    at = part.end;
  }
  EXPECT_EQ(at, kFirst);
  EXPECT_EQ(next, 2 * kTensors + 1);
}

TEST_F(TensorDealerTest, AGenerationDealsFromTheStartAndHasHeardNothing) {
  std::vector<uint64_t> first = dealer.Deal(SpecOf(3)).value().placement;
  std::vector<uint64_t> second = dealer.Deal(SpecOf(3)).value().placement;
  EXPECT_NE(first, second);
  dealer.Number(10, 5);
  dealer.Hear(3);
  Begin(dealer);
  EXPECT_EQ(dealer.Deal(SpecOf(3)).value().placement, first);
  EXPECT_TRUE(dealer.StillKnown().empty()) << "nobody has been asked";
  ASSERT_TRUE(dealer.GoOnAfter(nullptr).ok());
  EXPECT_EQ(dealer.StillKnown()[0], (wire::StillKnown{0, 10, {}})) << "all older ones are unknown";
}

TEST_F(TensorDealerTest, ATensorOfTooManyPiecesIsRefusedWithAdvice) {
  Status status = dealer.Deal(SpecOf(int64_t{operations::kPiecesMax} * 4096)).status();
  EXPECT_EQ(status.code(), StatusCode::kExhausted);
  EXPECT_NE(status.message().find("raise BYTEPS_PARTITION_BYTES"), std::string::npos);
  EXPECT_EQ(dealer.Deal(SpecOf(3)).value().tensor, 1u) << "its number is not spent";
}

TEST_F(TensorDealerTest, AStateThatIsNoneIsAnError) {
  Attempt attempt;
  const Attempt::Entry& strange = attempt.Add(SpecOf(3), {1, {1, 2, 3, 4, 5, 6, 7}});
  EXPECT_FALSE(dealer.GoOnAfter(&strange).ok());
}

}  // namespace
}  // namespace byteps::protocol
