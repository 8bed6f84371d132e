#include "src/protocol/control/join_check.h"

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

class JoinCheckTest : public PartsTest {
 protected:
  // Why not; "" if it may.
  std::string Reason(const wire::Join& join, bool running = false) {
    JoinCheck check(options, roster, views.in_force(), departures, suspicions);
    return check.ReasonAgainst(join, worker_count, running).value_or("");
  }
  static bool Has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  std::optional<uint32_t> worker_count = 2;
};

TEST_F(JoinCheckTest, WhatMustBeEqualForAllIsNamed) {
  EXPECT_EQ(Reason(JoinOf(Role::kWorker, 1, 0)), "");
  wire::Join other = JoinOf(Role::kWorker, 1, 0);
  other.version = "2";
  EXPECT_TRUE(Has(Reason(other), "version 1, you run 2"));
  other = JoinOf(Role::kWorker, 1, 0);
  other.worker_count = 4;
  EXPECT_TRUE(Has(Reason(other), "4 workers, the others of 2"));
  Add(roster, Role::kWorker, 9, Standing::kWaiting, 1);
  other = JoinOf(Role::kWorker, 1, 0);
  other.piece_bytes_max = 8192;
  EXPECT_TRUE(Has(Reason(other), "BYTEPS_PARTITION_BYTES"));
  other = JoinOf(Role::kWorker, 1, 0);
  other.machines_sum = true;
  EXPECT_TRUE(Has(Reason(other), "BYTEPS_LOCAL_REDUCE"));
  other = JoinOf(Role::kServer, 101, 0);
  other.shards = 0;
  EXPECT_TRUE(Has(Reason(other), "0 shards"));
}

TEST_F(JoinCheckTest, APlaceIsTakenOnceAndFreeAgainWhenItsWorkerGoes) {
  Add(roster, Role::kWorker, 9, Standing::kIn, 1);
  EXPECT_TRUE(Has(Reason(JoinOf(Role::kWorker, 1, 1)), "taken by worker 1"));
  EXPECT_TRUE(Has(Reason(JoinOf(Role::kWorker, 1, 2)), "does not exist"));
  departures.Lose(9, "closed");
  EXPECT_EQ(Reason(JoinOf(Role::kWorker, 1, 1)), "");
  Add(roster, Role::kWorker, 8, Standing::kIn, 0);
  EXPECT_TRUE(Has(Reason(JoinOf(Role::kWorker, 1), true), "all its places"));
  options.min_workers = 1;
  EXPECT_EQ(Reason(JoinOf(Role::kWorker, 1), true), "") << "it waits until it can be let in";
}

TEST_F(JoinCheckTest, AServerTakesThePlaceOfOneThatIsGone) {
  BringIntoForce(JobView(1, 2, 2));
  JoinCheck check(options, roster, views.in_force(), departures, suspicions);
  wire::Join join = JoinOf(Role::kServer, 201);
  options.server_count = join.server_count = 2;
  EXPECT_TRUE(Has(Reason(join), "all its servers' places are taken"));
  suspicions.Watch(101, 101, seconds(1), now);
  suspicions.Closed(101, kOwnConnection, "reset", now);
  ASSERT_NE(check.PlaceFor(join), nullptr);
  EXPECT_EQ(check.PlaceFor(join)->index, 0u);
  departures.Lose(102, "closed");
  EXPECT_EQ(check.PlaceFor(join)->index, 1u) << "rather than one that may come back";
  join.shards = 3;
  EXPECT_EQ(check.PlaceFor(join), nullptr);
}

}  // namespace
}  // namespace byteps::protocol
