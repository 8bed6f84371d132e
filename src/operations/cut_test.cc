#include "src/operations/cut.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace byteps::operations {
namespace {

TEST(CutTest, ARunIsASectionOfItsOwn) {
  Cut cut = Cut::Make({130, {}}, 64).value();
  ASSERT_EQ(cut.count(), 3u);
  EXPECT_EQ(cut.Piece(2), (plan::SectionPiece{0, 128, 2}));
  ASSERT_NE(cut.run(), nullptr);
  EXPECT_EQ(cut.run()->tensor_bytes(), 130u);
}

TEST(CutTest, SectionsHavePiecesOfTheirOwn) {
  Cut cut = Cut::Make({131, {1, 0, 130}}, 64).value();
  ASSERT_EQ(cut.count(), 4u);
  EXPECT_EQ(cut.Piece(0), (plan::SectionPiece{0, 0, 1}));
  EXPECT_EQ(cut.Piece(1), (plan::SectionPiece{2, 0, 64}));
  EXPECT_EQ(cut.run(), nullptr);
}

TEST(CutTest, NothingIsOneEmptyPiece) {
  for (const Extent& nothing : {Extent{}, Extent{0, {0, 0}}}) {
    Cut cut = Cut::Make(nothing, 64).value();
    ASSERT_EQ(cut.count(), 1u);
    EXPECT_EQ(cut.Piece(0).bytes, 0u);
  }
}

TEST(CutTest, AWholeIsOnePieceHoweverLarge) {
  for (uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{64}, uint64_t{65}, uint64_t{1} << 25}) {
    Cut cut = Cut::Whole(bytes);
    ASSERT_EQ(cut.count(), 1u);
    EXPECT_EQ(cut.Piece(0), (plan::SectionPiece{0, 0, static_cast<uint32_t>(bytes)}));
  }
}

TEST(CutTest, TooManyPiecesAreAnError) {
  const uint64_t bytes = uint64_t{1} << 40;
  EXPECT_EQ(Cut::Make({bytes, {}}, 64).status().code(), StatusCode::kExhausted);
  EXPECT_EQ(Cut::Make({bytes, {bytes / 2, bytes / 2}}, 64).status().code(), StatusCode::kExhausted);
}

// Code that keeps a cut calls Is instead of cutting again.
RC_GTEST_PROP(CutTest, TheSameExtentGivesTheSamePieces, ()) {
  auto any = [] {
    Extent extent{*rc::gen::inRange<uint64_t>(0, 3) * 64, {}};
    for (int i = *rc::gen::inRange(0, 3); i > 0; --i) {
      extent.sections.push_back(*rc::gen::inRange<uint64_t>(0, 3) * 64);
    }
    if (!extent.sections.empty()) extent.bytes = 0;
    for (uint64_t bytes : extent.sections) extent.bytes += bytes;
    return extent;
  };
  Extent one = any();
  Extent other = any();
  uint32_t one_bytes = *rc::gen::element(64U, 128U);
  uint32_t other_bytes = *rc::gen::element(64U, 128U);
  Cut cut = Cut::Make(one, one_bytes).value();
  Cut again = Cut::Make(other, other_bytes).value();
  RC_ASSERT(cut.Is(one, one_bytes));
  if (!cut.Is(other, other_bytes)) return;
  RC_ASSERT(cut.count() == again.count());
  for (uint32_t i = 0; i < cut.count(); ++i) RC_ASSERT(cut.Piece(i) == again.Piece(i));
}

}  // namespace
}  // namespace byteps::operations
