#include "src/kernels/sum_tree.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace byteps::kernels {
namespace {

// Writes the sum that the steps make, with a letter for each input.
std::string TextOf(const SumTree& tree) {
  std::vector<std::string> waiting;
  size_t next = 0;
  for (const SumTree::Step step : tree.steps()) {
    std::vector<std::string> row;
    for (size_t leaf = 0; leaf < step.leaves; ++leaf) {
      row.emplace_back(1, static_cast<char>('a' + next++));
    }
    for (; row.size() > 1; row.resize(row.size() / 2)) {
      for (size_t i = 0; i < row.size() / 2; ++i) row[i] = "(" + row[2 * i] + row[2 * i + 1] + ")";
    }
    std::string result = row.front();
    for (size_t merges = step.merges; merges > 0; --merges) {
      result = "(" + waiting.back() + result + ")";
      waiting.pop_back();
    }
    waiting.push_back(result);
  }
  EXPECT_EQ(waiting.size(), 1U);
  EXPECT_EQ(next, tree.inputs());
  return waiting.front();
}

std::string TextOf(std::vector<uint32_t> places) { return TextOf(SumTree(places)); }

TEST(SumTreeTest, NodesStandAboveBlocks) {
  EXPECT_EQ(TextOf({0}), "a");
  EXPECT_EQ(TextOf({5}), "a");
  EXPECT_EQ(TextOf({0, 1, 2}), "((ab)c)");
  EXPECT_EQ(TextOf({1, 2, 3}), "(a(bc))");
  EXPECT_EQ(TextOf({0, 1, 2, 3}), "((ab)(cd))");
  EXPECT_EQ(TextOf({0, 1, 2, 4}), "(((ab)c)d)");
  EXPECT_EQ(TextOf({3, 4, 5, 6}), "(a((bc)d))");
  EXPECT_EQ(TextOf({0, 1, 2, 3, 4, 5}), "(((ab)(cd))(ef))");
  EXPECT_EQ(TextOf({1, 4, 5, 6}), "(a((bc)d))");
  EXPECT_EQ(TextOf({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), "((((ab)(cd))((ef)(gh)))((ij)k))");
}

TEST(SumTreeTest, FullTreesAreOneStepUpToEightLeaves) {
  std::vector<uint32_t> places(16);
  std::iota(places.begin(), places.end(), 0U);
  const SumTree tree(places);
  ASSERT_EQ(tree.steps().size(), 2U);
  EXPECT_EQ(tree.steps()[0], (SumTree::Step{8, 0}));
  EXPECT_EQ(tree.steps()[1], (SumTree::Step{8, 1}));
  // The tree above holes is full, too.
  const std::vector<uint32_t> holes = {0, 3, 4, 6, 16, 17, 31, 29};
  EXPECT_EQ(SumTree(std::span(holes).first(4)).steps().size(), 1U);
}

TEST(SumTreeTest, ARowIsKnownByItsShape) {
  for (uint32_t count = 1; count <= 20; ++count) {
    std::vector<uint32_t> places(count);
    std::iota(places.begin(), places.end(), 64U);
    EXPECT_TRUE(SumTree(places).IsRow()) << count;
  }
  const std::vector<uint32_t> same_shape = {2, 3, 9, 15, 40};
  EXPECT_TRUE(SumTree(same_shape).IsRow());
  const std::vector<uint32_t> other_shape = {1, 2, 3, 4};
  EXPECT_FALSE(SumTree(other_shape).IsRow());
}

TEST(SumTreeTest, APlanReplacesTheOneBefore) {
  std::vector<uint32_t> places(200);
  std::iota(places.begin(), places.end(), 0U);
  SumTree tree(places);
  EXPECT_EQ(tree.steps().size(), 25U);
  tree.Plan(std::vector<uint32_t>{1, 2});
  EXPECT_EQ(TextOf(tree), "(ab)");
  tree.Plan(places);
  EXPECT_EQ(tree.inputs(), 200U);
}

// Such places come from no correct process, and make no wrong access either.
TEST(SumTreeTest, PlacesInNoOrderGiveSomeTree) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<uint32_t> places(1 + random() % 100);
    for (uint32_t& place : places) place = trial % 2 == 0 ? random() : random() % 2;
    size_t waiting = 0;
    size_t leaves = 0;
    const SumTree tree(places);
    for (const SumTree::Step step : tree.steps()) {
      leaves += step.leaves;
      ASSERT_LE(step.merges, waiting);
      waiting += 1 - step.merges;
      ASSERT_LE(waiting, SumTree::kWaitingMax + 1);
    }
    ASSERT_EQ(waiting, 1U);
    ASSERT_EQ(leaves, places.size());
  }
}

}  // namespace
}  // namespace byteps::kernels
