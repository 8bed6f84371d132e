#include "src/protocol/worker/lane/codec_stages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "src/protocol/codec_for_test.h"

namespace byteps::protocol {
namespace {

class CodecStagesTest : public testing::Test {
 protected:
  CodecStagesTest() {
    exchange.name = "w";
    exchange.tensor.codec = CodecsForTest::kBfloat16;
  }

  PieceInHand Hand(std::optional<ConstByteSpan> input) {
    Spans spans;
    spans.push = std::as_bytes(std::span(numbers));
    spans.want = std::as_writable_bytes(std::span(result));
    return {exchange, {}, spans, StatusCode::kOk, input, staged, pool, output, {}};
  }

  CodecsForTest codecs;
  BufferPool pool;
  EncodeStage encode{codecs};
  DecodeStage decode{codecs};
  Exchange exchange;
  float numbers[2] = {1.5F, -2.0F};
  float result[2] = {};
  bool staged = false;
  PieceBytes output;
};

TEST_F(CodecStagesTest, WhatIsEncodedIsDecoded) {
  PieceInHand before = Hand(std::as_bytes(std::span(numbers)));
  EXPECT_EQ(encode.Enter(before), StageVerdict::kDone);
  EXPECT_TRUE(output.there);
  EXPECT_EQ(output.bytes, 4U);
  PieceBytes encoded = std::exchange(output, PieceBytes());
  PieceInHand behind = Hand(encoded.span());
  EXPECT_EQ(decode.Enter(behind), StageVerdict::kDone);
  EXPECT_EQ(result[0], 1.5F);
  EXPECT_EQ(result[1], -2.0F);
  EXPECT_FALSE(output.there) << "it is where it is wanted";
}

TEST_F(CodecStagesTest, WhatTheStageBeforeHasMadeIsEncoded) {
  const float fetched[2] = {7, 8};
  PieceInHand before = Hand(std::as_bytes(std::span(fetched)));
  ASSERT_EQ(encode.Enter(before), StageVerdict::kDone);
  PieceBytes encoded = std::exchange(output, PieceBytes());
  PieceInHand behind = Hand(encoded.span());
  ASSERT_EQ(decode.Enter(behind), StageVerdict::kDone);
  EXPECT_EQ(result[0], 7);
  EXPECT_EQ(result[1], 8);
}

TEST_F(CodecStagesTest, WhatAnotherStageStoresIsDecodedIntoABuffer) {
  PieceInHand before = Hand(std::as_bytes(std::span(numbers)));
  ASSERT_EQ(encode.Enter(before), StageVerdict::kDone);
  PieceBytes encoded = std::exchange(output, PieceBytes());
  staged = true;
  PieceInHand behind = Hand(encoded.span());
  EXPECT_EQ(decode.Enter(behind), StageVerdict::kDone);
  EXPECT_EQ(result[0], 0);
  ASSERT_EQ(output.bytes, 8U);
  EXPECT_EQ(std::memcmp(output.span().data(), numbers, 8), 0);
}

TEST_F(CodecStagesTest, WithoutInputNothingIsDecoded) {
  PieceInHand nothing = Hand(std::nullopt);
  EXPECT_EQ(decode.Enter(nothing), StageVerdict::kDone);
  EXPECT_FALSE(output.there);
}

TEST_F(CodecStagesTest, WhatCannotBeDecodedSaysWhy) {
  const std::byte wrong[1] = {};
  PieceInHand hand = Hand(wrong);
  EXPECT_EQ(decode.Enter(hand), StageVerdict::kFailed);
  EXPECT_EQ(hand.error.code(), StatusCode::kProtocol);
}

TEST_F(CodecStagesTest, WithoutTheCodecBothFailAndNameTheTensor) {
  exchange.tensor.codec = 3;
  for (PieceStage* stage : {static_cast<PieceStage*>(&encode), static_cast<PieceStage*>(&decode)}) {
    PieceInHand hand = Hand(std::as_bytes(std::span(numbers)));
    EXPECT_EQ(stage->Enter(hand), StageVerdict::kFailed);
    EXPECT_EQ(hand.error.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(hand.error.message().find("codec 3"), std::string::npos);
    EXPECT_NE(hand.error.message().find("'w'"), std::string::npos);
  }
}

}  // namespace
}  // namespace byteps::protocol
