#include "src/protocol/shard/state/idle_members.h"

#include <gtest/gtest.h>

#include <vector>

namespace byteps::protocol {
namespace {

TEST(IdleMembersTest, NobodyHasToWaitForWhoWantsNothingOrHasItAll) {
  IdleMembers idle;
  idle.NoteHasAll(0);
  idle.Add({7, 3, 4}, 70, 5);
  EXPECT_TRUE(idle.IsSettled(0));
  EXPECT_TRUE(idle.IsSettled(70));
  EXPECT_FALSE(idle.IsSettled(1)) << "it wants bytes";
  EXPECT_EQ(idle.waiting(), (std::vector<Slot>{70})) << "who has it all was answered";
  EXPECT_EQ(idle.ref(), (wire::PieceRef{7, 3, 4}));
  EXPECT_EQ(idle.priority(), 5);
}

TEST(IdleMembersTest, ARepeatWaitsOnce) {
  IdleMembers idle;
  for (Slot slot : {2u, 1u, 2u}) idle.Add({7, 3, 4}, slot, 0);
  EXPECT_EQ(idle.waiting(), (std::vector<Slot>{1, 2}));
}

}  // namespace
}  // namespace byteps::protocol
