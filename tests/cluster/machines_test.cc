// Jobs with servers in which the ranks of each machine are one member.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

class Machines : public ::testing::Test {
 protected:
  static ClusterOptions Size(uint32_t workers, uint32_t machine_ranks, uint32_t servers) {
    ClusterOptions options;
    options.medium = Medium::kMachines;
    options.workers = workers;
    options.machine_ranks = machine_ranks;
    options.servers = servers;
    return options;
  }
  static Bytes Filled(double value, size_t count) {
    return Encode(DataType::kFloat32, std::vector<double>(count, value));
  }
  // Rank r has r + 1 everywhere.
  static void ExpectSums(Cluster& cluster, size_t count, const std::string& name) {
    const uint32_t workers = cluster.options().workers;
    std::vector<Bytes> data;
    for (uint32_t rank = 0; rank < workers; ++rank) data.push_back(Filled(rank + 1, count));
    std::vector<TicketRef> tickets;
    for (uint32_t rank = 0; rank < workers; ++rank) {
      tickets.push_back(cluster.Submit(rank, SumOf(name, data[rank])));
    }
    const Bytes expected = Filled(workers * (workers + 1) / 2, count);
    for (uint32_t rank = 0; rank < workers; ++rank) {
      ASSERT_TRUE(tickets[rank]->WaitStatus().ok()) << tickets[rank]->WaitStatus().ToString();
      EXPECT_TRUE(data[rank] == expected) << "rank " << rank;
    }
  }
};

TEST_F(Machines, SumOverTwoOfTwoRanks) {
  Cluster cluster(Size(4, 2, 1));
  Status started = cluster.Start();
  ASSERT_TRUE(started.ok()) << started.ToString();
  for (int use = 0; use < 3; ++use) ExpectSums(cluster, 100000, "sum");
  cluster.LeaveInOrder();
}

}  // namespace
}  // namespace byteps::cluster
