#include "src/protocol/control/changes/join_check.h"

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

class JoinCheckTest : public PartsTest {
 protected:
  // Returns the reason against this join; "": it may join.
  std::string Reason(const wire::Join& join) { return ReasonAgainst(state, join).value_or(""); }
  static bool Has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(JoinCheckTest, WhatMustBeEqualForAllIsNamed) {
  gathering.Expect(2);
  EXPECT_EQ(Reason(JoinOf(Role::kWorker, 1, 0)), "");
  wire::Join other = JoinOf(Role::kWorker, 1, 0);
  other.version = "2";
  EXPECT_TRUE(Has(Reason(other), "version 1, you run 2"));
  other = JoinOf(Role::kWorker, 1, 0);
  other.worker_count = 4;
  EXPECT_TRUE(Has(Reason(other), "4 workers, the others of 2"));
  Add(roster, Role::kWorker, 9, Presence::kWaiting, 1);
  other = JoinOf(Role::kWorker, 1, 0);
  other.piece_bytes_max = 8192;
  EXPECT_TRUE(Has(Reason(other), "BYTEPS_PARTITION_BYTES"));
  other = JoinOf(Role::kWorker, 1, 0);
  other.machines_sum = true;
  EXPECT_TRUE(Has(Reason(other), "BYTEPS_LOCAL_REDUCE"));
  other = JoinOf(Role::kWorker, 1, 0);
  other.same_bits = true;
  EXPECT_TRUE(Has(Reason(other), "BYTEPS_SAME_BITS"));
  other = JoinOf(Role::kWorker, 1, 0);
  other.sum_group = 3;
  EXPECT_TRUE(Has(Reason(other), "groups of 3 ranks, the others in groups of 1"));
  other = JoinOf(Role::kWorker, 1, 0);
  other.takes_objects = true;
  EXPECT_TRUE(Has(Reason(other), "takes Python objects from other ranks, the others do not"));
  EXPECT_TRUE(Has(Reason(other), "BYTEPS_ALLOW_OBJECTS"));
  other = JoinOf(Role::kServer, 101, 0);
  other.shards = 0;
  EXPECT_TRUE(Has(Reason(other), "0 shards"));
}

TEST_F(JoinCheckTest, AWorkerWithAnotherLayoutIsToldBoth) {
  auto with = [](std::vector<uint32_t> sizes, uint32_t workers = 3) {
    wire::Join join = JoinOf(Role::kWorker, 1, 0);
    join.local_sizes = std::move(sizes);
    join.worker_count = workers;
    return join;
  };
  // The coordinator was told of two machines, and not how many workers each has.
  EXPECT_EQ(Reason(with({2, 1})), "");
  EXPECT_EQ(Reason(with({2}, 4)), "");
  EXPECT_TRUE(Has(Reason(with({1, 1, 2}, 4)),
                  "machines with 1,1,2 workers, the coordinator of 2 worker machines"));
  roster.Add(9, with({2, 1})).presence = Presence::kWaiting;
  wire::Join second = with({2, 1});
  second.rank = 1;
  EXPECT_EQ(Reason(second), "");
  EXPECT_TRUE(Has(Reason(with({1, 2})),
                  "told of machines with 1,2 workers, the others of machines with 2,1 workers; "
                  "DMLC_NUM_WORKER"));
  EXPECT_TRUE(Has(Reason(with({1}, 4)), "4 machines with 1 worker each, the others of machines"));
  EXPECT_TRUE(Has(Reason(with({1})), "3 workers, the coordinator of 2 worker machines"));
  EXPECT_TRUE(Has(Reason(with({2}, 4)), "BYTEPS_LOCAL_SIZES"));
  options.local_sizes = {1, 2};
  options.worker_machines = 3;
  EXPECT_TRUE(Has(Reason(with({2, 1})), "the coordinator of machines with 1,2 workers"));
}

// A launcher starts two machines and tells neither how many workers the other has: 2, 1 and 1
// workers are not 4 machines with 1 each.
TEST_F(JoinCheckTest, EqualNumbersOfWorkersOnOtherMachinesAreAnotherLayout) {
  wire::Join join = JoinOf(Role::kWorker, 9, 0);
  join.worker_count = 4;
  join.local_sizes = {2};
  gathering.Expect(4);
  roster.Add(9, join).presence = Presence::kWaiting;
  join = JoinOf(Role::kWorker, 1, 2);
  join.worker_count = 4;
  join.server_count = 4;  // follows from the layout
  join.local_sizes = {1};
  EXPECT_TRUE(Has(Reason(join),
                  "4 machines with 1 worker each, the others of 2 machines with 2 workers each"));
  options.local_sizes = {2};
  options.worker_machines = 4;
  EXPECT_TRUE(Has(Reason(join), "the coordinator of 2 machines with 2 workers each"));
}

TEST_F(JoinCheckTest, ALayoutThatCannotBeIsRefused) {
  for (const std::vector<uint32_t>& sizes :
       std::vector<std::vector<uint32_t>>{{0}, {3}, {2, 0}, {1, 2}, {UINT32_MAX, 3}, {1, 0, 1}}) {
    wire::Join join = JoinOf(Role::kWorker, 1, 0);
    join.local_sizes = sizes;
    EXPECT_TRUE(Has(Reason(join), "fault of the program")) << sizes.front();
  }
}

TEST_F(JoinCheckTest, APlaceIsTakenOnceAndFreeAgainWhenItsWorkerGoes) {
  Add(roster, Role::kWorker, 9, Presence::kIn, 1);
  EXPECT_TRUE(Has(Reason(JoinOf(Role::kWorker, 1, 1)), "taken by worker 1"));
  EXPECT_TRUE(Has(Reason(JoinOf(Role::kWorker, 1, 2)), "does not exist"));
  departures.Lose(9, "closed");
  EXPECT_EQ(Reason(JoinOf(Role::kWorker, 1, 1)), "");
  Add(roster, Role::kWorker, 8, Presence::kIn, 0);
  gathering.Stop();
  EXPECT_TRUE(Has(Reason(JoinOf(Role::kWorker, 1)), "all its places"));
  options.min_workers = 1;
  EXPECT_EQ(Reason(JoinOf(Role::kWorker, 1)), "") << "it waits until it can be let in";
}

TEST_F(JoinCheckTest, AServerTakesThePlaceOfOneThatIsGone) {
  BringIntoForce(JobView(1, 2, 2));
  wire::Join join = JoinOf(Role::kServer, 201);
  options.server_count = join.server_count = 2;
  EXPECT_TRUE(Has(Reason(join), "all its servers' places are taken"));
  suspicions.Watch(101, 101, seconds(1), now);
  suspicions.Closed(101, kOwnConnection, "reset", now);
  ASSERT_NE(PlaceFor(state, join), nullptr);
  EXPECT_EQ(PlaceFor(state, join)->index, 0u);
  departures.Lose(102, "closed");
  EXPECT_EQ(PlaceFor(state, join)->index, 1u) << "rather than one that may come back";
  join.shards = 3;
  EXPECT_EQ(PlaceFor(state, join), nullptr);
}

TEST_F(JoinCheckTest, AServerThatWantsAPlaceHearsWhyItCannotHaveThatPlace) {
  BringIntoForce(JobView(1, 2, 2));
  options.server_count = 2;
  wire::Join join = JoinOf(Role::kServer, 201, 1);
  join.server_count = 2;
  EXPECT_TRUE(Has(Reason(join), "it is taken by server 1 (process 102); give each server"));
  join.shards = 3;
  EXPECT_TRUE(Has(Reason(join), "server 1 had 1 shards, you have 3"));
  join.rank = 2;
  EXPECT_TRUE(Has(Reason(join), "server 2 does not exist: there are 2"));
}

}  // namespace
}  // namespace byteps::protocol
