#include "src/protocol/control/members/process_ends.h"

#include <gtest/gtest.h>

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

TEST(ProcessEndsTest, MembersAreFoundByHostAndProcessAndOthersForgotten) {
  ProcessEnds ends;
  ends.Add({"h", 2, 1});
  ends.Add({"h", 101, std::nullopt});
  ends.Add({"elsewhere", 1, 0});
  EXPECT_EQ(ends.Take(JobView(1, 2, 1), true).size(), 2u);
  std::vector<ProcessEnds::End> found = ends.Take(JobView(1, 2, 1), false);
  ASSERT_EQ(found.size(), 2u) << "they were kept";
  EXPECT_EQ(found[0].incarnation, 2u);
  EXPECT_EQ(found[0].why, "process 2 has ended");
  EXPECT_EQ(found[1].incarnation, 101u);
  EXPECT_TRUE(ends.Take(JobView(1, 2, 1), false).empty());
}

TEST(ProcessEndsTest, ARankThatSomebodyElseHasTakenIsNotAbsent) {
  Roster roster;
  ProcessEnds ends;
  ends.Add({"h", 8, 0});
  ends.Add({"h", 9, 1});
  ends.Add({"h", 10, 7});
  EXPECT_EQ(ends.CountAbsent(roster, 4), 2u) << "rank 7 does not exist";
  Add(roster, Role::kWorker, 5, Presence::kWaiting, 1);
  EXPECT_EQ(ends.CountAbsent(roster, 4), 1u);
}

}  // namespace
}  // namespace byteps::protocol
