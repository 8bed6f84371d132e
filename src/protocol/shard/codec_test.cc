// The payload differs from the piece: encoded contributions and verdicts go through push, answer,
// repeat and adoption, with the simplest codec.
#include "src/protocol/codec_for_test.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/room_for_test.h"
#include "src/protocol/shard/shard_fixture_for_test.h"

namespace byteps::protocol {
namespace {

std::string Encoded(float value) {
  std::string text(2, '\0');
  Bfloat16Codec().Encode(DataType::kFloat32, std::as_bytes(std::span(&value, 1)),
                         std::as_writable_bytes(std::span(text)));
  return text;
}

class CodecTest : public testing::Test {
 protected:
  CodecTest() { shard.OnView(view, 0); }

  static wire::DataHeader Header(const std::string& payload, Combine combine = Combine::kSum) {
    wire::DataHeader header = PushOf({7, 0, 1}, 4, combine);
    header.dtype = DataType::kFloat32;
    header.codec = CodecsForTest::kBfloat16;
    header.encoded_bytes = static_cast<uint32_t>(payload.size());
    return header;
  }
  Status Send(Shard& to, Slot from, const wire::DataHeader& header, const std::string& payload,
              bool verdict = false) {
    auto kind = verdict ? wire::FrameKind::kVerdict : wire::FrameKind::kPush;
    Result<ByteSpan> place = to.OnDataHeader(from, kind, header, payload.size(), kStart);
    if (!place.ok()) return place.status();
    auto bytes = std::as_bytes(std::span(payload));
    std::copy(bytes.begin(), bytes.end(), place.value().begin());
    to.OnPayload(from);
    return Status::Ok();
  }
  Status Push(Slot from, const std::string& payload) {
    return Send(shard, from, Header(payload), payload);
  }

