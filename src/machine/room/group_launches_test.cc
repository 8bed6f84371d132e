// Tests how the ranks of a machine end their groups of devices. What a rank launches is tested with
// the lanes.
#include "src/machine/room/group_launches.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "src/machine/launcher_for_test.h"
#include "src/machine/machine_for_test.h"

namespace byteps::machine {
namespace {

const Status kFailed(StatusCode::kUnavailable, "NCCL has failed");

// Rank 1 of a machine of three, with memory on its device.
class GroupLaunchesTest : public testing::Test {
 protected:
  GroupLaunchesTest() {
    protocol::Exchange exchange;
    exchange.memory = Memory::kDevice;
    EXPECT_TRUE(launches_.Takes(exchange));
  }
  GroupLaunches::Lane Lane() {
    GroupLaunches::Lane lane;
    lane.find = [](const RoundKey&) { return GroupLaunches::Round(); };
    lane.say = [this](const GroupLaunches::Word& word) { said_.push_back(word); };
    lane.names = [](RankSet ranks) { return "of the set " + std::to_string(ranks); };
    return lane;
  }

  WindowForTest window_{{.ranks = 3, .blocks = 2, .block_bytes = 64}};
  LaunchesForTest launcher_;
  std::vector<GroupLaunches::Word> said_;
  GroupLaunches launches_{window_.of(1), &launcher_, Lane()};
};

TEST_F(GroupLaunchesTest, ARankThatAbortsItsGroupTellsAllRanks) {
  launches_.Abort(kFailed);
  EXPECT_EQ(launcher_.over, std::vector<Status>{kFailed});
  EXPECT_EQ(window_.of(0).aborted(), 0b010u);
}

TEST_F(GroupLaunchesTest, AGroupThatFailsByItselfIsAborted) {
  launcher_.broken = Broken{kFailed};
  EXPECT_TRUE(launches_.Look());
  EXPECT_EQ(window_.of(0).aborted(), 0b010u);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_EQ(std::get<Broken>(said_[0]).why, kFailed);
}

TEST_F(GroupLaunchesTest, ARankAbortsItsGroupOnceWhenAnotherRankHasDoneSo) {
  launches_.Look();
  EXPECT_TRUE(launcher_.over.empty());
  const uint32_t events = window_.of(1).Events();
  window_.of(0).MarkAborted();
  EXPECT_NE(window_.of(1).Events(), events);
  launches_.Look();
  window_.of(2).MarkAborted();
  launches_.Look();
  ASSERT_EQ(launcher_.over.size(), 1u);
  EXPECT_EQ(launcher_.over[0].message(), "rank of the set 1 has ended the group of GPUs early");
}

// The rank hears of the loss, and ends the group with that reason.
TEST_F(GroupLaunchesTest, ARankDoesNotHeedTheAbortsBehindALoss) {
  window_.of(0).MarkLost(2);
  window_.of(0).MarkAborted();
  launches_.Look();
  EXPECT_TRUE(launcher_.over.empty());
}

// Nobody hears a rank that is over, and it hears nobody. But its group may not have ended.
TEST_F(GroupLaunchesTest, ARankThatIsOverHeedsAbortsAndLosses) {
  launches_.LookWhenOver();
  EXPECT_TRUE(launcher_.over.empty());
  window_.of(0).MarkLost(2);
  launches_.LookWhenOver();
  EXPECT_EQ(launcher_.over.size(), 1u);
  window_.of(0).MarkAborted();
  launches_.LookWhenOver();
  EXPECT_EQ(launcher_.over.size(), 1u);
}

// A rank that leaves in order is over before its group is. Other groups end by themselves.
TEST_F(GroupLaunchesTest, ARankThatIsOverHeedsTheEndsOfProcessesOfItsGroup) {
  launches_.Meet({"a library", std::string(sizeof(device::GroupId), 'g'), 0, 0b110});
  window_.of(1).MarkGone(0);
  launches_.LookWhenOver();
  EXPECT_TRUE(launcher_.over.empty()) << "rank 0 is in another group";
  window_.of(1).MarkGone(2);
  launches_.Look();
  EXPECT_TRUE(launcher_.over.empty()) << "launches may be under way";
  launches_.LookWhenOver();
  ASSERT_EQ(launcher_.over.size(), 1u);
  EXPECT_EQ(launcher_.over[0].message(), "rank of the set 4 has ended the group of GPUs early");
}

TEST_F(GroupLaunchesTest, ARankThatIsOverTellsWhenItsGroupFails) {
  launcher_.broken = Broken{kFailed};
  launches_.LookWhenOver();
  EXPECT_EQ(window_.of(0).aborted(), 0b010u);
  EXPECT_TRUE(said_.empty()) << "the carrier has gone";
}

}  // namespace
}  // namespace byteps::machine
