// Tests that the same inputs give the same bits, whatever the order of submission, the size of
// pieces, and the number of servers, shards and lanes are.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "src/kernels/kernels.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

// With five ranks, the tree of ranks and a sum from left to right differ.
constexpr uint32_t kRanks = 5;
constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat64, DataType::kBfloat16,
                               DataType::kFloat16};
constexpr size_t kTensors = 8;

struct Shape {
  uint32_t piece_bytes_max;
  uint32_t servers;
  uint32_t shards;
  uint32_t lanes;  // of the second rank; the first one has 1, the third 3, the others 2
};

// Returns floats of the tensor's type whose sum depends on the order of its terms.
Bytes InputOf(uint32_t rank, size_t tensor) {
  DataType type = kTypes[tensor % 4];
  Bytes floats = RandomFloats(1 + 3777 * tensor, 100 * tensor + rank);
  std::vector<double> values = Decode(DataType::kFloat32, floats);
  if (type == DataType::kFloat16) {
    for (double& value : values) value /= 1 << 20;
  }
  return Encode(type, values);
}

Bytes SumAt(const std::vector<uint32_t>& places, size_t tensor) {
  std::vector<Bytes> inputs;
  std::vector<const std::byte*> pointers;
  for (uint32_t rank = 0; rank < kRanks; ++rank) inputs.push_back(InputOf(rank, tensor));
  for (const Bytes& input : inputs) pointers.push_back(input.data());
  Bytes sum(inputs[0].size());
  DataType type = kTypes[tensor % 4];
  kernels::Combine(Combine::kSum, type, sum.data(), pointers, kernels::SumTree(places),
                   sum.size() / SizeOf(type));
  return sum;
}

// Sums in the tree of ranks, as the specification says.
Bytes Reference(size_t tensor) { return SumAt({0, 1, 2, 3, 4}, tensor); }

// The other orders give other bits, or this test would prove nothing.
TEST(BitsReference, TheOrderOfTheTermsShows) {
  size_t tensor = 4;
  EXPECT_NE(SumAt({0, 1, 2, 4, 8}, tensor), Reference(tensor)) << "from left to right";
  EXPECT_NE(SumAt({0, 1, 2, 3, 3}, tensor), Reference(tensor));
}

class Bits : public ::testing::TestWithParam<Medium> {
 protected:
  void CheckShape(const Shape& shape, uint64_t seed) {
    ClusterOptions options;
    options.medium = GetParam();
    options.workers = kRanks;
    options.servers = shape.servers;
    options.shards = shape.shards;
    options.piece_bytes_max = shape.piece_bytes_max;
    options.lanes = {1, shape.lanes, 3, 2, 2};
    Cluster cluster(options);
    ASSERT_TRUE(cluster.Start().ok());
    std::mt19937_64 random(seed);
    std::vector<std::vector<Bytes>> data(kRanks, std::vector<Bytes>(kTensors));
    std::vector<TicketRef> tickets;
    std::vector<std::pair<uint32_t, size_t>> order;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      for (size_t i = 0; i < kTensors; ++i) order.emplace_back(rank, i);
    }
    std::shuffle(order.begin(), order.end(), random);
    for (auto [rank, i] : order) {
      Bytes& mine = data[rank][i] = InputOf(rank, i);
      auto count = static_cast<int64_t>(mine.size() / SizeOf(kTypes[i % 4]));
      tickets.push_back(
          cluster.Submit(rank, OperationOn("tensor " + std::to_string(i), wire::Op::kSum,
                                           kTypes[i % 4], {count}, mine, mine)));
    }
    for (const TicketRef& ticket : tickets) ASSERT_TRUE(ticket->WaitStatus().ok());
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      for (size_t i = 0; i < kTensors; ++i) {
        ASSERT_EQ(data[rank][i], reference_[i])
            << "tensor " << i << " on rank " << rank << ": pieces of " << shape.piece_bytes_max
            << " bytes, " << shape.servers << " servers, " << shape.shards << " shards, "
            << shape.lanes << " lanes";
      }
    }
    cluster.LeaveInOrder();
  }

  void SetUp() override {
    for (size_t i = 0; i < kTensors; ++i) reference_.push_back(Reference(i));
  }

  std::vector<Bytes> reference_;
};

INSTANTIATE_TEST_SUITE_P(Media, Bits,
                         ::testing::Values(Medium::kTcp, Medium::kTls, Medium::kRdma,
                                           Medium::kInproc, Medium::kWindow),
                         [](const auto& medium) { return std::string(NameOf(medium.param)); });

TEST_P(Bits, AreTheSameForAllServersShardsLanesAndPieces) {
  uint64_t seed = 0;
  for (uint32_t piece_bytes : {4096u, 32768u, 262144u}) {
    for (uint32_t servers = 1; servers <= 4; ++servers) {
      for (uint32_t shards = 1; shards <= 4; ++shards) {
        auto lanes = static_cast<uint32_t>(1 + seed % 5);
        CheckShape({piece_bytes, servers, shards, lanes}, ++seed);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// With a credit of one piece, ranks that begin at opposite ends wait for each other's pieces. A
// piece that a shard waits for passes the credit.
TEST_P(Bits, RanksThatSubmitInOppositeOrderWithACreditOfOnePieceFinish) {
  constexpr size_t kCount = 40;
  ClusterOptions options;
  options.medium = GetParam();
  options.servers = 2;
  options.shards = 2;
  options.piece_bytes_max = 4096;
  options.credit_bytes = 1;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  for (int round = 0; round < 2; ++round) {
    std::vector<std::vector<Bytes>> data(2, std::vector<Bytes>(kCount));
    std::vector<TicketRef> tickets;
    for (size_t step = 0; step < kCount; ++step) {
      for (uint32_t rank = 0; rank < 2; ++rank) {
        size_t i = rank == 0 ? step : kCount - 1 - step;
        data[rank][i] = Encode(DataType::kFloat32, std::vector<double>(3000, rank + i + 1.0));
        tickets.push_back(
            cluster.Submit(rank, SumOf("tensor " + std::to_string(i), data[rank][i])));
      }
    }
    for (const TicketRef& ticket : tickets) {
      Status ended = ticket->WaitStatus();
      ASSERT_TRUE(ended.ok()) << ended.ToString();
    }
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(data[0][i],
                Encode(DataType::kFloat32, std::vector<double>(3000, 2.0 * (i + 1) + 1)));
      EXPECT_EQ(data[0][i], data[1][i]);
    }
  }
  cluster.LeaveInOrder();
}

}  // namespace
}  // namespace byteps::cluster
