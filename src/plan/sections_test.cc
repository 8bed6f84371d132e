#include "src/plan/sections.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace byteps::plan {
namespace {

TEST(SectionsTest, NoPieceCrossesABorder) {
  std::vector<uint64_t> bytes = {130, 0, 64, 0, 1};
  Result<Sections> cut = Sections::Cut(bytes, 64);
  ASSERT_TRUE(cut.ok());
  ASSERT_EQ(cut->count(), 5u);
  EXPECT_EQ(cut->Piece(0), (SectionPiece{0, 0, 64}));
  EXPECT_EQ(cut->Piece(2), (SectionPiece{0, 128, 2}));
  EXPECT_EQ(cut->Piece(3), (SectionPiece{2, 0, 64}));
  EXPECT_EQ(cut->Piece(4), (SectionPiece{4, 0, 1}));
}

TEST(SectionsTest, NothingIsOneEmptyPiece) {
  std::vector<uint64_t> bytes = {0, 0, 0};
  Result<Sections> cut = Sections::Cut(bytes, 64);
  ASSERT_TRUE(cut.ok());
  ASSERT_EQ(cut->count(), 1u);
  EXPECT_EQ(cut->Piece(0), (SectionPiece{0, 0, 0}));
}

TEST(SectionsTest, TooManyPiecesAreAnError) {
  std::vector<uint64_t> bytes = {uint64_t{1} << 37, uint64_t{1} << 37};
  EXPECT_EQ(Sections::Cut(bytes, 64).status().code(), StatusCode::kExhausted);
}

RC_GTEST_PROP(SectionsTest, PiecesCoverEverySectionInOrder, ()) {
  auto count = *rc::gen::inRange<size_t>(1, 9);
  std::vector<uint64_t> bytes;
  for (size_t i = 0; i < count; ++i) bytes.push_back(*rc::gen::inRange<uint64_t>(0, 700));
  auto piece_bytes = *rc::gen::inRange<uint32_t>(64, 300);
  Sections cut = Sections::Cut(bytes, piece_bytes).value();
  std::vector<uint64_t> covered(count);
  uint32_t section = 0;
  for (uint32_t i = 0; i < cut.count(); ++i) {
    SectionPiece piece = cut.Piece(i);
    RC_ASSERT(piece.section >= section);
    section = piece.section;
    RC_ASSERT(piece.offset == covered[section]);
    RC_ASSERT(piece.bytes <= piece_bytes);
    covered[section] += piece.bytes;
  }
  RC_ASSERT(covered == bytes);
}

}  // namespace
}  // namespace byteps::plan
