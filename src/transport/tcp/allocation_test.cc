// The steady state of the TCP transport allocates nothing. An executable of its own, because its
// operator new counts.
#include <future>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/allocation_count_for_test.h"
#include "src/transport/tcp/tcp_transport.h"
#include "src/transport/transport_conformance.h"

namespace byteps::transport {
namespace {

// Frames that are under way at any time.
constexpr size_t kInFlight = 64;

// Answers every frame and counts; allocates nothing itself. It answers the first frames only when
// it has all of them, with every urgency in turn: from then on its queues are as long as they can
// become, however unevenly the two threads are scheduled.
class Echo final : public FrameReceiver {
 public:
  Result<ByteSpan> OnHeader(uint8_t, ConstByteSpan, size_t payload_bytes) override {
    return ByteSpan(place_).first(payload_bytes);
  }
  void OnFrame() override {
    if (++frames_ == warm_) before_ = AllocationCount();
    if (frames_ == end_) {
      after_ = AllocationCount();
      done_.set_value();
    }
    if (frames_ > kBursts * kInFlight) {
      if (frames_ < end_) Answer(static_cast<int64_t>(frames_ % 3));
    } else if (frames_ % kInFlight == 0) {
      for (size_t i = 0; i < kInFlight; ++i) Answer(static_cast<int64_t>(frames_ / kInFlight % 3));
    }
  }
  void OnClosed(const Status&) override {}

  // Runs until `end` frames have come; returns the number of allocations after the first `warm`.
  uint64_t Measure(Loop& loop, size_t warm, size_t end) {
    warm_ = warm;
    end_ = end;
    loop.Post([this] {
      for (size_t i = 0; i < kInFlight; ++i) {
        OutFrame frame{.kind = 1};
        frame.payload = place_;
        connection->Send(std::move(frame));
      }
    });
    EXPECT_EQ(done_.get_future().wait_for(kPatience), std::future_status::ready);
    return after_ - before_;
  }

  Connection* connection = nullptr;

 private:
  static constexpr size_t kBursts = 3;  // one for each urgency

  void Answer(int64_t urgency) {
    OutFrame frame{.kind = 1};
    frame.header_bytes = 40;
    frame.payload = place_;
    frame.urgency = urgency;
    connection->Send(std::move(frame));
  }

  std::vector<std::byte> place_ = std::vector<std::byte>(32768);
  size_t frames_ = 0;
  size_t warm_ = SIZE_MAX;
  size_t end_ = SIZE_MAX;
  uint64_t before_ = 0;
  uint64_t after_ = 0;
  std::promise<void> done_;
};

void ExpectTheSteadyStateAllocatesNothing(Transport& transport) {
  LoopThread server(transport);
  LoopThread client(transport);
  std::unique_ptr<Connection> ends[2];
  std::promise<void> accepted;
  std::promise<void> connected;
  auto listener = server.Do([&] {
    return server.loop().Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) {
      ends[0] = std::move(connection);
      accepted.set_value();
    });
  });
  ASSERT_TRUE(listener.ok());
  std::string address = listener.value()->Address();
  client.Do([&] {
    client.loop().Connect(address, kPatience, [&](auto result) {
      if (result.ok()) ends[1] = std::move(result.value());
      connected.set_value();
    });
  });
  accepted.get_future().get();
  connected.get_future().get();
  Echo echoes[2];
  LoopThread* threads[2] = {&server, &client};
  for (int i : {0, 1}) {
    threads[i]->Do([&, i] {
      echoes[i].connection = ends[i].get();
      ends[i]->SetLimits({32768});
      ends[i]->Start(&echoes[i]);
    });
  }
  EXPECT_EQ(echoes[1].Measure(client.loop(), 4000, 12000), 0u);
  client.Do([&] { ends[1].reset(); });
  server.Do([&] {
    ends[0].reset();
    listener.value().reset();
  });
}

TEST(TcpAllocationTest, TheSteadyStateAllocatesNothing) {
  ExpectTheSteadyStateAllocatesNothing(*MakeTcpTransport({}));
}

// OpenSSL takes its memory by other functions, so this tests only the transport's part.
TEST(TcpAllocationTest, TheSteadyStateUnderTlsAllocatesNothing) {
  auto transport = MakeTlsTransport({}, {"a job", {std::byte{7}}});
  ASSERT_TRUE(transport.ok());
  ExpectTheSteadyStateAllocatesNothing(*transport.value());
}

}  // namespace
}  // namespace byteps::transport
