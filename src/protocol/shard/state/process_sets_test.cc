#include "src/protocol/shard/state/process_sets.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

class ProcessSetsTest : public testing::Test {
 protected:
  ProcessSetsTest() { Apply(); }
  void Apply() {
    members.SetView(view, view.epoch == 1);
    sets.OnView(view.epoch == 1);
  }
  // Slot 0 speaks for ranks 0 and 1, slot 1 for rank 2, slot 2 for ranks 3 and 4.
  wire::View view = ViewOfContributors({2, 1, 2});
  Members members;
  ProcessSets sets{members};
};

TEST_F(ProcessSetsTest, ASetMayCoverAPartOfAContributor) {
  ASSERT_TRUE(sets.Tell(0, 7, BitmapOf({1, 3, 4})).ok());
  const ProcessSet* set = sets.Find(7);
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->RanksOf(0), 1u);
  EXPECT_EQ(set->RanksOf(2), 2u);
  EXPECT_EQ(set->FirstOf(0), 1u);
  EXPECT_EQ(set->FirstOf(2), 3u);
  EXPECT_FALSE(set->Includes(1));
  EXPECT_EQ(set->all()->List(), (std::vector<Slot>{0, 2}));
  EXPECT_EQ(set->present_count(), 2u);
  EXPECT_EQ(sets.Find(0)->RanksOf(0), 2u) << "everybody";
}

TEST_F(ProcessSetsTest, WhoIsLostStaysInItAndIsNotWaitedFor) {
  ASSERT_TRUE(sets.Tell(0, 7, BitmapOf({1, 3, 4})).ok());
  Lose(view, 2);
  Apply();
  EXPECT_EQ(sets.Find(7)->RanksOf(2), 2u) << "its contribution may be here";
  EXPECT_EQ(sets.Find(7)->FirstOf(2), 3u);
  EXPECT_EQ(sets.Find(7)->present_count(), 1u);
  EXPECT_EQ(sets.Find(0)->present_count(), 2u);
}

TEST_F(ProcessSetsTest, OnlyRanksOfTheSetHaveLeftIt) {
  view.workers[0].left = view.workers[4].left = true;  // ranks 0 and 4
  ++view.epoch;
  Apply();
  ASSERT_TRUE(sets.Tell(0, 7, BitmapOf({1, 3, 4})).ok());
  EXPECT_EQ(sets.Find(7)->LeftRankOf(0, members), UINT32_MAX) << "rank 0 is not in it";
  EXPECT_EQ(sets.Find(7)->LeftRankOf(2, members), 4u);
  EXPECT_EQ(sets.Find(0)->LeftRankOf(0, members), 0u);
}

TEST_F(ProcessSetsTest, WhoDoesNotTellMayNotPush) {
  EXPECT_EQ(sets.For(0, 7), nullptr);
  ASSERT_TRUE(sets.Tell(0, 7, BitmapOf({0, 2})).ok());
  EXPECT_NE(sets.For(0, 7), nullptr);
  EXPECT_EQ(sets.For(1, 7), nullptr);
  EXPECT_EQ(sets.NotTold(1, 7).message(), "push refused: worker 2 has not told of process set 7");
  EXPECT_NE(sets.For(1, 0), nullptr);
}

TEST_F(ProcessSetsTest, ContradictionsNameBoth) {
  EXPECT_EQ(sets.Tell(1, 7, BitmapOf({0, 1})).message(),
            "worker 2 tells of process set 7, which it is not in; add the same ranks under the "
            "same number everywhere");
  ASSERT_TRUE(sets.Tell(1, 7, BitmapOf({0, 2})).ok());
  EXPECT_EQ(sets.Tell(0, 7, BitmapOf({0, 1})).message(),
            "process set 7 has ranks 0, 1 on workers 0, 1 and 0, 2 on worker 2; add the same ranks "
            "under the same number everywhere");
}

TEST_F(ProcessSetsTest, ASetIsForgottenWithItsLastTellerAndItsLastRound) {
  ASSERT_TRUE(sets.Tell(0, 7, BitmapOf({0, 2})).ok());
  ProcessSet* set = sets.For(0, 7);
  set->BeginRound();
  sets.ForgetConnection(0);
  EXPECT_EQ(sets.size(), 1u) << "it has a round";
  sets.EndRound(*set);
  EXPECT_EQ(sets.size(), 0u);
  ASSERT_TRUE(sets.Tell(1, 7, BitmapOf({1, 2})).ok()) << "nobody remembers what it was";
  ASSERT_TRUE(sets.Tell(1, 7, {}).ok());
  EXPECT_EQ(sets.size(), 0u);
}

}  // namespace
}  // namespace byteps::protocol
