// A check for all transports over byte streams: their steady state allocates nothing. A program
// that includes this header is built with src/base/allocation_count_for_test.cc.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/allocation_count_for_test.h"
#include "src/base/buffer_pool.h"
#include "src/transport/transport_conformance.h"

namespace byteps::transport {

// Frames that are under way at any time.
inline constexpr size_t kInFlight = 64;

// Answers every frame and counts; allocates nothing itself. It answers the first frames only when
// it has all of them, with every urgency in turn: from then on its queues of frames are as long as
// they can become, however unevenly the two threads are scheduled.
class Echo final : public FrameReceiver {
 public:
  Result<ByteSpan> OnHeader(uint8_t, ConstByteSpan, size_t payload_bytes) override {
    if (pool == nullptr) return ByteSpan(place_).first(payload_bytes);
    got_ = pool->Take(payload_bytes);
    return ByteSpan(got_.data(), payload_bytes);
  }
  void OnFrame() override {
    if (++frames_ == window_end_) EndWindow();
    if (frames_ > kBursts * kInFlight) {
      if (frames_ < window_end_) Answer(static_cast<int64_t>(frames_ % 3));
    } else if (frames_ % kInFlight == 0) {
      for (size_t i = 0; i < kInFlight; ++i) Answer(static_cast<int64_t>(frames_ / kInFlight % 3));
    }
  }
  void OnClosed(const Status&) override {}

  // Runs until a window of frames has come without an allocation, or the last one; returns the
  // allocations of that one. It may take some windows: when more messages are under way at a time
  // than ever before, there is one more buffer. A frame that allocates does so in each window.
  uint64_t Measure(Loop& loop) {
    window_end_ = kWarm;
    loop.Post([this] {
      for (size_t i = 0; i < kInFlight; ++i) Answer(0);
    });
    EXPECT_EQ(done_.get_future().wait_for(kPatience), std::future_status::ready);
    return allocations_;
  }

  // Gives the last buffer back to the pool.
  void LetGo() { got_ = BufferRef(); }

  Connection* connection = nullptr;
  // If this is not null, the bytes come into buffers of this pool, and leave from them.
  BufferPool* pool = nullptr;

 private:
  static constexpr size_t kBursts = 3;  // one for each urgency
  static constexpr size_t kWarm = 4000;
  static constexpr size_t kWindow = 8000;
  static constexpr size_t kWindowsMax = 8;

  void EndWindow() {
    const uint64_t count = AllocationCount();
    allocations_ = count - count_before_;
    count_before_ = count;
    if (windows_ > 0 && (allocations_ == 0 || windows_ == kWindowsMax)) return done_.set_value();
    ++windows_;
    window_end_ += kWindow;
  }

  void Answer(int64_t urgency) {
    OutFrame frame{.kind = 1};
    frame.header_bytes = 40;
    frame.payload = place_;
    if (pool != nullptr) {
      frame.keep = pool->Take(place_.size());
      frame.payload = {frame.keep.data(), place_.size()};
    }
    frame.urgency = urgency;
    connection->Send(std::move(frame));
  }

  std::vector<std::byte> place_ = std::vector<std::byte>(32768);
  BufferRef got_;
  size_t frames_ = 0;
  size_t windows_ = 0;  // that have begun
  size_t window_end_ = SIZE_MAX;
  uint64_t count_before_ = 0;
  uint64_t allocations_ = 0;
  std::promise<void> done_;
};

// `medium`: how the connection must travel at the end. `from_pool`: see Echo.
inline void ExpectTheSteadyStateAllocatesNothing(Transport& transport, const std::string& medium,
                                                 bool from_pool = false) {
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
      if (from_pool) echoes[i].pool = &threads[i]->loop().Buffers();
      ends[i]->SetLimits({32768});
      ends[i]->Start(&echoes[i]);
    });
  }
  EXPECT_EQ(echoes[1].Measure(client.loop()), 0u);
  client.Do([&] {
    EXPECT_EQ(ends[1]->Medium(), medium);
    ends[1].reset();
    echoes[1].LetGo();
  });
  server.Do([&] {
    ends[0].reset();
    echoes[0].LetGo();
    listener.value().reset();
  });
}

}  // namespace byteps::transport
