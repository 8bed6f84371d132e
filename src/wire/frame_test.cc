#include "src/wire/frame.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "src/wire/hex_for_test.h"

namespace byteps::wire {
namespace {

struct Bytes {
  std::vector<std::byte> header;
  std::vector<std::byte> payload;
};

Bytes BytesFor(const Frame& frame) {
  Bytes bytes;
  bytes.header.resize(kDataHeaderBytesMax);
  bytes.header.resize(EncodeFrameHeader(frame, bytes.header));
  bytes.payload.resize(BytesOf(frame));
  EncodeFramePayload(frame, bytes.payload);
  return bytes;
}

Result<Frame> Read(Reader reader, FrameKind kind, const Bytes& bytes) {
  Result<Frame> frame = DecodeFrameHeader(reader, kind, bytes.header, bytes.payload.size());
  if (!frame.ok()) return frame;
  Status sound = DecodeFramePayload(bytes.payload, frame.value());
  return sound.ok() ? frame : Result<Frame>(sound);
}

Reader ReaderOf(const Frame& frame) {
  bool worker = std::holds_alternative<Want>(frame) || std::holds_alternative<Stable>(frame);
  return worker ? Reader::kWorker : Reader::kShard;
}

// The other end reads the frame, and writes the same bytes again.
template <typename Kind>
Kind Back(const Kind& frame) {
  Bytes bytes = BytesFor(frame);
  Result<Frame> read = Read(ReaderOf(frame), KindOf(frame), bytes);
  EXPECT_TRUE(read.ok()) << read.status().message();
  Bytes again = BytesFor(read.value());
  EXPECT_EQ(Hex(again.header) + Hex(again.payload), Hex(bytes.header) + Hex(bytes.payload));
  EXPECT_EQ(EpochOf(read.value()), EpochOf(frame));
  return std::get<Kind>(read.value());
}

DataHeader AbortedPush() {
  DataHeader push;
  push.ref = {1, 2, 3};
  push.epoch = 9;
  push.generation = 2;
  push.home = 10;
  push.piece_bytes = push.want_bytes = 4096;
  push.status = StatusCode::kDeadlineExceeded;
  return push;
}

constexpr PieceRef kRef{0x01020304, 5, 0x1122334455667788};
const char* const kRefHex = "04030201050000008877665544332211";

TEST(FrameTest, GoldenBytesOfListsOfPieces) {
  Bytes want = BytesFor(Want{{kRef, {1, 2, 3}}});
  EXPECT_EQ(Hex(want.header), "");
  EXPECT_EQ(Hex(want.payload), std::string(kRefHex) + "01000000020000000300000000000000");
  Bytes have = BytesFor(Have{0x0102030405060708, {{kRef, 6}}});
  EXPECT_EQ(Hex(have.header), "0807060504030201");
  EXPECT_EQ(Hex(have.payload), std::string(kRefHex) + "06000000");
}

TEST(FrameTest, GoldenBytesOfNumbers) {
  const uint64_t number = 0x0102030405060708;
  const std::string both = "08070605040302010900000000000000";
  EXPECT_EQ(Hex(BytesFor(Resync{number}).header), "0807060504030201");
  EXPECT_EQ(Hex(BytesFor(Ack{number, 9}).header), both);
  EXPECT_EQ(Hex(BytesFor(Stable{number, 9}).header), both);
  for (const Frame& frame : {Frame(Resync{number}), Frame(Ack{number, 9}), Frame(Stable{1, 2})}) {
    EXPECT_EQ(BytesOf(frame), 0u);
  }
  std::vector<std::byte> bitmap = {std::byte{5}, std::byte{0}};
  Bytes set = BytesFor(ProcessSet{number, 9, bitmap});
  EXPECT_EQ(Hex(set.header), both);
  EXPECT_EQ(Hex(set.payload), "0500");
  Bytes joined = BytesFor(Joined{number, 9, bitmap});
  EXPECT_EQ(Hex(joined.header), both);
  EXPECT_EQ(Hex(joined.payload), "0500");
}

TEST(FrameTest, GoldenBytesOfAnAbort) {
  DataHeader push = AbortedPush();
  push.encoded_bytes = 4096;  // of the push, which does not travel
  Bytes abort = BytesFor(Abort{push, "no"});
  push.encoded_bytes = 0;
  std::byte header[kDataHeaderBytesMax];
  EXPECT_EQ(Hex(abort.header), Hex(ConstByteSpan(header, EncodeDataHeader(push, header))));
  EXPECT_EQ(Hex(abort.payload), "6e6f");
}

TEST(FrameTest, KindsAreThoseOfTheFormat) {
  EXPECT_EQ(KindOf(Want()), FrameKind::kWant);
  EXPECT_EQ(KindOf(Ack()), FrameKind::kAck);
  EXPECT_EQ(KindOf(Stable()), FrameKind::kStable);
  EXPECT_EQ(KindOf(Have()), FrameKind::kHave);
  EXPECT_EQ(KindOf(Resync()), FrameKind::kResync);
  EXPECT_EQ(KindOf(Abort()), FrameKind::kAbort);
  EXPECT_EQ(KindOf(ProcessSet()), FrameKind::kProcessSet);
  EXPECT_EQ(KindOf(Joined()), FrameKind::kJoined);
}

TEST(FrameTest, TheOtherEndReadsWhatWasWritten) {
  std::vector<std::byte> bitmap = {std::byte{5}, std::byte{0}};
  EXPECT_EQ(Back(Want{{kRef, {1, 2, 3}}}).pieces, (std::vector<PieceRef>{kRef, {1, 2, 3}}));
  EXPECT_EQ(Back(Have{7, {{kRef, 6}}}).pieces, (std::vector<HeldPiece>{{kRef, 6}}));
  EXPECT_EQ(Back(Resync{7}).epoch, 7u);
  EXPECT_EQ(Back(Ack{5, 7}).count, 5u);
  EXPECT_EQ(Back(Stable{5, 7}).count, 5u);
  EXPECT_EQ(Back(ProcessSet{5, 7, bitmap}).bitmap, bitmap);
  EXPECT_EQ(Back(ProcessSet{5, 7, {}}).number, 5u);
  EXPECT_EQ(Back(Joined{5, 7, {std::byte{0}}}).bitmap.size(), 1u) << "nobody, which is not all";
  Abort abort = Back(Abort{AbortedPush(), "too late"});
  EXPECT_EQ(abort.push, AbortedPush());
  EXPECT_EQ(abort.why, "too late");
}

TEST(FrameTest, EpochsAreThoseOfTheSenderAndAWantHasNone) {
  EXPECT_EQ(EpochOf(Abort{AbortedPush(), ""}), 9u);
  EXPECT_EQ(EpochOf(Have{3, {}}), 3u);
  EXPECT_EQ(EpochOf(Joined{1, 4, {}}), 4u);
  EXPECT_EQ(EpochOf(Want()), 0u);
}

TEST(FrameTest, ALongReasonIsCut) {
  std::string why(kAbortTextMax - 1, 'x');
  EXPECT_EQ(BytesOf(Abort{AbortedPush(), why + "\u00e9"}), kAbortTextMax - 1);
  EXPECT_EQ(Back(Abort{AbortedPush(), why + "yz"}).why, why + "y");
}

TEST(FrameTest, FramesThatAReaderNeverGetsAreRefused) {
  auto refusal = [](Reader reader, const Frame& frame) {
    return std::string(Read(reader, KindOf(frame), BytesFor(frame)).status().message());
  };
  EXPECT_EQ(refusal(Reader::kShard, Want{{kRef}}), "frame 7 for a shard");
  EXPECT_EQ(refusal(Reader::kShard, Stable{1, 2}), "frame 9 for a shard");
  EXPECT_EQ(refusal(Reader::kWorker, Ack{1, 2}), "frame 8 for a worker");
  EXPECT_EQ(refusal(Reader::kWorker, Have()), "frame 11 for a worker");
  EXPECT_EQ(refusal(Reader::kWorker, Abort{AbortedPush(), ""}), "frame 13 for a worker");
  for (uint8_t kind : {0, 4, 5, 6, 10, 18, 255}) {
    Bytes bytes = BytesFor(Ack{1, 2});
    for (Reader reader : {Reader::kShard, Reader::kWorker}) {
      EXPECT_FALSE(Read(reader, static_cast<FrameKind>(kind), bytes).ok()) << int{kind};
    }
  }
}

TEST(FrameTest, PayloadsBeyondTheirLimitAreRefusedBeforeThereIsRoomForThem) {
  std::byte header[kNumberHeaderBytes] = {};
  auto takes = [&](Reader reader, FrameKind kind, size_t header_bytes, size_t payload_bytes) {
    return DecodeFrameHeader(reader, kind, ConstByteSpan(header).first(header_bytes), payload_bytes)
        .ok();
  };
  EXPECT_TRUE(takes(Reader::kWorker, FrameKind::kWant, 0, kWantCountMax * kPieceRefBytes));
  EXPECT_FALSE(takes(Reader::kWorker, FrameKind::kWant, 0, (kWantCountMax + 1) * kPieceRefBytes));
  EXPECT_FALSE(takes(Reader::kWorker, FrameKind::kWant, 0, kPieceRefBytes - 1));
  EXPECT_FALSE(takes(Reader::kWorker, FrameKind::kStable, 16, 1));
  EXPECT_TRUE(takes(Reader::kShard, FrameKind::kHave, 8, kWantCountMax * kHeldPieceBytes));
  EXPECT_FALSE(takes(Reader::kShard, FrameKind::kHave, 8, kWantCountMax * kHeldPieceBytes + 1));
  EXPECT_FALSE(takes(Reader::kShard, FrameKind::kAck, 16, 1));
  EXPECT_FALSE(takes(Reader::kShard, FrameKind::kResync, 8, 1));
  for (FrameKind kind : {FrameKind::kProcessSet, FrameKind::kJoined}) {
    EXPECT_TRUE(takes(Reader::kShard, kind, 16, kProcessSetBytesMax));
    EXPECT_FALSE(takes(Reader::kShard, kind, 16, kProcessSetBytesMax + 1));
  }
}

TEST(FrameTest, WrongLengthsAreRefused) {
  Bytes have = BytesFor(Have{7, {{kRef, 6}}});
  have.payload.pop_back();
  EXPECT_EQ(Read(Reader::kShard, FrameKind::kHave, have).status().code(), StatusCode::kProtocol);
  for (const Frame& frame : {Frame(Abort{AbortedPush(), ""}), Frame(Have()), Frame(Resync()),
                             Frame(Ack()), Frame(Stable()), Frame(ProcessSet()), Frame(Joined())}) {
    Bytes bytes = BytesFor(frame);
    bytes.header.pop_back();
    Result<Frame> read = Read(ReaderOf(frame), KindOf(frame), bytes);
    EXPECT_EQ(read.status().code(), StatusCode::kProtocol) << int(KindOf(frame));
  }
}

RC_GTEST_PROP(FrameTest, AnyBytesAreAFrameOrAnError, ()) {
  auto bytes_of = [](size_t length) {
    auto raw = *rc::gen::container<std::vector<uint8_t>>(length, rc::gen::arbitrary<uint8_t>());
    auto bytes = std::as_bytes(std::span(raw));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  Bytes bytes;
  bytes.header = bytes_of(*rc::gen::element<size_t>(0, 7, 8, 15, 16, 17, 68));
  bytes.payload = bytes_of(*rc::gen::element<size_t>(0, 0, 1, 16, 20, 32, 40));
  auto kind = static_cast<FrameKind>(*rc::gen::inRange(5, 17));
  auto reader = *rc::gen::element(Reader::kShard, Reader::kWorker);
  Result<Frame> read = Read(reader, kind, bytes);
  if (!read.ok()) {
    RC_ASSERT(read.status().code() == StatusCode::kProtocol);
    return;
  }
  RC_ASSERT(KindOf(read.value()) == kind);
  RC_ASSERT(BytesFor(read.value()).payload == bytes.payload);
}

}  // namespace
}  // namespace byteps::wire
