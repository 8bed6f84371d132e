#include "src/protocol/worker/lane/piece_packing.h"

#include <gtest/gtest.h>

#include "src/protocol/kernel_arithmetic.h"

namespace byteps::protocol {
namespace {

class PiecePackingTest : public testing::Test {
 protected:
  PieceBytes BytesOf(const std::string& text, uint32_t offset = 0) {
    PieceBytes made{true, from.Take(offset + text.size()), offset,
                    static_cast<uint32_t>(text.size())};
    std::ranges::copy(std::as_bytes(std::span(text)), made.buffer.data() + offset);
    return made;
  }
  static std::string TextOf(ConstByteSpan bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  KernelArithmetic arithmetic;
  BufferPool from;
  BufferPool to;
  TensorFacts tensor{7};
};

TEST_F(PiecePackingTest, WhatIsPackedComesOutInBuffersOfTheOtherLane) {
  LanePiece piece;
  piece.home = 3;
  piece.owner = 5;
  piece.step = PieceStep::kUnderWay;
  piece.round = 512;
  piece.at = 2;
  piece.contribution = BytesOf("contribution");
  piece.answer = BytesOf("answer", 8);  // behind a receipt
  piece.failure = std::make_unique<Status>(StatusCode::kDeadlineExceeded, "too late");
  piece.held.round = 256;
  piece.held.stable = false;
  piece.copy = BytesOf("copy").buffer;
  piece.copy_bytes = 4;
  MovedPiece moved = PackPiece(tensor, 9, piece);
  EXPECT_EQ(from.bytes_in_use(), 0U) << "buffers belong to one lane";
  EXPECT_EQ(piece.step, PieceStep::kAway);
  EXPECT_EQ(piece.held.round, 0U);
  EXPECT_EQ(moved.tensor.id, 7U);
  EXPECT_EQ(moved.number, 9U);
  EXPECT_EQ(moved.exchange, nullptr) << "the caller says";

  LanePiece there = UnpackPiece(moved, to, arithmetic);
  EXPECT_EQ(there.home, 3U);
  EXPECT_EQ(there.owner, kNoShard);
  EXPECT_EQ(there.step, PieceStep::kDone);
  EXPECT_EQ(there.round, 512U);
  EXPECT_EQ(there.at, 2U);
  EXPECT_EQ(TextOf(there.contribution.span()), "contribution");
  EXPECT_EQ(TextOf(there.answer.span()), "answer");
  EXPECT_EQ(there.failure->message(), "too late");
  EXPECT_EQ(there.held.round, 256U);
  EXPECT_FALSE(there.held.stable);
  EXPECT_EQ(TextOf({there.copy.data(), there.copy_bytes}), "copy");
}

TEST_F(PiecePackingTest, WhatIsNotThereDoesNotArrive) {
  LanePiece piece;
  LanePiece there = UnpackPiece(PackPiece(tensor, 0, piece), to, arithmetic);
  EXPECT_FALSE(there.contribution.there);
  EXPECT_FALSE(there.answer.there);
  EXPECT_FALSE(there.copy);
  EXPECT_EQ(there.failure, nullptr);
  EXPECT_EQ(to.bytes_in_use(), 0U);
}

// The result of a codec may have no bytes. It is a result all the same.
TEST_F(PiecePackingTest, NothingThatWasMadeIsNotNothing) {
  LanePiece piece;
  piece.contribution = {true, {}, 0, 0};
  LanePiece there = UnpackPiece(PackPiece(tensor, 0, piece), to, arithmetic);
  EXPECT_TRUE(there.contribution.there);
  EXPECT_EQ(there.contribution.bytes, 0U);
}

}  // namespace
}  // namespace byteps::protocol
