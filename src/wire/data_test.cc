#include "src/wire/data.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "src/wire/hex_for_test.h"

namespace byteps::wire {
namespace {

DataHeader Example() {
  DataHeader header;
  header.ref = {0x01020304, 5, 0x1122334455667788};
  header.epoch = 9;
  header.count = 0xaabbccdd;
  header.generation = 2;
  header.unstable = 7;
  header.priority = -3;
  header.combine = Combine::kMax;
  header.dtype = DataType::kBfloat16;
  header.home = 10;
  header.piece_bytes = 4096;
  header.encoded_bytes = 4096;
  header.want_bytes = 4096;
  return header;
}

std::string HexOf(const DataHeader& header) {
  std::byte out[kDataHeaderBytesMax];
  return Hex(ConstByteSpan(out, EncodeDataHeader(header, out)));
}

// Returns the header as the other end reads it.
Result<DataHeader> Sent(FrameKind kind, const DataHeader& header, size_t payload_bytes) {
  std::byte out[kDataHeaderBytesMax];
  ConstByteSpan bytes(out, EncodeDataHeader(header, out));
  return DecodeDataHeader(kind, bytes, payload_bytes);
}

// Returns whether the header passes with a payload of the length that it gives.
bool Passes(FrameKind kind, const DataHeader& header) {
  Result<DataHeader> sent = Sent(kind, header, size_t{header.receipt} + header.encoded_bytes);
  return sent.ok() && sent.value() == header;
}

TEST(DataHeaderTest, GoldenBytesOfAWholePiece) {
  EXPECT_EQ(HexOf(Example()),
            "04030201"
            "05000000"
            "8877665544332211"
            "0900000000000000"
            "ddccbbaa00000000"
            "02000000"
            "fdffffff"
            "00000000"
            "00000000"
            "07000000"
            "0a000000"
            "00100000"
            "00100000"
            "02030000");
}

TEST(DataHeaderTest, GoldenBytesOfAnEncodedPushForAProcessSet) {
  DataHeader header = Example();
  header.unstable = 0;
  header.process_set = 3;
  header.codec = 9;
  header.encoded_bytes = 256;
  header.combine = Combine::kLast;
  header.ref.round = RoundOf(FirstRoundAfter(2) + 1, 0);
  EXPECT_EQ(HexOf(header),
            "04030201"
            "05000000"
            "0001000000000200"
            "0900000000000000"
            "ddccbbaa00000000"
            "02000000"
            "fdffffff"
            "03000000"
            "00000000"
            "00000000"
            "0a000000"
            "00100000"
            "00010000"
            "06030009");
  EXPECT_TRUE(Passes(FrameKind::kPush, header));
}

TEST(DataHeaderTest, GoldenBytesOfASpan) {
  DataHeader header = Example();
  header.encoded_bytes = 8;
  header.offset = 16;
  header.want_offset = 32;
  header.want_bytes = 64;
  EXPECT_EQ(HexOf(header).substr(112),
            "00100000"
            "08000000"
            "02030000"
            "10000000"
            "20000000"
            "40000000");
}

RC_GTEST_PROP(DataHeaderTest, DecodesWhatItEncodes, ()) {
  auto kind = *rc::gen::element(FrameKind::kPush, FrameKind::kAnswer, FrameKind::kVerdict);
  DataHeader header;
  header.ref = {*rc::gen::arbitrary<uint32_t>(), *rc::gen::arbitrary<uint32_t>(),
                *rc::gen::arbitrary<uint64_t>()};
  header.epoch = *rc::gen::arbitrary<uint64_t>();
  header.count = *rc::gen::arbitrary<uint64_t>();
  header.generation = *rc::gen::arbitrary<uint32_t>();
  header.priority = *rc::gen::arbitrary<int32_t>();
  header.combine = static_cast<Combine>(*rc::gen::inRange(0, kCombineCount));
  header.dtype = static_cast<DataType>(*rc::gen::inRange(0, kDataTypeCount));
  header.home = *rc::gen::arbitrary<uint32_t>();
  header.piece_bytes = *rc::gen::inRange<uint32_t>(0, 1 << 20);
  header.codec = *rc::gen::element<uint8_t>(0, 0, 1, 255);
  header.want_bytes = *rc::gen::element(0U, header.piece_bytes);
  if (header.codec == 0) {
    header.offset = *rc::gen::inRange<uint32_t>(0, header.piece_bytes + 1);
    header.want_offset = *rc::gen::inRange<uint32_t>(0, header.piece_bytes + 1);
    header.want_bytes = *rc::gen::inRange<uint32_t>(0, header.piece_bytes - header.want_offset + 1);
  }
  uint32_t most = header.codec == 0 ? header.piece_bytes - header.offset
                                    : header.piece_bytes + kCodecExtraBytesMax;
  header.encoded_bytes = *rc::gen::inRange<uint32_t>(0, most + 1);
  if (kind == FrameKind::kPush) header.process_set = *rc::gen::arbitrary<uint32_t>();
  if (kind == FrameKind::kAnswer) header.unstable = *rc::gen::arbitrary<uint32_t>();
  if (kind != FrameKind::kPush) {
    header.receipt = *rc::gen::inRange<uint32_t>(0, kProcessSetBytesMax + 1);
  }
  RC_ASSERT(Passes(kind, header));
}

RC_GTEST_PROP(DataHeaderTest, AnyBytesAreAHeaderOrAnError, ()) {
  auto raw = *rc::gen::container<std::vector<uint8_t>>(
      *rc::gen::element<size_t>(0, 67, 68, 69, 79, 80, 81), rc::gen::arbitrary<uint8_t>());
  bool sane = *rc::gen::arbitrary<bool>();
  if (sane &&
      raw.size() >= kDataHeaderBytes) {  // as far as the ranges, so that these are looked at
    for (size_t at : {44, 48, 64, 65, 66, 67}) raw[at] = 0;
    for (size_t at : {40, 45, 46, 47, 49, 50, 51, 58, 59, 62, 63}) raw[at] = 0;
  }
  auto bytes = std::as_bytes(std::span(raw));
  size_t payload = *rc::gen::arbitrary<uint32_t>();
  if (sane && raw.size() >= kDataHeaderBytes) payload = raw[60] + size_t{raw[61]} * 256;
  auto kind = *rc::gen::element(FrameKind::kPush, FrameKind::kAnswer, FrameKind::kVerdict,
                                FrameKind::kAbort);
  Result<DataHeader> decoded = DecodeDataHeader(kind, bytes, payload);
  if (!decoded.ok()) {
    RC_ASSERT(decoded.status().code() == StatusCode::kProtocol);
    return;
  }
  const DataHeader& header = decoded.value();
  RC_ASSERT(uint64_t{header.want_offset} + header.want_bytes <= header.piece_bytes);
  if (header.codec == 0 && header.status == StatusCode::kOk) {
    RC_ASSERT(uint64_t{header.offset} + header.encoded_bytes <= header.piece_bytes);
  }
  RC_ASSERT(Sent(kind, header, payload).value() == header);
}

TEST(DataHeaderTest, SpansThatLeaveThePieceAreRefused) {
  DataHeader header = Example();
  header.unstable = 0;
  header.encoded_bytes = 8;
  header.offset = 4090;
  for (uint32_t process_set : {0U, 3U}) {
    header.process_set = process_set;
    EXPECT_FALSE(Passes(FrameKind::kPush, header));
  }
  header.offset = 4088;
  EXPECT_TRUE(Passes(FrameKind::kPush, header));
  header.want_offset = 1;
  EXPECT_FALSE(Passes(FrameKind::kPush, header));
  header.process_set = 0;
  header.offset = 4090;
  header.want_offset = 0;
  header.receipt = 8;
  EXPECT_FALSE(Passes(FrameKind::kVerdict, header)) << "behind a receipt, too";
}

TEST(DataHeaderTest, ThePayloadIsWhatTheHeaderSays) {
  DataHeader header = Example();
  header.receipt = 8;
  EXPECT_TRUE(Sent(FrameKind::kAnswer, header, 4104).ok());
  EXPECT_FALSE(Sent(FrameKind::kAnswer, header, 4096).ok());
  EXPECT_FALSE(Sent(FrameKind::kAnswer, header, 4105).ok());
  EXPECT_FALSE(Sent(FrameKind::kAnswer, header, size_t{1} << 32).ok());
  header.receipt = kProcessSetBytesMax + 8;
  EXPECT_FALSE(Passes(FrameKind::kAnswer, header)) << "more slots than there can be";
}

TEST(DataHeaderTest, WithACodecAPieceIsWantedWholeOrNotAtAll) {
  DataHeader header = Example();
  header.codec = 1;
  header.encoded_bytes = 100;
  EXPECT_TRUE(Passes(FrameKind::kAnswer, header));
  DataHeader other = header;
  other.want_bytes = 0;
  EXPECT_TRUE(Passes(FrameKind::kAnswer, other));
  other.want_bytes = 64;
  EXPECT_FALSE(Passes(FrameKind::kAnswer, other));
  other = header;
  other.offset = 1;
  EXPECT_FALSE(Passes(FrameKind::kAnswer, other));
  other = header;
  other.status = StatusCode::kPeerLost;
  EXPECT_FALSE(Passes(FrameKind::kAnswer, other)) << "errors have no codec";
  other = header;
  other.encoded_bytes = 4096 + kCodecExtraBytesMax;
  EXPECT_TRUE(Passes(FrameKind::kAnswer, other));
  ++other.encoded_bytes;
  EXPECT_FALSE(Passes(FrameKind::kAnswer, other)) << "a shard would make room for it";
}

// Tests headers with a field of another kind of frame.
TEST(DataHeaderTest, WhatAFrameOfThisKindDoesNotHaveIsRefused) {
  DataHeader plain = Example();
  plain.unstable = 0;
  for (FrameKind kind : {FrameKind::kPush, FrameKind::kAnswer, FrameKind::kVerdict}) {
    bool push = kind == FrameKind::kPush;
    EXPECT_TRUE(Passes(kind, plain));
    DataHeader header = plain;
    header.process_set = 3;
    EXPECT_EQ(Passes(kind, header), push);
    header = plain;
    header.receipt = 8;
    EXPECT_EQ(Passes(kind, header), !push);
    header = plain;
    header.status = StatusCode::kPeerLost;
    EXPECT_EQ(Passes(kind, header), !push);
    header = plain;
    header.unstable = 1;
    EXPECT_EQ(Passes(kind, header), kind == FrameKind::kAnswer);
  }
}

TEST(DataHeaderTest, AnAbortHasThePushsHeaderAndAText) {
  DataHeader header = Example();
  header.unstable = 0;
  header.process_set = 3;
  header.encoded_bytes = 0;
  EXPECT_FALSE(Sent(FrameKind::kAbort, header, 20).ok()) << "it says no error";
  header.status = StatusCode::kDeadlineExceeded;
  EXPECT_EQ(Sent(FrameKind::kAbort, header, 20).value(), header);
  header.codec = 1;
  header.offset = 0;
  header.want_offset = 0;
  header.want_bytes = header.piece_bytes;
  EXPECT_EQ(Sent(FrameKind::kAbort, header, 20).value(), header) << "of a piece with a codec";
  header.codec = 0;
  EXPECT_TRUE(Sent(FrameKind::kAbort, header, kAbortTextMax).ok());
  EXPECT_FALSE(Sent(FrameKind::kAbort, header, kAbortTextMax + 1).ok());
  header.encoded_bytes = 20;
  EXPECT_FALSE(Sent(FrameKind::kAbort, header, 20).ok()) << "bytes of the piece";
}

TEST(RoundTest, JoinsUseAndAttemptAreTakenApartAsTheyWerePut) {
  EXPECT_EQ(RoundOf(1, 0), 256u);
  for (uint32_t joins : {0U, 1U, kJoinsMax}) {
    for (uint64_t count : {uint64_t{1}, (uint64_t{1} << kCountBits) - 1}) {
      for (uint32_t attempt : {0U, kAttemptsMax - 1}) {
        uint64_t use = FirstRoundAfter(joins) + count;
        uint64_t round = RoundOf(use, attempt);
        EXPECT_EQ(UseOf(round), use);
        EXPECT_EQ(JoinsOf(round), joins);
        EXPECT_EQ(JoinsOfUse(use), joins);
        EXPECT_EQ(round % kAttemptsMax, attempt);
      }
    }
  }
  EXPECT_LT(RoundOf(7, kAttemptsMax - 1), RoundOf(8, 0));
  EXPECT_LT(RoundOf(FirstRoundAfter(1) - 1, 0), RoundOf(FirstRoundAfter(1), 0));
}

}  // namespace
}  // namespace byteps::wire
