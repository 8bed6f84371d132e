// Tests whole jobs whose tensors lie in the memory of devices, which lanes copy piece by piece,
// while servers come and go, copies fail, and a device's driver stands still.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/count_for_test.h"
#include "src/device/host/host_devices.h"
#include "src/protocol/codec_for_test.h"
#include "src/runtime/worker/device_paths.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster::device_pieces {
namespace {

using device::host::HostDevice;

constexpr size_t kFloats = 100000;
constexpr size_t kBytes = kFloats * sizeof(float);
constexpr uint32_t kRanks = 2;

// A device of one worker, with its lines.
struct WorkerDevice {
  WorkerDevice() {
    lines.pieces.Prepare();
    Count made;
    lines.pinned.Make(1, 1, [&](const device::PinnedMemory::Block&) { made.Add(); });
    EXPECT_TRUE(made.Reaches(1));
  }
  HostDevice device{0};
  device::DeviceLines lines{
      {std::shared_ptr<device::Device>(), &device}, 0, size_t{1} << 30, [](const std::string&) {}};
};

class DevicePieces : public ::testing::TestWithParam<Medium> {
 protected:
  ClusterOptions Options() {
    ClusterOptions options;
    options.medium = GetParam();
    options.workers = kRanks;
    options.servers = 2;
    options.lanes = {2, 1};
    options.codecs = &codecs_;
    options.paths = [](const protocol::StageTools& tools) {
      return std::make_unique<runtime::DevicePaths>(tools, 7);
    };
    return options;
  }

  // A sum of ones on all ranks. Each use has another kind of memory, and half of the tensors a
  // codec.
  struct Sum {
    std::byte* on_device[kRanks] = {};
    std::vector<Bytes> on_host{kRanks, Filled(1)};
    std::vector<TicketRef> tickets;
  };
  static Bytes Filled(double value) {
    return Encode(DataType::kFloat32, std::vector<double>(kFloats, value));
  }
  Sum Submit(Cluster& cluster, int number, bool on_device) {
    Sum sum;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      auto operation = SumOf("sum " + std::to_string(number), sum.on_host[rank]);
      operation.spec.codec = number % 2 == 0 ? protocol::CodecsForTest::kBfloat16 : 0;
      if (on_device) {
        std::byte* const memory = devices_[rank].device.NewMemory(kBytes);
        std::memcpy(memory, operation.input, kBytes);
        operation.input = operation.output = sum.on_device[rank] = memory;
        operation.memory = Memory::kDevice;
        operation.device = {&devices_[rank].lines, ++owner_};
      }
      sum.tickets.push_back(cluster.Submit(rank, std::move(operation)));
    }
    return sum;
  }
  static void ExpectSum(const Sum& sum) {
    const Bytes expected = Filled(2);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      const Status how = sum.tickets[rank]->WaitStatus();
      ASSERT_TRUE(how.ok()) << how.ToString();
      const void* const result = sum.on_device[rank] == nullptr
                                     ? static_cast<const void*>(sum.on_host[rank].data())
                                     : sum.on_device[rank];
      EXPECT_EQ(std::memcmp(result, expected.data(), kBytes), 0);
    }
  }

  protocol::CodecsForTest codecs_;  // outlive the servers
  WorkerDevice devices_[kRanks];    // outlive the workers
  uint64_t owner_ = 1;
};

INSTANTIATE_TEST_SUITE_P(Media, DevicePieces, ::testing::Values(Medium::kTcp, Medium::kInproc),
                         [](const auto& medium) { return std::string(NameOf(medium.param)); });

TEST_P(DevicePieces, AreCopiedThroughPinnedMemoryOnly) {
  Cluster cluster(Options());
  ASSERT_TRUE(cluster.Start().ok());
  for (int use = 0; use < 4; ++use) {
    std::vector<Sum> sums;
    for (int i = 0; i < 4; ++i) sums.push_back(Submit(cluster, i, (use + i) % 4 < 2));
    for (const Sum& sum : sums) ExpectSum(sum);
  }
  for (WorkerDevice& one : devices_) {
    EXPECT_GT(one.device.copies(), 8u * 2 * 2) << "each tensor has several pieces";
    EXPECT_EQ(one.lines.pieces.ordinary_bytes(), 0u);
  }
  cluster.LeaveInOrder();
}

TEST_P(DevicePieces, GoOnWhenServersComeAndGo) {
  Cluster cluster(Options());
  ASSERT_TRUE(cluster.Start().ok());
  for (uint32_t use = 0; use < 4; ++use) {
    std::vector<Sum> sums;
    for (int i = 0; i < 4; ++i) sums.push_back(Submit(cluster, i, true));
    if (use % 2 == 1) {
      ASSERT_NE(sums[0].tickets[0]->Wait(), nullptr);
    }
    cluster.KillServer(use);
    cluster.RestartServer();
    for (const Sum& sum : sums) ExpectSum(sum);
  }
  cluster.LeaveInOrder();
}

TEST_P(DevicePieces, ACopyThatFailsIsTheErrorOfAllRanks) {
  Cluster cluster(Options());
  ASSERT_TRUE(cluster.Start().ok());
  for (HostDevice::Step step : {HostDevice::Step::kCopy, HostDevice::Step::kWait}) {
    devices_[1].device.copies_wait().Hold();  // so the failing step is one of the input
    devices_[1].device.FailOnce(step);
    const Sum sum = Submit(cluster, 1, true);
    devices_[1].device.copies_wait().LetGo();
    for (const TicketRef& ticket : sum.tickets) {
      const Status how = ticket->WaitStatus();
      EXPECT_EQ(how.code(), StatusCode::kUnavailable) << how.ToString();
      EXPECT_NE(how.message().find("rank 7 has no input for tensor 'sum 1': a copy"),
                std::string::npos)
          << how.ToString();
    }
    ExpectSum(Submit(cluster, 1, true));
  }
  cluster.LeaveInOrder();
}

// The lanes do not wait for the driver: the operation ends, and its copies later.
TEST_P(DevicePieces, ADriverThatStandsStillDoesNotHoldUpTheEnd) {
  ClusterOptions options = Options();
  options.leave_limit = milliseconds(50);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  devices_[0].device.copies_wait().Hold();
  const Sum sum = Submit(cluster, 1, true);
  ExpectSum(Submit(cluster, 3, false));
  for (uint32_t rank = 0; rank < kRanks; ++rank) cluster.engine(rank).Leave();
  for (const TicketRef& ticket : sum.tickets) {
    // Rank 0 leaves first. The others may hear of that before they leave.
    const Status how = ticket->WaitStatus();
    const bool is_peer_lost = ticket != sum.tickets[0] && how.code() == StatusCode::kPeerLost;
    EXPECT_TRUE(is_peer_lost || how.code() == StatusCode::kShutdown) << how.ToString();
  }
  Count over;
  devices_[0].lines.down.WhenOver(owner_ - 1, [&] { over.Add(); });
  EXPECT_EQ(over.now(), 0) << "a copy is under way";
  devices_[0].device.copies_wait().LetGo();
  EXPECT_TRUE(over.Reaches(1));
}

}  // namespace
}  // namespace byteps::cluster::device_pieces
