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
  header.want_bytes = 4096;
  return header;
}

TEST(DataHeaderTest, GoldenBytesOfAWholePiece) {
  std::byte out[kDataHeaderBytesMax];
  size_t bytes = EncodeDataHeader(Example(), 4096, out);
  EXPECT_EQ(Hex(ConstByteSpan(out, bytes)),
            "04030201"
            "05000000"
            "8877665544332211"
            "0900000000000000"
            "ddccbbaa00000000"
            "02000000"
            "fdffffff"
            "00000000"
            "07000000"
            "0a000000"
            "02030000");
}

TEST(DataHeaderTest, GoldenBytesOfAPushForAGroup) {
  DataHeader header = Example();
  header.receipt = 3;
  header.combine = Combine::kLast;
  header.ref.round = RoundOf(FirstRoundAfter(2) + 1, 0);
  EXPECT_EQ(JoinsOf(header.ref.round), 2u);
  std::byte out[kDataHeaderBytesMax];
  size_t bytes = EncodeDataHeader(header, 4096, out);
  EXPECT_EQ(Hex(ConstByteSpan(out, bytes)),
            "04030201"
            "05000000"
            "0001000000000200"
            "0900000000000000"
            "ddccbbaa00000000"
            "02000000"
            "fdffffff"
            "03000000"
            "07000000"
            "0a000000"
            "06030000");
}

TEST(DataHeaderTest, GoldenBytesOfASpan) {
  DataHeader header = Example();
  header.offset = 16;
  header.want_offset = 32;
  header.want_bytes = 64;
  std::byte out[kDataHeaderBytesMax];
  size_t bytes = EncodeDataHeader(header, 8, out);
  EXPECT_EQ(Hex(ConstByteSpan(out, bytes)).substr(112),
            "00100000"
            "10000000"
            "20000000"
            "40000000");
}

RC_GTEST_PROP(DataHeaderTest, DecodesWhatItEncodes, ()) {
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
  header.offset = *rc::gen::inRange<uint32_t>(0, header.piece_bytes + 1);
  header.want_offset = *rc::gen::inRange<uint32_t>(0, header.piece_bytes + 1);
  header.want_bytes = *rc::gen::inRange<uint32_t>(0, header.piece_bytes - header.want_offset + 1);
  size_t payload = *rc::gen::inRange<uint32_t>(0, header.piece_bytes - header.offset + 1);
  std::byte out[kDataHeaderBytesMax];
  size_t bytes = EncodeDataHeader(header, payload, out);
  Result<DataHeader> decoded = DecodeDataHeader(ConstByteSpan(out, bytes), payload);
  RC_ASSERT(decoded.ok());
  RC_ASSERT(decoded.value() == header);
}

RC_GTEST_PROP(DataHeaderTest, AnyBytesAreAHeaderOrAnError, ()) {
  auto raw = *rc::gen::container<std::vector<uint8_t>>(
      *rc::gen::element<size_t>(0, 55, 56, 71, 72, 73), rc::gen::arbitrary<uint8_t>());
  auto bytes = std::as_bytes(std::span(raw));
  size_t payload = *rc::gen::arbitrary<uint32_t>();
  Result<DataHeader> decoded = DecodeDataHeader(bytes, payload);
  if (!decoded.ok()) {
    RC_ASSERT(decoded.status().code() == StatusCode::kProtocol);
    return;
  }
  const DataHeader& header = decoded.value();
  RC_ASSERT(uint64_t{header.want_offset} + header.want_bytes <= header.piece_bytes);
}

TEST(DataHeaderTest, SpansThatLeaveThePieceAreRefused) {
  DataHeader header = Example();
  header.offset = 4090;
  std::byte out[kDataHeaderBytesMax];
  size_t bytes = EncodeDataHeader(header, 8, out);
  EXPECT_FALSE(DecodeDataHeader(ConstByteSpan(out, bytes), 8).ok());
}

TEST(PieceRefsTest, GoldenBytes) {
  std::vector<std::byte> bytes;
  EncodePieceRefs({{0x01020304, 5, 0x1122334455667788}, {1, 2, 3}}, bytes);
  EXPECT_EQ(Hex(bytes),
            "04030201"
            "05000000"
            "8877665544332211"
            "01000000"
            "02000000"
            "0300000000000000");
}

TEST(PieceRefsTest, RoundTripAndLimits) {
  std::vector<PieceRef> refs = {{1, 2, 3}, {4, 5, uint64_t{1} << 40}};
  std::vector<std::byte> bytes;
  EncodePieceRefs(refs, bytes);
  std::vector<PieceRef> decoded;
  ASSERT_TRUE(DecodePieceRefs(bytes, decoded).ok());
  EXPECT_EQ(decoded, refs);
  bytes.pop_back();
  EXPECT_FALSE(DecodePieceRefs(bytes, decoded).ok());
  bytes.assign((kWantCountMax + 1) * kPieceRefBytes, std::byte{0});
  EXPECT_FALSE(DecodePieceRefs(bytes, decoded).ok());
}

TEST(NumberTest, RoundTripAndLength) {
  std::byte bytes[kNumberHeaderBytes];
  EncodeNumber(0x0102030405060708, bytes);
  EXPECT_EQ(Hex(bytes), "0807060504030201");
  EXPECT_EQ(DecodeNumber(bytes).value(), 0x0102030405060708u);
  EXPECT_FALSE(DecodeNumber(ConstByteSpan(bytes, 7)).ok());
}

TEST(AckTest, GoldenBytes) {
  std::byte bytes[kProgressHeaderBytes];
  EncodeProgress({0x0102030405060708, 9}, bytes);
  EXPECT_EQ(Hex(bytes), "08070605040302010900000000000000");
  EXPECT_EQ(DecodeProgress(bytes)->count, 0x0102030405060708u);
  EXPECT_EQ(DecodeProgress(bytes)->epoch, 9u);
  EXPECT_FALSE(DecodeProgress(ConstByteSpan(bytes, 8)).ok());
}

TEST(HeldPiecesTest, GoldenBytes) {
  std::vector<HeldPiece> pieces = {{{0x01020304, 5, 0x1122334455667788}, 6}};
  std::vector<std::byte> bytes;
  EncodeHeldPieces(pieces, bytes);
  EXPECT_EQ(Hex(bytes),
            "04030201"
            "05000000"
            "8877665544332211"
            "06000000");
  std::vector<HeldPiece> decoded;
  ASSERT_TRUE(DecodeHeldPieces(bytes, decoded).ok());
  EXPECT_EQ(decoded, pieces);
  bytes.pop_back();
  EXPECT_FALSE(DecodeHeldPieces(bytes, decoded).ok());
}

}  // namespace
}  // namespace byteps::wire
