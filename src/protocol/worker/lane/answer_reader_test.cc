#include "src/protocol/worker/lane/answer_reader.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/protocol/kernel_arithmetic.h"

namespace byteps::protocol {
namespace {

class TargetForTest final : public AnswerReader::Target {
 public:
  Result<AnswerReader::Place> PlaceFor(ShardId, const wire::DataHeader& header, size_t) override {
    asked.push_back(header.ref.tensor);
    if (!says.ok()) return says;
    return place;
  }
  void Take(ShardId, const AnswerReader::Answer& answer, Time) override {
    std::string staged(reinterpret_cast<const char*>(answer.staged.data()),
                       answer.landing == AnswerReader::Landing::kStaged ? answer.payload_bytes : 0);
    taken.push_back({answer.header.ref.tensor, answer.landing, staged});
  }

  struct Taken {
    TensorId tensor = 0;
    AnswerReader::Landing landing;
    std::string staged;
    friend bool operator==(const Taken&, const Taken&) = default;
  };
  Status says;
  AnswerReader::Place place;
  std::vector<TensorId> asked;
  std::vector<Taken> taken;
};

class AnswerReaderTest : public testing::Test {
 protected:
  using Landing = AnswerReader::Landing;

  AnswerReaderTest() { reader.Begin(2); }

  // Sends a header of this tensor and view. The payload is four times 'x'.
  Result<ByteSpan> Header(TensorId tensor, uint64_t epoch, ShardId from = 0) {
    wire::DataHeader header;
    header.ref = {tensor, 0, 256};
    header.epoch = epoch;
    Result<ByteSpan> bytes = reader.OnHeader(from, header, 4, now, target);
    if (bytes.ok()) std::ranges::fill(bytes.value(), std::byte{'x'});
    return bytes;
  }
  void Payload(ShardId from = 0) { reader.OnPayload(from, now, Time(), target); }
  void Place(Landing landing) { target.place = {landing, ByteSpan(memory, 4)}; }

  std::byte memory[4] = {};
  uint64_t now = 3;  // the epoch
  BufferPool pool;
  KernelArithmetic arithmetic;
  TargetForTest target;
  AnswerReader reader{pool, arithmetic};
};

TEST_F(AnswerReaderTest, APayloadLandsWhereItsTargetWantsIt) {
  Place(Landing::kInPlace);
  EXPECT_EQ(Header(7, 3)->data(), memory);
  EXPECT_TRUE(target.taken.empty());
  Payload();
  Place(Landing::kStaged);
  EXPECT_NE(Header(8, 3)->data(), memory);
  Payload();
  Place(Landing::kNowhere);
  EXPECT_EQ(Header(9, 3)->size(), 4U) << "it must be read all the same";
  Payload();
  EXPECT_EQ(target.taken, (std::vector<TargetForTest::Taken>{{7, Landing::kInPlace, ""},
                                                             {8, Landing::kStaged, "xxxx"},
                                                             {9, Landing::kNowhere, ""}}));
  EXPECT_EQ(pool.bytes_in_use(), 0U) << "who wanted to keep it has kept it";
}

TEST_F(AnswerReaderTest, WhatNoShardSendsClosesTheConnection) {
  target.says = Status(StatusCode::kProtocol, "nobody asked for it");
  EXPECT_EQ(Header(7, 3).status().code(), StatusCode::kProtocol);
}

TEST_F(AnswerReaderTest, AnswersOfALaterViewWaitForItAndSoDoThoseBehindThem) {
  Place(Landing::kInPlace);
  ASSERT_TRUE(Header(7, 4).ok());
  Payload();
  ASSERT_TRUE(Header(8, 3).ok());
  Payload();
  EXPECT_TRUE(target.asked.empty());
  ASSERT_TRUE(Header(9, 3, 1).ok());
  Payload(1);
  ASSERT_EQ(target.taken.size(), 1U) << "another connection";
  now = 4;
  reader.TakePostponed(0, now, Time(), target);
  EXPECT_EQ(target.asked, (std::vector<TensorId>{9, 7, 8}));
  EXPECT_EQ(memory[0], std::byte{'x'});
  EXPECT_EQ(pool.bytes_in_use(), 0U);
}

TEST_F(AnswerReaderTest, ItsViewMayComeWhileThePayloadDoes) {
  Place(Landing::kInPlace);
  ASSERT_TRUE(Header(7, 4).ok());
  now = 4;
  reader.TakePostponed(0, now, Time(), target);
  EXPECT_TRUE(target.taken.empty()) << "its payload is not here";
  Payload();
  EXPECT_EQ(target.taken.size(), 1U);
}

TEST_F(AnswerReaderTest, OfPostponedAnswersThoseThatAreWrongAreDropped) {
  ASSERT_TRUE(Header(7, 4).ok());
  Payload();
  target.says = Status(StatusCode::kProtocol, "nobody asked for it");
  reader.TakePostponed(0, 4, Time(), target);
  EXPECT_EQ(target.asked.size(), 1U);
  EXPECT_TRUE(target.taken.empty());
}

// The memory belongs to the user again while the payload still comes in.
TEST_F(AnswerReaderTest, WhatIsDivertedOnItsWayIsIgnored) {
  Place(Landing::kInPlace);
  ASSERT_TRUE(Header(7, 3).ok());
  EXPECT_FALSE(reader.Divert(7, 1));
  EXPECT_FALSE(reader.Divert(8, 0));
  EXPECT_TRUE(reader.Divert(7, 0));
  EXPECT_FALSE(reader.Divert(7, 0)) << "it is ignored already";
  Payload();
  EXPECT_EQ(target.taken[0].landing, Landing::kNowhere);
  EXPECT_FALSE(reader.Divert(7, 0)) << "nothing comes in";
}

TEST_F(AnswerReaderTest, WhatIsStagedNeedsNoDiversion) {
  Place(Landing::kStaged);
  ASSERT_TRUE(Header(7, 3).ok());
  EXPECT_FALSE(reader.Divert(7, 0));
  Payload();
}

TEST_F(AnswerReaderTest, ALostConnectionForgetsWhatWasComingIn) {
  Place(Landing::kInPlace);
  ASSERT_TRUE(Header(7, 4).ok());
  Payload();
  ASSERT_TRUE(Header(8, 4).ok());
  reader.Reset(0);
  EXPECT_FALSE(reader.Divert(8, 0));
  reader.TakePostponed(0, 4, Time(), target);
  EXPECT_TRUE(target.taken.empty());
  EXPECT_EQ(pool.bytes_in_use(), 0U);
}

}  // namespace
}  // namespace byteps::protocol
