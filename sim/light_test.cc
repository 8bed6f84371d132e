// Tests jobs in which the network carries only the lengths of tensors.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "sim/cluster.h"
#include "src/protocol/kernel_arithmetic.h"

namespace byteps::sim {
namespace {

constexpr uint32_t kWorkers = 4;
constexpr uint32_t kServers = 4;
constexpr size_t kElements = 2'000'000;

// Some workers take the answer of a piece's former owner. The others drop it, because the view that
// moves the piece comes first. The first group tells the new owner the verdict. If the verdict's
// receipt did not arrive, the new owner would read one without the others: it would take the
// verdict for stable, and never answer their pushes.
TEST(LightClusterTest, PiecesMoveWhileTheyAreUnderWay) {
  protocol::KernelArithmetic arithmetic;
  ClusterOptions options;
  options.network.carry_bytes = false;
  options.arithmetic = &arithmetic;
  for (HostId host = 0; host < kWorkers + kServers; ++host) {
    options.host_links.push_back(12'500'000);
    if (host < kWorkers) {
      options.worker_hosts.push_back(host);
    } else {
      options.servers.push_back({host, 1});
    }
  }
  Cluster cluster(options);
  uint32_t open = kWorkers;
  cluster.on_complete = [&](uint32_t, protocol::OperationId) { --open; };
  cluster.Start();
  cluster.faults().SlowLink(kWorkers, 0.25);  // of the first server
  std::vector<float> input(kElements);
  std::vector<std::vector<float>> outputs(kWorkers, input);
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    protocol::Operation operation;
    operation.id = 1;
    operation.name = "gradient";
    operation.spec.shape = {static_cast<int64_t>(kElements)};
    operation.input = reinterpret_cast<const std::byte*>(input.data());
    operation.output = reinterpret_cast<std::byte*>(outputs[worker].data());
    cluster.Submit(worker, Time(milliseconds(1)), std::move(operation));
  }
  while (open > 0 && cluster.violations().empty() && cluster.network().now() < Time(seconds(60)) &&
         cluster.Step()) {
  }
  EXPECT_EQ(cluster.violations(), std::vector<std::string>());
  ASSERT_EQ(open, 0U);
  EXPECT_GT(cluster.views().front()->placed, 0U) << "no piece has moved";
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    EXPECT_TRUE(cluster.completions(worker).at(1).outcome.status.ok());
  }
}

}  // namespace
}  // namespace byteps::sim
