// Tests stages that end on a thread of their own, as copies from and to a device do, in workers
// with several lanes, with a codec, while servers come and go.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "src/protocol/codec_for_test.h"
#include "src/protocol/worker/lane/codec_stages.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

using protocol::PieceInHand;
using protocol::PieceTicket;
using protocol::StageVerdict;

// Copies bytes on a thread of its own, one copy after the other. Does not begin a copy that was
// called off. If it `stands_still`, it begins nothing.
class CopyEngine {
 public:
  CopyEngine(protocol::ResumePiece resume, bool stands_still)
      : resume_(std::move(resume)), stands_still_(stands_still), thread_([this] { Run(); }) {}
  ~CopyEngine() {
    {
      MutexLock lock(mutex_);
      ends_ = true;
      copies_.clear();
    }
    changed_.notify_all();
    thread_.join();
  }

  void Begin(const PieceTicket& ticket, ConstByteSpan from, ByteSpan to) {
    MutexLock lock(mutex_);
    copies_.push_back({ticket, from, to});
    changed_.notify_all();
  }
  // Calls off a copy; waits for the copy if it is under way.
  void CallOff(const PieceTicket& ticket) {
    MutexLock lock(mutex_);
    std::erase_if(copies_, [&](const Copy& copy) { return copy.ticket == ticket; });
  }
  void CallOffAll() {
    MutexLock lock(mutex_);
    copies_.clear();
  }

 private:
  struct Copy {
    PieceTicket ticket;
    ConstByteSpan from;
    ByteSpan to;
  };

  void Run() {
    MutexLock lock(mutex_);
    while (true) {
      while (!ends_ && (stands_still_ || copies_.empty())) lock.Wait(changed_);
      if (ends_) return;
      Copy copy = copies_.front();
      copies_.pop_front();
      std::ranges::copy(copy.from, copy.to.begin());  // under the lock, which CallOff waits for
      resume_(copy.ticket, StageVerdict::kDone, {});
    }
  }

  const protocol::ResumePiece resume_;
  const bool stands_still_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool ends_ BYTEPS_GUARDED_BY(mutex_) = false;
  std::deque<Copy> copies_ BYTEPS_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Has some tensors in "device memory", which lies in this process, and others in the host's memory.
class DevicePaths final : public protocol::PiecePaths {
 public:
  DevicePaths(const protocol::StageTools& tools, bool stands_still)
      : engine_(tools.resume, stands_still), encode_(tools.codecs), decode_(tools.codecs) {}

  const protocol::PiecePath& PathOf(const protocol::Exchange& exchange) override {
    const bool coded = exchange.tensor.codec != 0;
    if (exchange.memory == Memory::kHost) return coded ? coded_host_ : host_;
    return coded ? coded_device_ : device_;
  }
  void AbandonAll() override { engine_.CallOffAll(); }

 private:
  class Fetch final : public protocol::PieceStage {
   public:
    explicit Fetch(CopyEngine& engine) : engine_(engine) {}
    StageVerdict Enter(PieceInHand& piece) override {
      engine_.Begin(piece.ticket, *piece.input, piece.MakeOutput(piece.input->size()));
      return StageVerdict::kPending;
    }
    void Abandon(const PieceTicket& ticket) override { engine_.CallOff(ticket); }

   private:
    CopyEngine& engine_;
  };
  class Store final : public protocol::PieceStage {
   public:
    explicit Store(CopyEngine& engine) : engine_(engine) {}
    StageVerdict Enter(PieceInHand& piece) override {
      if (!piece.input.has_value()) return StageVerdict::kDone;
      engine_.Begin(piece.ticket, *piece.input, piece.spans.want);
      return StageVerdict::kPending;
    }
    void Abandon(const PieceTicket& ticket) override { engine_.CallOff(ticket); }

   private:
    CopyEngine& engine_;
  };

