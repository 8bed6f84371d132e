#include "src/machine/room/round_book.h"

#include <gtest/gtest.h>

#include <random>

namespace byteps::machine {
namespace {

constexpr RankSet kAllRanks = 0b111;

class RoundBookTest : public testing::Test {
 protected:
  using Book = RoundBook<int>;

  Book::Round* Begin(uint32_t rank, const RoundKey& round, bool is_join = false) {
    return book.Begin(rank, round, kAllRanks, is_join, 0);
  }

  Book book;
  const RoundKey key{1, 1, 0};
};

TEST_F(RoundBookTest, ARoundWaitsForTheRanksThatHaveNotBegunIt) {
  EXPECT_EQ(book.Missing(*Begin(0, key)), 0b110u);
  Begin(2, key)->extra = 4;
  EXPECT_EQ(book.Missing(*book.Find(key)), 0b010u);
  EXPECT_FALSE(book.IsLast(*book.Find(key)));
  EXPECT_EQ(book.Missing(*Begin(1, key)), 0u);
  EXPECT_TRUE(book.IsLast(*book.Find(key)));
  EXPECT_EQ(book.Find(key)->extra, 4);
  book.Erase(key);
  EXPECT_EQ(book.Find(key), nullptr);
}

TEST_F(RoundBookTest, NobodyWaitsForARankThatHasJoinedButInAJoin) {
  book.Join(1);
  book.Join(2);
  EXPECT_EQ(book.Missing(*Begin(0, key)), 0u);
  EXPECT_TRUE(book.IsLast(*book.Find(key))) << "a rank that has joined never comes";
  const RoundKey join{9, 1, 0};
  EXPECT_EQ(book.Missing(*Begin(0, join, true)), 0b110u);
  EXPECT_FALSE(book.IsLast(*book.Find(join)));
  book.EndJoin();
  EXPECT_EQ(book.Missing(*Begin(0, {1, 2, 0})), 0b110u);
}

TEST_F(RoundBookTest, ARankThatHasLeftBeginsNothing) {
  book.Leave(1);
  EXPECT_EQ(Begin(1, key), nullptr);
  EXPECT_EQ(book.Find(key), nullptr) << "the others may never begin it";
  EXPECT_EQ(book.Gone(*Begin(0, key)), 0b010u);
  EXPECT_EQ(Begin(1, key), nullptr);
  EXPECT_EQ(book.Find(key)->begun, 0b001u);
}

TEST_F(RoundBookTest, ARankThatLeavesIsMissingForGoodInWhatIsNotDecided) {
  const RoundKey decided{2, 1, 0};
  Begin(1, key);
  Begin(1, decided)->is_decided = true;
  book.Leave(1);
  const Book::Round& round = *Begin(0, key);
  EXPECT_EQ(round.begun, 0b001u) << "its part never comes";
  EXPECT_EQ(book.Gone(round), 0b010u);
  EXPECT_FALSE(book.IsLast(round)) << "rank 2 may still begin it, and must hear of the error";
  EXPECT_TRUE(book.IsLast(*Begin(2, key)));
  EXPECT_EQ(book.Find(decided)->begun, 0b010u) << "its part is there";
}

TEST_F(RoundBookTest, NobodyBeginsATensorThatIsRetiredUntilItIsForgotten) {
  Begin(0, {1, 4, 0});
  Begin(0, {1, 5, 0});
  Begin(0, {2, 9, 0});
  EXPECT_EQ(book.KeysOf(1, 5), (std::vector<RoundKey>{{1, 5, 0}}));
  book.Retire(1, 5);
  EXPECT_NE(Begin(1, {1, 4, 0}), nullptr);
  EXPECT_EQ(Begin(1, {1, 5, 0}), nullptr);
  EXPECT_EQ(Begin(1, {1, 6, 0}), nullptr);
  EXPECT_TRUE(book.IsRetired(1));
  book.Forget(1);
  EXPECT_NE(Begin(1, {1, 6, 0}), nullptr);
}

TEST_F(RoundBookTest, ANewGenerationKnowsOnlyWhoHasLeft) {
  Begin(0, key);
  book.Join(0);
  book.Leave(2);
  book.Retire(7, 0);
  book.Clear();
  EXPECT_TRUE(book.Keys().empty());
  EXPECT_EQ(book.joined(), 0u);
  EXPECT_EQ(book.left(), 0b100u);
  EXPECT_FALSE(book.IsRetired(7));
}

// In each history the ranks of a round are those that have begun it, those that it waits for, and
// those that have joined.
TEST_F(RoundBookTest, EachRankOfARoundHasBegunItOrIsMissingOrHasJoined) {
  std::mt19937 random(5);
  for (int step = 0; step < 20000; ++step) {
    const uint32_t rank = random() % 3;
    switch (random() % 6) {
      case 0: book.Join(rank); break;
      case 1:
        if (random() % 50 == 0) book.Leave(rank);
        break;
      case 2:
        if (random() % 3 == 0) book.EndJoin();
        break;
      default:
        if (!Has(book.left(), rank)) {
          const auto tensor = static_cast<TensorId>(random() % 4);
          Begin(rank, {tensor, random() % 3, 0}, random() % 8 == 0);
        }
    }
    for (const RoundKey& one : book.Keys()) {
      const Book::Round& round = *book.Find(one);
      EXPECT_EQ(book.Missing(round) & round.begun, 0u);
      EXPECT_EQ((round.begun | book.Missing(round) | book.joined()) & round.ranks, round.ranks);
      EXPECT_EQ(book.Gone(round) & round.begun, 0u);
      EXPECT_EQ(round.begun & book.left(), 0u) << "none of these rounds is decided";
    }
  }
}

}  // namespace
}  // namespace byteps::machine
