#include "src/plan/partition.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace byteps::plan {
namespace {

constexpr uint32_t kMax = 32768;

uint64_t AnyTensorBytes() {
  // Sizes over the whole range of 64 bits, not only large ones.
  const uint64_t bits = *rc::gen::inRange<uint64_t>(0, 48);
  return *rc::gen::inRange<uint64_t>(0, (uint64_t{1} << bits) + 1);
}

TEST(PartitionDeathTest, APieceThatDoesNotExistIsABug) {
  Partition partition = Partition::Cut(1000, kMax).value();
  EXPECT_DEATH(partition.Piece(partition.count()), "index < count_");
}

TEST(PieceBytesTest, KnownSizes) {
  // sqrt(64 * 100 MB / 4) is 40000: the largest piece. Tensors up to 4 MiB have the pieces of 4
  // MiB.
  EXPECT_EQ(PieceBytes(100'000'000, 4, kMax), kMax);
  EXPECT_EQ(PieceBytes(100'000'000, 8, kMax), 28'224U);
  EXPECT_EQ(PieceBytes(1 << 23, 4, kMax), 11'584U);
  for (uint64_t small : {uint64_t{1} << 22, uint64_t{1} << 20, uint64_t{1000}, uint64_t{0}}) {
    EXPECT_EQ(PieceBytes(small, 4, kMax), 8192U);
  }
  EXPECT_EQ(PieceBytes(1 << 20, 64, kMax), 4096U);
  EXPECT_EQ(PieceBytes(UINT64_MAX, 1, kMax), kMax);
}

TEST(PieceBytesTest, TheLargestPieceWinsOverTheSmallest) {
  EXPECT_EQ(PieceBytes(1 << 30, 4, 1000), 960U);
  EXPECT_EQ(PieceBytes(1 << 30, 4, 1), kPieceUnitBytes);
  EXPECT_EQ(PieceBytes(1 << 30, 4, 0), kPieceUnitBytes);
  EXPECT_EQ(PieceBytes(UINT64_MAX, 0, UINT32_MAX), UINT32_MAX / 64 * 64);
}

RC_GTEST_PROP(PieceBytesTest, NoOtherSizeLosesLessToFillAndHeaders, ()) {
  const uint64_t tensor = AnyTensorBytes() + 1;
  const uint32_t members = *rc::gen::inRange(1U, 2000U);
  const uint32_t chosen = PieceBytes(tensor, members, kMax);
  RC_ASSERT(chosen % kPieceUnitBytes == 0U);
  RC_ASSERT(chosen >= kPieceBytesMin && chosen <= kMax);
  const auto overhead = [&](double piece) {
    const auto together = static_cast<double>(std::max(tensor, kTogetherBytes));
    return members * piece / together + kPieceHeaderBytes / piece;
  };
  // The comparison allows one unit, because the size is rounded down.
  const double best = std::min(overhead(chosen), overhead(chosen + kPieceUnitBytes));
  for (uint32_t other = kPieceBytesMin; other <= kMax; other += 1024) {
    RC_ASSERT(overhead(other) >= best * (1 - 1e-12));
  }
}

RC_GTEST_PROP(PartitionTest, CoversEveryByteOnceInEvenPieces, ()) {
  const uint64_t tensor = AnyTensorBytes();
  // The tensor has at most a few thousand pieces, so that the test can look at each.
  const uint64_t least = tensor / 4096 + 1;
  RC_PRE(least < UINT32_MAX);
  const uint32_t piece_bytes = static_cast<uint32_t>(std::min<uint64_t>(
      UINT32_MAX, std::max<uint64_t>(64, least) + *rc::gen::inRange<uint64_t>(0, 100'000)));
  const Result<Partition> cut = Partition::Cut(tensor, piece_bytes);
  RC_ASSERT(cut.ok());
  const Partition& partition = cut.value();
  uint64_t next = 0;
  uint32_t smallest = UINT32_MAX;
  uint32_t largest = 0;
  for (uint32_t index = 0; index < partition.count(); ++index) {
    const PieceSpan piece = partition.Piece(index);
    RC_ASSERT(piece.offset == next);
    RC_ASSERT(index + 1 == partition.count() || piece.bytes % kPieceUnitBytes == 0U);
    if (piece.bytes > 0) {
      RC_ASSERT(partition.IndexOf(piece.offset) == index);
      RC_ASSERT(partition.IndexOf(piece.offset + piece.bytes - 1) == index);
    }
    next += piece.bytes;
    smallest = std::min(smallest, piece.bytes);
    largest = std::max(largest, piece.bytes);
  }
  RC_ASSERT(next == tensor);
  RC_ASSERT(largest <= piece_bytes);
  RC_ASSERT(largest - smallest <= kPieceUnitBytes);
  RC_ASSERT(tensor == 0 || smallest > 0U);
}

TEST(PartitionTest, ATensorOfZeroBytesIsOneEmptyPiece) {
  const Partition partition = Partition::Cut(0, kMax).value();
  EXPECT_EQ(partition.count(), 1U);
  EXPECT_EQ(partition.Piece(0), (PieceSpan{0, 0}));
}

TEST(PartitionTest, ATensorBelowOnePieceIsOnePiece) {
  for (uint32_t bytes : {1U, 63U, 64U, 65U, kMax - 1, kMax}) {
    const Partition partition = Partition::Cut(bytes, kMax).value();
    EXPECT_EQ(partition.count(), 1U);
    EXPECT_EQ(partition.Piece(0), (PieceSpan{0, bytes}));
  }
  EXPECT_EQ(Partition::Cut(kMax + 1, kMax).value().count(), 2U);
}

TEST(PartitionTest, OffsetsBeyond32Bits) {
  const uint64_t tensor = (uint64_t{5} << 30) * 100 + 3;
  const Partition partition = Partition::Cut(tensor, kMax).value();
  const PieceSpan last = partition.Piece(partition.count() - 1);
  EXPECT_EQ(last.offset + last.bytes, tensor);
  EXPECT_GT(last.offset, uint64_t{1} << 38);
  EXPECT_EQ(partition.IndexOf(tensor - 1), partition.count() - 1);
}

TEST(PartitionTest, TooManyPiecesIsAnErrorThatSaysWhatToDo) {
  constexpr uint64_t kMostUnits = uint64_t{UINT32_MAX} * kPieceUnitBytes;
  const Result<Partition> most = Partition::Cut(kMostUnits, kPieceUnitBytes);
  ASSERT_TRUE(most.ok());
  EXPECT_EQ(most->count(), UINT32_MAX);
  EXPECT_EQ(most->Piece(UINT32_MAX - 1), (PieceSpan{kMostUnits - 64, 64}));

  const Result<Partition> more = Partition::Cut(kMostUnits + 1, kPieceUnitBytes);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.status().code(), StatusCode::kExhausted);
  EXPECT_NE(more.status().message().find("use larger pieces"), std::string::npos);
  EXPECT_FALSE(Partition::Cut(UINT64_MAX, kMax).ok());
}

}  // namespace
}  // namespace byteps::plan