  CopyEngine engine_;
  Fetch fetch_{engine_};
  Store store_{engine_};
  protocol::EncodeStage encode_;
  protocol::DecodeStage decode_;
  const protocol::PiecePath host_;
  const protocol::PiecePath coded_host_{{&encode_}, {&decode_}};
  const protocol::PiecePath device_{{&fetch_}, {&store_}, true};
  const protocol::PiecePath coded_device_{{&fetch_, &encode_}, {&decode_, &store_}, true};
};

constexpr size_t kFloats = 100000;

class Stages : public ::testing::TestWithParam<Medium> {
 protected:
  ClusterOptions Options(bool stands_still = false) {
    ClusterOptions options;
    options.medium = GetParam();
    options.workers = 2;
    options.servers = 2;
    options.lanes = {2, 1};
    options.codecs = &codecs;
    options.paths = [stands_still](const protocol::StageTools& tools) {
      return std::make_unique<DevicePaths>(tools, stands_still);
    };
    return options;
  }
  static Bytes Filled(double value) {
    return Encode(DataType::kFloat32, std::vector<double>(kFloats, value));
  }

  // A sum of ones on all ranks; each use has another kind of memory, and half of the tensors a
  // codec.
  struct Sum {
    std::vector<Bytes> data{2, Filled(1)};
    std::vector<TicketRef> tickets;
  };
  static std::vector<Sum> SubmitAll(Cluster& cluster, int use) {
    std::vector<Sum> sums(4);
    for (int i = 0; i < 4; ++i) {
      for (uint32_t rank = 0; rank < 2; ++rank) {
        auto operation = SumOf("sum " + std::to_string(i), sums[i].data[rank]);
        operation.spec.codec = i % 2 == 0 ? protocol::CodecsForTest::kBfloat16 : 0;
        operation.memory = (use + i) % 4 < 2 ? Memory::kDevice : Memory::kHost;
        sums[i].tickets.push_back(cluster.Submit(rank, std::move(operation)));
      }
    }
    return sums;
  }
  static void ExpectSums(const std::vector<Sum>& sums) {
    const Bytes expected = Filled(2);
    for (const Sum& sum : sums) {
      for (const TicketRef& ticket : sum.tickets) {
        ASSERT_TRUE(ticket->WaitStatus().ok()) << ticket->WaitStatus().ToString();
      }
      for (const Bytes& one : sum.data) EXPECT_TRUE(one == expected);
    }
  }

  protocol::CodecsForTest codecs;  // outlive the servers
};

INSTANTIATE_TEST_SUITE_P(Media, Stages, ::testing::Values(Medium::kTcp, Medium::kInproc),
                         [](const auto& medium) { return std::string(NameOf(medium.param)); });

TEST_P(Stages, EndOnAThreadOfTheirOwn) {
  Cluster cluster(Options());
  ASSERT_TRUE(cluster.Start().ok());
  for (int use = 0; use < 4; ++use) ExpectSums(SubmitAll(cluster, use));
  cluster.LeaveInOrder();
}

TEST_P(Stages, GoOnWhenServersComeAndGo) {
  Cluster cluster(Options());
  ASSERT_TRUE(cluster.Start().ok());
  for (uint32_t use = 0; use < 4; ++use) {
    std::vector<Sum> sums = SubmitAll(cluster, static_cast<int>(use));
    if (use % 2 == 1) {
      ASSERT_NE(sums[0].tickets[0]->Wait(), nullptr);
    }
    cluster.KillServer(use);
    cluster.RestartServer();
    ExpectSums(sums);
  }
  cluster.LeaveInOrder();
}

TEST_P(Stages, AreCalledOffWhenTheSessionEnds) {
  ClusterOptions options = Options(true);
  options.leave_limit = milliseconds(50);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  std::vector<Bytes> data(2, Filled(1));
  std::vector<TicketRef> tickets;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    auto operation = SumOf("sum", data[rank]);
    operation.memory = Memory::kDevice;
    tickets.push_back(cluster.Submit(rank, std::move(operation)));
  }
  for (uint32_t rank = 0; rank < 2; ++rank) cluster.engine(rank).Leave();
  for (const TicketRef& ticket : tickets) {
    // Rank 0 leaves first. The other one may hear of that before it leaves.
    const Status how = ticket->WaitStatus();
    const bool is_peer_lost = ticket != tickets[0] && how.code() == StatusCode::kPeerLost;
    EXPECT_TRUE(is_peer_lost || how.code() == StatusCode::kShutdown) << how.ToString();
  }
}

}  // namespace
}  // namespace byteps::cluster
