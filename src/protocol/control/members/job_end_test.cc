#include "src/protocol/control/members/job_end.h"

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

using JobEndTest = PartsTest;

TEST_F(JobEndTest, OnlyTheFirstEndCountsAndEverybodyIsToldOnce) {
  Add(roster, Role::kWorker, 1, Presence::kIn);
  Add(roster, Role::kWorker, 2, Presence::kLeft);
  job_end.End({StatusCode::kPeerLost, "worker 1 was lost"});
  job_end.EndInOrder("all have left");
  for (ConnectionId id : {1, 2}) {
    ASSERT_EQ(To<wire::JobOver>(id).size(), 1u);
    EXPECT_EQ(To<wire::JobOver>(id)[0].text, "worker 1 was lost");
  }
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_EQ(driver.finished[0].code(), StatusCode::kPeerLost);
  EXPECT_EQ(job_end.message().code, StatusCode::kPeerLost);
}

TEST_F(JobEndTest, AnEndInOrderSaysWhyNow) {
  Add(roster, Role::kServer, 101, Presence::kIn);
  EXPECT_FALSE(job_end.IsOver());
  job_end.EndInOrder("all workers have left");
  EXPECT_TRUE(job_end.IsOver());
  EXPECT_EQ(To<wire::JobOver>(101)[0], (wire::JobOver{StatusCode::kOk, "all workers have left"}));
  EXPECT_TRUE(driver.finished[0].ok());
}

}  // namespace
}  // namespace byteps::protocol
