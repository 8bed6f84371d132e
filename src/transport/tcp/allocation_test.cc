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

// Answers every frame and counts; allocates nothing itself.
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
    OutFrame frame{};
    frame.header_bytes = 40;
    frame.payload = place_;
    frame.urgency = static_cast<int64_t>(frames_ % 3);
    if (frames_ < end_) connection->Send(std::move(frame));
  }
  void OnClosed(const Status&) override {}

  // Runs until `end` frames have come; returns what was allocated after the first `warm`.
  uint64_t Measure(Loop& loop, size_t warm, size_t end, int in_flight) {
    warm_ = warm;
    end_ = end;
    loop.Post([this, in_flight] {
      for (int i = 0; i < in_flight; ++i) {
        OutFrame frame{};
        frame.payload = place_;
        connection->Send(std::move(frame));
      }
    });
    EXPECT_EQ(done_.get_future().wait_for(kPatience), std::future_status::ready);
    return after_ - before_;
  }

  Connection* connection = nullptr;

 private:
  std::vector<std::byte> place_ = std::vector<std::byte>(32768);
  size_t frames_ = 0;
  size_t warm_ = SIZE_MAX;
  size_t end_ = SIZE_MAX;
  uint64_t before_ = 0;
  uint64_t after_ = 0;
  std::promise<void> done_;
};

TEST(TcpAllocationTest, TheSteadyStateAllocatesNothing) {
  auto transport = MakeTcpTransport({});
  LoopThread server(*transport);
  LoopThread client(*transport);
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
  EXPECT_EQ(echoes[1].Measure(client.loop(), 4000, 12000, 64), 0u);
  client.Do([&] { ends[1].reset(); });
  server.Do([&] {
    ends[0].reset();
    listener.value().reset();
  });
}

}  // namespace
}  // namespace byteps::transport