  CodecsForTest codecs;
  BufferPool pool;
  KernelArithmetic arithmetic;
  RecordingShardDriver driver;
  wire::View view = ViewFor(2, 1);
  Shard shard{ShardOptions{.codecs = &codecs}, pool, arithmetic, driver};
};

TEST_F(CodecTest, TheVerdictIsItsEncodedBytes) {
  EXPECT_TRUE(Push(0, Encoded(1.5F)).ok());
  EXPECT_TRUE(Push(1, Encoded(2)).ok());
  ASSERT_EQ(driver.answers.size(), 2u);
  for (const SentAnswer& answer : driver.answers) {
    EXPECT_EQ(answer.bytes, Encoded(3.5F));
    EXPECT_EQ(answer.header.codec, CodecsForTest::kBfloat16);
    EXPECT_EQ(answer.header.encoded_bytes, 2u);
    EXPECT_EQ(answer.header.piece_bytes, 4u);
    EXPECT_EQ(answer.header.want_bytes, 4u);
  }
}

// The sum is rounded once, when it is encoded. In bfloat16 each single 1 of 256 + 1 + 1 would be
// lost.
TEST_F(CodecTest, TheSumItselfIsNotEncodedOnTheWay) {
  view = ViewFor(3, 1);
  view.generation = view.epoch = view.began = 2;
  shard.OnView(view, 0);
  float values[] = {256, 1, 1};
  for (Slot slot = 0; slot < 3; ++slot) {
    wire::DataHeader header = Header(Encoded(values[slot]));
    header.generation = 2;
    header.epoch = 2;
    EXPECT_TRUE(Send(shard, slot, header, Encoded(values[slot])).ok());
  }
  ASSERT_EQ(driver.answers.size(), 3u);
  EXPECT_EQ(driver.answers[0].bytes, Encoded(258));
}

TEST_F(CodecTest, ARepeatIsAnsweredWithTheSameBytes) {
  EXPECT_TRUE(Push(0, Encoded(1.5F)).ok());
  EXPECT_TRUE(Push(1, Encoded(2)).ok());
  shard.OnLost(1);
  EXPECT_TRUE(Push(1, Encoded(2)).ok());
  ASSERT_EQ(driver.answers.size(), 3u);
  EXPECT_EQ(driver.answers[2].bytes, Encoded(3.5F));
  EXPECT_EQ(driver.answers[2].header.codec, CodecsForTest::kBfloat16);
}

TEST_F(CodecTest, AnAdoptedVerdictIsAnsweredAsItWasTold) {
  view.epoch = 2;
  view.generation = 2;
  view.servers[0].since = 2;
  shard.OnView(view, 0);
  wire::DataHeader header = Header(Encoded(5));
  header.generation = header.epoch = 2;
  EXPECT_TRUE(Send(shard, 0, header, Encoded(1)).ok());
  EXPECT_TRUE(Send(shard, 1, header, Encoded(5), true).ok());
  ASSERT_EQ(driver.answers.size(), 2u);
  EXPECT_EQ(driver.answers[0].to, 0u);
  EXPECT_EQ(driver.answers[0].bytes, Encoded(5));
  header.codec = 0;
  header.encoded_bytes = 4;
  EXPECT_EQ(Send(shard, 0, header, "abcd").code(), StatusCode::kProtocol) << "not what was decided";
}

TEST_F(CodecTest, WhatCannotBeDecodedIsAnErrorForAll) {
  EXPECT_TRUE(Push(0, "abc").ok());
  EXPECT_TRUE(Push(1, Encoded(2)).ok());
  ASSERT_EQ(driver.answers.size(), 2u);
  for (const SentAnswer& answer : driver.answers) {
    EXPECT_EQ(ErrorIn(answer).message(),
              "what worker 0 pushed cannot be decoded: these are not the bfloat16 of the piece's "
              "float32");
    EXPECT_EQ(answer.header.codec, 0);
  }
}

// A server that was started without the codec is no reason to lose a worker.
TEST_F(CodecTest, ACodecThatTheServerDoesNotHaveIsAnErrorForAll) {
  wire::DataHeader header = Header("ab");
  header.codec = 3;
  for (Slot slot : {0u, 1u}) EXPECT_TRUE(Send(shard, slot, header, "ab").ok());
  ASSERT_EQ(driver.answers.size(), 2u);
  for (const SentAnswer& answer : driver.answers) {
    EXPECT_EQ(ErrorIn(answer).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(ErrorIn(answer).message(),
              "the server of shard 0 has no codec 3, which the workers use: start all servers with "
              "the codecs of the workers, or give the tensor another codec");
    EXPECT_EQ(answer.header.codec, 0);
  }
  header = Header(Encoded(1));
  header.ref.round = 2;
  for (Slot slot : {0u, 1u}) EXPECT_TRUE(Send(shard, slot, header, Encoded(1)).ok());
  ASSERT_EQ(driver.answers.size(), 4u);
  EXPECT_EQ(driver.answers[2].bytes, Encoded(2));
}

TEST_F(CodecTest, ATypeThatTheCodecDoesNotEncodeIsAnErrorForAll) {
  wire::DataHeader header = Header("ab");
  header.dtype = DataType::kInt32;
  for (Slot slot : {0u, 1u}) EXPECT_TRUE(Send(shard, slot, header, "ab").ok());
  ASSERT_EQ(driver.answers.size(), 2u);
  EXPECT_EQ(ErrorIn(driver.answers[0]).message(),
            "the server of shard 0 has no codec 9 for int32, which the workers use: start all "
            "servers with the codecs of the workers, or give the tensor another codec");
}

// The next owner need not decode a decided piece.
TEST_F(CodecTest, AVerdictIsAdoptedWithoutItsCodec) {
  view.epoch = 2;
  view.generation = 2;
  view.servers[0].since = 2;
  shard.OnView(view, 0);
  wire::DataHeader header = Header("ab");
  header.codec = 3;
  header.generation = header.epoch = 2;
  EXPECT_TRUE(Send(shard, 0, header, "xy").ok());
  EXPECT_TRUE(Send(shard, 1, header, "ab", true).ok());
  ASSERT_EQ(driver.answers.size(), 2u);
  EXPECT_EQ(driver.answers[0].to, 0u);
  EXPECT_EQ(driver.answers[0].bytes, "ab");
  EXPECT_EQ(driver.answers[0].header.codec, 3);
}

TEST_F(CodecTest, WhatNoCorrectWorkerSendsIsRefused) {
  wire::DataHeader header = Header("ab");
  header.want_bytes = 2;
  EXPECT_EQ(Send(shard, 0, header, "ab").code(), StatusCode::kProtocol) << "a part";
  EXPECT_EQ(Send(shard, 0, Header("ab", Combine::kOverlay), "ab").code(), StatusCode::kProtocol);
  EXPECT_TRUE(Push(0, "ab").ok());
  header = Header("abcd");
  header.codec = 0;
  EXPECT_EQ(Send(shard, 1, header, "abcd").message(),
            "push refused: worker 1 pushed with codec 0 where worker 0 pushed with codec 9");
}

// A member that wants nothing of an encoded piece is answered without bytes, after the members that
// want it.
TEST_F(CodecTest, WhoWantsNothingIsSentNothing) {
  wire::DataHeader nothing = Header(Encoded(1));
  nothing.want_bytes = 0;
  EXPECT_TRUE(Send(shard, 0, nothing, Encoded(1)).ok());
  EXPECT_TRUE(Push(1, Encoded(2)).ok());
  ASSERT_EQ(driver.answers.size(), 1u);
  EXPECT_EQ(driver.answers[0].bytes, Encoded(3));
  Say(shard, 1, wire::Ack{1, 1});
  ASSERT_EQ(driver.answers.size(), 2u);
  EXPECT_TRUE(driver.answers[1].bytes.empty());
  EXPECT_EQ(driver.answers[1].header.encoded_bytes, 0u);
}

TEST_F(CodecTest, NothingIsLeft) {
  EXPECT_TRUE(Push(0, Encoded(1)).ok());
  EXPECT_TRUE(Push(1, Encoded(2)).ok());
  for (Slot slot : {0u, 1u}) Say(shard, slot, wire::Ack{1, 1});
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

}  // namespace
}  // namespace byteps::protocol
