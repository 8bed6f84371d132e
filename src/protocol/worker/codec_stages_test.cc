#include "src/protocol/worker/codec_stages.h"

#include <gtest/gtest.h>

#include <cstring>

#include "src/protocol/codec_for_test.h"

namespace byteps::protocol {
namespace {

class CodecStagesTest : public testing::Test {
 protected:
  CodecStagesTest() {
    exchange.name = "w";
    exchange.tensor.codec = CodecsForTest::kBfloat16;
  }

  // A piece that is pushed from `numbers` and wanted in `result`.
  PieceInHand Hand() {
    Spans spans;
    spans.push = std::as_bytes(std::span(numbers));
    if (wants) spans.want = std::as_writable_bytes(std::span(result));
    return {exchange, {}, spans, contribution, answer, {}};
  }

  CodecsForTest codecs;
  BufferPool pool;
  EncodeStage encode{codecs, pool};
  DecodeStage decode{codecs};
  Exchange exchange;
  float numbers[2] = {1.5F, -2.0F};
  float result[2] = {};
  bool wants = true;
  PieceBytes contribution;
  PieceBytes answer;
};

TEST_F(CodecStagesTest, WhatIsEncodedIsDecoded) {
  PieceInHand before = Hand();
  EXPECT_EQ(encode.Enter(before), StageVerdict::kDone);
  EXPECT_TRUE(contribution.there);
  EXPECT_EQ(contribution.bytes, 4U);
  answer = contribution;
  PieceInHand behind = Hand();
  EXPECT_EQ(decode.Enter(behind), StageVerdict::kDone);
  EXPECT_EQ(result[0], 1.5F);
  EXPECT_EQ(result[1], -2.0F);
}

TEST_F(CodecStagesTest, AContributionIsEncodedOnceForAllAttempts) {
  PieceInHand hand = Hand();
  ASSERT_EQ(encode.Enter(hand), StageVerdict::kDone);
  const std::byte* made = contribution.buffer.data();
  numbers[0] = 7;  // a result in place has overwritten it
  EXPECT_EQ(encode.Enter(hand), StageVerdict::kDone);
  EXPECT_EQ(contribution.buffer.data(), made);
  answer = contribution;
  PieceInHand behind = Hand();
  ASSERT_EQ(decode.Enter(behind), StageVerdict::kDone);
  EXPECT_EQ(result[0], 1.5F);
}

TEST_F(CodecStagesTest, WhatNobodyWantsOrSentIsNotDecoded) {
  PieceInHand error = Hand();
  EXPECT_EQ(decode.Enter(error), StageVerdict::kDone) << "an error has no encoded bytes";
  wants = false;
  answer = {true, pool.Take(1), 0, 1};
  PieceInHand unwanted = Hand();
  EXPECT_EQ(decode.Enter(unwanted), StageVerdict::kDone);
}

TEST_F(CodecStagesTest, WhatCannotBeDecodedSaysWhy) {
  answer = {true, pool.Take(1), 0, 1};
  PieceInHand hand = Hand();
  EXPECT_EQ(decode.Enter(hand), StageVerdict::kFailed);
  EXPECT_EQ(hand.error.code(), StatusCode::kProtocol);
}

TEST_F(CodecStagesTest, WithoutTheCodecBothFailAndNameTheTensor) {
  exchange.tensor.codec = 3;
  answer = {true, pool.Take(4), 0, 4};
  for (PieceStage* stage : {static_cast<PieceStage*>(&encode), static_cast<PieceStage*>(&decode)}) {
    PieceInHand hand = Hand();
    EXPECT_EQ(stage->Enter(hand), StageVerdict::kFailed);
    EXPECT_EQ(hand.error.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(hand.error.message().find("codec 3"), std::string::npos);
    EXPECT_NE(hand.error.message().find("'w'"), std::string::npos);
  }
}

}  // namespace
}  // namespace byteps::protocol
