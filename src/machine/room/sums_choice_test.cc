#include "src/machine/room/sums_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace byteps::machine {
namespace {

class SumsChoiceTest : public testing::Test {
 protected:
  static PlannedSums TwoGroups() {
    return {{{{0, 1}, {0.5, 0.5}}, {{2, 3}, {0.5, 0.5}}}, {{}, {}}, "NCCL 2.28.3", "by groups"};
  }
  void AllSayDevices() {
    for (uint32_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(plans, 0);
      choice.OnDevice(rank, {"gpu " + std::to_string(rank)});
    }
    EXPECT_EQ(plans, 1);
  }
  void AllMeet(uint32_t from = 0) {
    for (uint32_t rank = from; rank < 4; ++rank) choice.OnMet(rank, {});
  }

  int plans = 0;
  std::vector<std::pair<uint32_t, SumsSo>> told;
  std::vector<std::pair<uint32_t, Status>> over;
  std::vector<size_t> decided;  // numbers of groups
  std::vector<std::pair<std::string, bool>> lines;
  SumsChoice choice{
      4,
      {[this](const std::vector<HasDevice>&) { ++plans; },
       [this](uint32_t rank, const SumsSo& word) { told.emplace_back(rank, word); },
       [this](uint32_t rank, const GroupOver& word) { over.emplace_back(rank, word.why); },
       [this](const std::vector<plan::DeviceGroup>& groups) { decided.push_back(groups.size()); },
       [this](const std::string& line, bool is_warning) { lines.emplace_back(line, is_warning); }}};
};

TEST_F(SumsChoiceTest, GroupsWhenAllRanksHaveMet) {
  AllSayDevices();
  EXPECT_FALSE(choice.is_decided());
  choice.OnPlan(TwoGroups());
  ASSERT_EQ(told.size(), 4u);
  EXPECT_EQ(told[3].first, 3u);
  EXPECT_EQ(told[3].second.place, 1u);
  EXPECT_EQ(told[3].second.size(), 2u);
  EXPECT_EQ(told[3].second.library, "NCCL 2.28.3");
  AllMeet();
  EXPECT_TRUE(choice.is_decided());
  EXPECT_EQ(decided, std::vector<size_t>{2});
  EXPECT_EQ(lines.size(), 1u);
  EXPECT_TRUE(choice.End(Status::Ok()));
  EXPECT_EQ(over.size(), 4u);
  EXPECT_FALSE(choice.End(Status::Ok()));
  EXPECT_EQ(over.size(), 4u);
}

// Launches may be under way when a rank leaves.
TEST_F(SumsChoiceTest, AnErrorBehindTheEndIsSaidOnce) {
  AllSayDevices();
  choice.OnPlan(TwoGroups());
  AllMeet();
  EXPECT_TRUE(choice.End(Status::Ok()));
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(choice.End({StatusCode::kUnavailable, "NCCL says so"}));
    EXPECT_EQ(over.size(), 8u);
  }
  EXPECT_FALSE(over.back().second.ok());
}

TEST_F(SumsChoiceTest, TheWindowIfThePlanSaysSo) {
  AllSayDevices();
  choice.OnPlan({.text = "ranks share a GPU"});
  EXPECT_EQ(decided, std::vector<size_t>{0});
  EXPECT_TRUE(told.empty());
  EXPECT_EQ(lines, (std::vector<std::pair<std::string, bool>>{{"ranks share a GPU", false}}));
}

TEST_F(SumsChoiceTest, WhoAskedForGroupsIsWarnedIfThereAreNone) {
  AllSayDevices();
  choice.OnPlan({.text = "there is no NCCL", .is_warning = true});
  EXPECT_EQ(lines, (std::vector<std::pair<std::string, bool>>{{"there is no NCCL", true}}));
}

TEST_F(SumsChoiceTest, AnErrorWhileTheRanksMeetIsTold) {
  AllSayDevices();
  choice.OnPlan(TwoGroups());
  EXPECT_FALSE(choice.End({StatusCode::kUnavailable, "NCCL says so"}));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].first.find("NCCL says so"), std::string::npos);
  EXPECT_TRUE(lines[0].second);
}

// The choice never goes back to groups.
TEST_F(SumsChoiceTest, TheWindowIfOneRankDoesNotMeet) {
  AllSayDevices();
  choice.OnPlan(TwoGroups());
  choice.OnMet(2, {{StatusCode::kUnavailable, "it has NCCL 2.27.0"}});
  EXPECT_EQ(decided, std::vector<size_t>{0});
  ASSERT_EQ(over.size(), 4u) << "all let go of their groups";
  EXPECT_FALSE(over[0].second.ok());
  AllMeet();
  choice.OnLimit("60 s");
  EXPECT_EQ(decided.size(), 1u);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].first.find("local rank 2"), std::string::npos);
  EXPECT_NE(lines[0].first.find("NCCL 2.27.0"), std::string::npos);
  EXPECT_TRUE(lines[0].second);
}

TEST_F(SumsChoiceTest, TheWindowAtTheLimit) {
  AllSayDevices();
  choice.OnLimit("60 s");
  EXPECT_EQ(decided, std::vector<size_t>{0});
  choice.OnPlan(TwoGroups());
  EXPECT_TRUE(told.empty());
}

TEST_F(SumsChoiceTest, TheWindowIfARankLeavesMeanwhile) {
  AllSayDevices();
  choice.OnPlan(TwoGroups());
  EXPECT_FALSE(choice.End(Status::Ok()));
  EXPECT_EQ(decided, std::vector<size_t>{0});
  AllMeet();
  EXPECT_EQ(decided.size(), 1u);
}

}  // namespace
}  // namespace byteps::machine
