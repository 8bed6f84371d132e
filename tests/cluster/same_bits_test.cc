// Tests that jobs and results say what the bits of sums depend on, and that a job that allows only
// sums of its ranks refuses others. Other tests compare the bits themselves.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "src/machine/serverless/local_engine.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

ClusterOptions MachinesOf(std::vector<uint32_t> sizes) {
  ClusterOptions options;
  options.medium = Medium::kMachines;
  options.workers = 0;
  for (const uint32_t size : sizes) options.workers += size;
  options.machine_sizes = std::move(sizes);
  return options;
}

// Returns whether the sum of four elements on these ranks is said to be that of every layout, on
// each of them.
bool IsOfAnyLayout(Cluster& cluster, const std::string& name, DataType type, uint32_t set,
                   const std::vector<uint32_t>& ranks) {
  std::vector<Bytes> data(ranks.size(), Bytes(4 * SizeOf(type)));
  std::vector<TicketRef> tickets;
  for (size_t i = 0; i < ranks.size(); ++i) {
    protocol::Operation sum = OperationOn(name, wire::Op::kSum, type, {4}, data[i], data[i]);
    sum.spec.process_set = set;
    tickets.push_back(cluster.Submit(ranks[i], std::move(sum)));
  }
  size_t said = 0;
  for (const TicketRef& ticket : tickets) {
    const protocol::Outcome* outcome = ticket->Wait();
    if (outcome == nullptr || !outcome->status.ok()) ADD_FAILURE() << name;
    if (outcome != nullptr && outcome->any_layout) ++said;
  }
  EXPECT_TRUE(said == 0 || said == ranks.size()) << "ranks differ about " << name;
  return said > 0;
}

TEST(SameBits, AResultSaysWhetherEveryLayoutGivesIt) {
  for (const bool same_bits : {false, true}) {
    ClusterOptions options = MachinesOf({2, 1});
    options.same_bits = same_bits;
    Cluster cluster(options);
    ASSERT_TRUE(cluster.Start().ok());
    for (const uint32_t rank : {0u, 2u}) {
      ASSERT_TRUE(cluster.engine(rank).AddProcessSet(1, {0, 2}).ok());
    }
    EXPECT_TRUE(IsOfAnyLayout(cluster, "floats", DataType::kFloat32, 0, {0, 1, 2}));
    EXPECT_EQ(IsOfAnyLayout(cluster, "halves", DataType::kBfloat16, 0, {0, 1, 2}), same_bits);
    EXPECT_TRUE(IsOfAnyLayout(cluster, "one of each", DataType::kBfloat16, 1, {0, 2}));
    EXPECT_EQ(cluster.engine(1).Sums().bits,
              same_bits ? plan::SumBits::kOnNothingElse : plan::SumBits::kOnMachines);
    cluster.LeaveInOrder();
  }
}

TEST(SameBits, WhereMachinesAreNoBlocksOnlySomeSetsAre) {
  Cluster cluster(MachinesOf({1, 2}));
  ASSERT_TRUE(cluster.Start().ok());
  for (const uint32_t rank : {0u, 2u}) {
    ASSERT_TRUE(cluster.engine(rank).AddProcessSet(1, {0, 2}).ok());
  }
  EXPECT_FALSE(IsOfAnyLayout(cluster, "floats", DataType::kFloat32, 0, {0, 1, 2}));
  EXPECT_TRUE(IsOfAnyLayout(cluster, "integers", DataType::kInt32, 0, {0, 1, 2}));
  EXPECT_TRUE(IsOfAnyLayout(cluster, "one of each", DataType::kFloat32, 1, {0, 2}));
  EXPECT_EQ(cluster.engine(1).Sums().bits, plan::SumBits::kOnPlacement);
  cluster.LeaveInOrder();
}

TEST(SameBits, AJobThatCannotGiveThemDoesNotBegin) {
  ClusterOptions options = MachinesOf({1, 2});
  options.same_bits = true;
  Cluster cluster(options);
  const Status started = cluster.Start();
  EXPECT_EQ(started.code(), StatusCode::kRefused);
  EXPECT_NE(started.message().find("ranks 1, 2 are no blocks; put larger machines first"),
            std::string::npos)
      << started.message();
}

TEST(SameBits, OnOneMachineWithoutServersNothingElseCounts) {
  ClusterOptions options;
  options.medium = Medium::kWindow;
  options.workers = 3;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  EXPECT_TRUE(IsOfAnyLayout(cluster, "halves", DataType::kFloat16, 0, {0, 1, 2}));
  EXPECT_EQ(cluster.engine(2).Sums().text, "sums depend on ranks alone");
  cluster.LeaveInOrder();
}

// Starts two ranks of a machine without servers. Only the second rank has these options. Returns
// what both ranks say.
std::string RefusalsOf(const machine::LocalEngineOptions& other) {
  Log log("test", "error", true, WaitingStyle::kNothing);
  const auto start = [&log](machine::LocalEngineOptions options, uint32_t rank) {
    options.job = "same-bits-test " + std::to_string(getpid());
    options.secret = "a secret";
    options.rank = rank;
    options.start_limit = seconds(3);
    return machine::StartLocalEngine(options, log).status();
  };
  Status second;
  std::thread thread([&] { second = start(other, 1); });
  const Status first = start({}, 0);
  thread.join();
  EXPECT_FALSE(first.ok());
  EXPECT_FALSE(second.ok());
  return first.message() + "; " + second.message();
}

// An option of one rank alone would give each rank other sums.
TEST(SameBits, RanksOfAMachineWithOtherOptionsDoNotBegin) {
  machine::LocalEngineOptions other;
  other.sum_group = 3;
  const std::string groups = RefusalsOf(other);
  EXPECT_NE(groups.find("BYTEPS_SUM_GROUP=3"), std::string::npos) << groups;
  other = {};
  other.same_bits = true;
  const std::string bits = RefusalsOf(other);
  EXPECT_NE(bits.find("BYTEPS_SAME_BITS=1"), std::string::npos) << bits;
  other = {};
  other.groups_wish = "nccl";
  const std::string devices = RefusalsOf(other);
  EXPECT_NE(devices.find("BYTEPS_DEVICE_SUMS=nccl"), std::string::npos) << devices;
}

}  // namespace
}  // namespace byteps::cluster
