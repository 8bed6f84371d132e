// The right circles of operations are found, and no rank that can go on is in one.
#include "src/protocol/control/names/stuck_ranks.h"

#include <gtest/gtest.h>

#include "src/wire/data.h"

namespace byteps::protocol {
namespace {

using wire::NamedUse;

class StuckRanksTest : public testing::Test {
 protected:
  static NamedUse Use(const std::string& name, uint64_t round = 1, uint32_t process_set = 0) {
    return {name, {process_set, 0, round}};
  }

  // Returns what each rank is asked, as "name/round".
  std::map<uint32_t, std::vector<std::string>> Stick(uint32_t rank, const NamedUse& use,
                                                     const std::vector<uint32_t>& ranks = {}) {
    std::shared_ptr<const std::vector<uint32_t>> list;
    if (!ranks.empty()) list = std::make_shared<const std::vector<uint32_t>>(ranks);
    std::map<uint32_t, std::vector<std::string>> asked;
    for (const auto& question : stuck.Add(rank, {100 + rank, use, 7, list})) {
      for (const NamedUse& about : question.message.uses) {
        asked[static_cast<uint32_t>(question.to - 100)].push_back(about.name + "/" +
                                                                  std::to_string(about.use.round));
      }
    }
    return asked;
  }

  // Returns the circle that is known then, if any.
  std::vector<NamedUse> Lacks(uint32_t rank, const NamedUse& in, const NamedUse& what) {
    static_cast<void>(stuck.OnUnbegun(rank, 100 + rank, {in, {what}}));
    auto circles = stuck.Circles();
    return circles.empty() ? Circle() : circles.back();
  }

  using Circle = std::vector<NamedUse>;
  using Asked = std::map<uint32_t, std::vector<std::string>>;
  StuckRanks stuck;
};

TEST_F(StuckRanksTest, TwoRanksThatWaitForEachOther) {
  EXPECT_EQ(Stick(0, Use("a", 3)), (Asked{}));
  EXPECT_EQ(Stick(1, Use("b")), (Asked{{0, {"b/1"}}, {1, {"a/3"}}}));
  EXPECT_EQ(Lacks(1, Use("b"), Use("a", 3)), (Circle{})) << "rank 0 may have begun b";
  EXPECT_EQ(Lacks(0, Use("a", 3), Use("b")), (Circle{Use("a", 3), Use("b")}));
  EXPECT_EQ(stuck.Lacking(Use("a", 3), {Use("a", 3), Use("b")}), 1u);
  EXPECT_EQ(stuck.Lacking(Use("b"), {Use("a", 3), Use("b")}), 0u);
}

TEST_F(StuckRanksTest, ManyRanksInOneUseAreAskedOnceEach) {
  Stick(0, Use("a"));
  EXPECT_EQ(Stick(1, Use("a")), (Asked{}));
  EXPECT_EQ(Stick(2, Use("b")), (Asked{{0, {"b/1"}}, {1, {"b/1"}}, {2, {"a/1"}}}));
  EXPECT_EQ(Stick(3, Use("b")), (Asked{{3, {"a/1"}}}));
  Lacks(3, Use("b"), Use("a"));
  EXPECT_EQ(Lacks(1, Use("a"), Use("b")).size(), 2u);
  EXPECT_EQ(stuck.In(Use("a")).size(), 2u);
}

// Each rank is in two of three process sets, so only the three together are a circle.
TEST_F(StuckRanksTest, ACircleOfThree) {
  NamedUse a = Use("a", 1, 1), b = Use("b", 1, 2), c = Use("c", 1, 3);
  Stick(0, a, {1, 0});
  EXPECT_EQ(Stick(1, b, {2, 1}), (Asked{{1, {"a/1"}}}));
  EXPECT_EQ(Stick(2, c, {0, 2}), (Asked{{0, {"c/1"}}, {2, {"b/1"}}}));
  EXPECT_EQ(Lacks(1, b, a), (Circle{}));
  EXPECT_EQ(Lacks(2, c, b), (Circle{}));
  EXPECT_EQ(Lacks(0, a, c), (Circle{a, b, c}));
}

// Rank 2 waits for the ranks of the circle, but nobody in the circle waits for rank 2.
TEST_F(StuckRanksTest, WhoOnlyWaitsForTheCircleIsNotInIt) {
  NamedUse a = Use("a", 1, 1), b = Use("b", 1, 1), all = Use("all");
  Stick(0, a, {0, 1});
  Stick(1, b, {0, 1});
  Stick(2, all);
  Lacks(0, a, all);
  Lacks(1, b, all);
  Lacks(0, a, b);
  EXPECT_EQ(Lacks(1, b, a), (Circle{a, b}));
}

TEST_F(StuckRanksTest, CirclesThatHaveNothingToDoWithEachOtherAreTwo) {
  NamedUse a = Use("a", 1, 1), b = Use("b", 1, 1), c = Use("c", 1, 2), d = Use("d", 1, 2);
  Stick(0, a, {0, 1});
  Stick(1, b, {0, 1});
  Stick(2, c, {2, 3});
  Stick(3, d, {2, 3});
  EXPECT_TRUE(stuck.OnUnbegun(0, 100, {a, {b}}));
  EXPECT_TRUE(stuck.OnUnbegun(1, 101, {b, {a}}));
  EXPECT_TRUE(stuck.OnUnbegun(2, 102, {c, {d}}));
  EXPECT_TRUE(stuck.OnUnbegun(3, 103, {d, {c}}));
  EXPECT_EQ(stuck.Circles(), (std::vector<Circle>{{a, b}, {c, d}}));
}

TEST_F(StuckRanksTest, OldWordsCountForNothing) {
  Stick(0, Use("a"));
  Stick(1, Use("b"));
  Lacks(0, Use("a"), Use("b"));
  EXPECT_FALSE(stuck.OnUnbegun(1, 999, {Use("b"), {Use("a")}})) << "a former process";
  EXPECT_EQ(Lacks(1, Use("c"), Use("a")), (Circle{})) << "out of another use";
  EXPECT_EQ(Lacks(1, Use("b"), Use("z")), (Circle{})) << "nobody has asked";
  EXPECT_EQ(Lacks(2, Use("b"), Use("a")), (Circle{})) << "it is not stuck";
  // Rank 0 has gone on and is stuck again, so what it lacked before is no news.
  EXPECT_EQ(Stick(0, Use("a")), (Asked{{0, {"b/1"}}}));
  EXPECT_EQ(Lacks(1, Use("b"), Use("a")), (Circle{}));
  stuck.RemoveIf([](const StuckRanks::Wait& wait) { return wait.incarnation == 101; });
  EXPECT_EQ(Lacks(0, Use("a"), Use("b")), (Circle{})) << "rank 1 is gone";
}

TEST_F(StuckRanksTest, RoundsOfDifferentJoinsDoNotMeet) {
  Stick(0, Use("a", wire::FirstRoundAfter(1) + 1));
  EXPECT_EQ(Stick(1, Use("b", 1)), (Asked{}));
  EXPECT_EQ(Stick(1, Use("b", wire::FirstRoundAfter(1) + 2)).size(), 2u);
}

}  // namespace
}  // namespace byteps::protocol
