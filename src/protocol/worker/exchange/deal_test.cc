#include "src/protocol/worker/exchange/deal.h"

#include <gtest/gtest.h>

#include "src/operations/sizes.h"
#include "src/plan/partition.h"
#include "src/protocol/protocol_for_test.h"

namespace byteps::protocol {
namespace {

class DealTest : public testing::Test {
 protected:
  DealTest() { deal.Begin({0, 0, 0, 3}); }

  Status Cut(uint64_t bytes, uint32_t piece_bytes, bool known_pieces = true, uint32_t first = 0) {
    return deal.Cut(options, "w", first, {bytes, {}}, piece_bytes, known_pieces);
  }

  DealOptions options = DealOptionsOf(ViewFor(4, 3));
  Deal deal;
};

// The coordinator keeps a dealer of its own. From the same state it deals the same.
TEST_F(DealTest, KnownPiecesAreDealtAsTheCoordinatorDealsThem) {
  ASSERT_TRUE(Cut(10 * 4096, 4096).ok());
  EXPECT_EQ(deal.count(), 10U);
  auto dealer = plan::PieceAssigner::Create(options.shard_weights, options.piece_bytes_max);
  auto partition = plan::Partition::Cut(10 * 4096, 4096);
  EXPECT_EQ(deal.homes(), dealer->DealTensor(partition.value()));
  EXPECT_EQ(deal.Piece(9).offset, 9U * 4096);
}

TEST_F(DealTest, AnotherCutLeavesPiecesWhereTheyAre) {
  ASSERT_TRUE(Cut(4 * 4096, 4096, false).ok());
  std::vector<ShardId> before = deal.homes();
  ASSERT_TRUE(Cut(9 * 4096, 4096, false).ok());
  ASSERT_EQ(deal.homes().size(), 9U);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), deal.homes().begin()));
  std::vector<ShardId> most = deal.homes();
  ASSERT_TRUE(Cut(4096, 4096, false).ok());
  EXPECT_EQ(deal.count(), 1U);
  EXPECT_EQ(deal.homes(), most) << "what was told of the others still finds them";
}

TEST_F(DealTest, PiecesOfTheSecondExchangeFollowTheTable) {
  ASSERT_TRUE(Cut(32, 96, false).ok());
  EXPECT_EQ(deal.count(), 1U);
  ASSERT_TRUE(Cut(2 * 4096, 4096, false, 1).ok());
  EXPECT_EQ(deal.first_piece(), 1U);
  EXPECT_EQ(deal.count(), 2U);
  EXPECT_EQ(deal.homes().size(), 3U);
  EXPECT_EQ(deal.Piece(2).offset, 4096U);
}

TEST_F(DealTest, ADeclarationBeginsAnew) {
  ASSERT_TRUE(Cut(4 * 4096, 4096, false).ok());
  std::vector<ShardId> before = deal.homes();
  deal.Begin({0, 0, 0, 3});
  ASSERT_TRUE(Cut(4 * 4096, 4096, false).ok());
  EXPECT_EQ(deal.homes(), before) << "the same state";
  deal.Begin({4160, 0, 0, 0});
  ASSERT_TRUE(Cut(4 * 4096, 4096, false).ok());
  EXPECT_NE(deal.homes(), before);
}

TEST_F(DealTest, TooManyPiecesAreRefusedAndChangeNothingThatIsKnown) {
  uint64_t bytes = (uint64_t{operations::kPiecesMax} + 1) * 64;
  Status refused = Cut(bytes, 64, false);
  EXPECT_EQ(refused.code(), StatusCode::kExhausted);
  EXPECT_NE(refused.message().find("'w'"), std::string::npos);
  EXPECT_TRUE(deal.homes().empty());
  EXPECT_TRUE(Cut(4096, 4096, false).ok());
}

// The count includes every rank of the generation, a lost one too, and each process of a
// contributor.
TEST(DealOptionsTest, PiecesAreCutByTheRanksOfTheGeneration) {
  wire::View view = ViewFor(8, 1, 32768);
  for (uint32_t rank = 0; rank < 8; ++rank) view.workers[rank].slot = rank / 4 * 4;
  uint64_t bytes = uint64_t{100} << 20;
  EXPECT_EQ(DealOptionsOf(view).ranks, 8U);
  EXPECT_EQ(DealOptionsOf(view).PieceBytes(bytes), plan::PieceBytes(bytes, 8, 32768));
  view.gone.push_back(view.workers.back());
  view.workers.pop_back();
  EXPECT_EQ(DealOptionsOf(view).ranks, 8U);
}

}  // namespace
}  // namespace byteps::protocol
