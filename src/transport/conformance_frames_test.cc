// Conformance: frames arrive whole, in order of urgency, in the place that the receiver named.
#include <algorithm>
#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/transport/transport_conformance.h"

namespace byteps::transport {
namespace {

TEST_P(TransportConformance, AFrameArrivesWhole) {
  ConnectAndStart();
  const auto& payload = Payload(1000, 1);
  client_.Send(7, "header", payload);
  ASSERT_TRUE(server_.recorder().WaitForFrames(1));
  auto frame = server_.recorder().frames()[0];
  EXPECT_EQ(frame.kind, 7);
  EXPECT_EQ(frame.header, "header");
  EXPECT_EQ(frame.payload, payload);
}

TEST_P(TransportConformance, HeadersAndPayloadsMayBeEmptyOrAsLargeAsAllowed) {
  ConnectAndStart();
  std::string longest(kHeaderBytesMax, 'h');
  const auto& payload = Payload(100, 2);
  client_.Send(1, "", {});
  client_.Send(2, "only a header", {});
  client_.Send(3, "", payload);
  client_.Send(4, longest, payload);
  client_.Send(255, "", {});
  ASSERT_TRUE(server_.recorder().WaitForFrames(5));
  auto frames = server_.recorder().frames();
  EXPECT_EQ(frames[0].kind, 1);
  EXPECT_EQ(frames[0].header, "");
  EXPECT_TRUE(frames[0].payload.empty());
  EXPECT_EQ(frames[1].header, "only a header");
  EXPECT_EQ(frames[2].payload, payload);
  EXPECT_EQ(frames[3].header, longest);
  EXPECT_EQ(frames[3].payload, payload);
  EXPECT_EQ(frames[4].kind, 255);
}

TEST_P(TransportConformance, ThousandsOfSmallFramesKeepTheirOrder) {
  ConnectAndStart();
  constexpr int kCount = 20000;
  const auto& payload = Payload(96, 3);
  client_.thread().Do([&] {
    for (int i = 0; i < kCount; ++i) {
      auto size = static_cast<size_t>(i % 97);
      client_.connection()->Send(
          MakeFrame(1, std::to_string(i), ConstByteSpan(payload).first(size)));
    }
  });
  ASSERT_TRUE(server_.recorder().WaitForFrames(kCount));
  auto frames = server_.recorder().frames();
  for (int i = 0; i < kCount; ++i) {
    const auto& frame = frames[static_cast<size_t>(i)];
    ASSERT_EQ(frame.header, std::to_string(i));
    ASSERT_EQ(frame.payload.size(), static_cast<size_t>(i % 97));
    ASSERT_TRUE(Same(frame.payload, ConstByteSpan(payload).first(frame.payload.size())));
  }
}

TEST_P(TransportConformance, FramesOfOnePassLeaveInOrderOfUrgency) {
  ConnectAndStart();
  client_.thread().Do([&] {
    int64_t urgencies[] = {0, 5, -3, 5, 9, 0};
    for (int i = 0; i < 6; ++i) {
      client_.connection()->Send(MakeFrame(1, std::to_string(i), {}, urgencies[i]));
    }
  });
  ASSERT_TRUE(server_.recorder().WaitForFrames(6));
  std::string order;
  for (const auto& frame : server_.recorder().frames()) order += frame.header;
  EXPECT_EQ(order, "413052");
}

TEST_P(TransportConformance, AnUrgentFrameOvertakesThoseThatHaveNotBegun) {
  Connect();
  client_.Start();
  server_.recorder().keep_payloads = true;
  constexpr int kCount = 24;
  const auto& payload = Payload(4 * kMegabyte, 4);
  auto place = std::vector<std::byte>(payload.size());
  server_.recorder().on_header = [&](uint8_t, size_t bytes) -> Result<ByteSpan> {
    return ByteSpan(place).first(bytes);
  };
  // The client sends more than the kernel buffers, and the server does not read yet.
  for (int i = 0; i < kCount; ++i) client_.Send(1, "bulk", payload);
  client_.Send(1, "urgent", ConstByteSpan(payload).first(10), 1);
  server_.Start();
  ASSERT_TRUE(server_.recorder().WaitForFrames(kCount + 1));
  auto frames = server_.recorder().frames();
  EXPECT_NE(frames.back().header, "urgent");
  EXPECT_EQ(std::count_if(frames.begin(), frames.end(),
                          [](const auto& frame) { return frame.header == "urgent"; }),
            1);
}

TEST_P(TransportConformance, ThePayloadLandsInTheNamedPlace) {
  Connect();
  const auto& payload = Payload(300000, 5);
  std::vector<std::byte> place(payload.size() + 2);
  server_.recorder().on_header = [&](uint8_t, size_t bytes) -> Result<ByteSpan> {
    return ByteSpan(place).subspan(1, bytes);
  };
  Start();
  client_.Send(1, "h", payload);
  ASSERT_TRUE(server_.recorder().WaitForFrames(1));
  EXPECT_TRUE(Same(payload, ByteSpan(place).subspan(1, payload.size())));
  EXPECT_EQ(place.front(), std::byte{0});
  EXPECT_EQ(place.back(), std::byte{0});
}

TEST_P(TransportConformance, ALargePayloadArrivesWhole) {
  ConnectAndStart();
  const auto& payload = Payload(64 * kMegabyte, 6);
  client_.Send(1, "large", payload);
  client_.Send(1, "next", {});
  ASSERT_TRUE(server_.recorder().WaitForFrames(2));
  auto frames = server_.recorder().frames();
  EXPECT_TRUE(Same(frames[0].payload, payload));
  EXPECT_EQ(frames[1].header, "next");
}

TEST_P(TransportConformance, PayloadsOfManySizesFollowEachOther) {
  ConnectAndStart();
  std::vector<size_t> sizes;
  for (size_t power = 1; power <= 4 * kMegabyte; power *= 4) {
    for (size_t size : {power - 1, power, power + 1}) sizes.push_back(size);
  }
  const auto& payload = Payload(4 * kMegabyte + 1, 7);
  for (size_t size : sizes) client_.Send(1, "s", ConstByteSpan(payload).first(size));
  ASSERT_TRUE(server_.recorder().WaitForFrames(sizes.size()));
  auto frames = server_.recorder().frames();
  for (size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_EQ(frames[i].payload.size(), sizes[i]);
    ASSERT_TRUE(Same(frames[i].payload, ConstByteSpan(payload).first(frames[i].payload.size())));
  }
}

TEST_P(TransportConformance, BothSidesFloodEachOtherWithoutADeadlock) {
  Connect();
  constexpr int kCount = 100;
  const auto& payload = Payload(kMegabyte, 8);
  auto flood = [&](End& end) {
    end.thread().Do([&] {
      for (int i = 0; i < kCount; ++i) end.connection()->Send(MakeFrame(1, "f", payload));
    });
  };
  std::vector<std::byte> places[2] = {std::vector<std::byte>(kMegabyte),
                                      std::vector<std::byte>(kMegabyte)};
  server_.recorder().on_header = [&](uint8_t, size_t) { return ByteSpan(places[0]); };
  client_.recorder().on_header = [&](uint8_t, size_t) { return ByteSpan(places[1]); };
  Start();
  flood(client_);
  flood(server_);
  ASSERT_TRUE(server_.recorder().WaitForFrames(kCount));
  ASSERT_TRUE(client_.recorder().WaitForFrames(kCount));
  EXPECT_TRUE(Same(places[0], payload));
  EXPECT_TRUE(Same(places[1], payload));
}

TEST_P(TransportConformance, AnswersMayBeSentFromInsideACallback) {
  Connect();
  constexpr size_t kRounds = 2000;
  server_.recorder().on_frame = [&] { server_.connection()->Send(MakeFrame(2, "pong")); };
  client_.recorder().on_frame = [&, rounds = size_t{1}]() mutable {
    if (rounds++ < kRounds) client_.connection()->Send(MakeFrame(1, "ping"));
  };
  server_.Start();
  client_.Start();
  client_.Send(1, "ping");
  ASSERT_TRUE(client_.recorder().WaitForFrames(kRounds));
  EXPECT_EQ(server_.recorder().frame_count(), kRounds);
}

// The work may add more work, and the connection may have ended by then.
TEST_P(TransportConformance, WorkAfterTheEventRunsOutsideOfCallbacksAndInOrder) {
  Connect();
  constexpr size_t kCount = 100;
  bool inside = false;
  size_t frames = 0;
  std::vector<size_t> order;
  std::promise<void> last;
  server_.recorder().on_frame = [&] {
    inside = true;
    Time began = ServerLoop().EventTime();
    EXPECT_LE(began, ServerLoop().Now());
    ServerLoop().AfterEvent([&, frame = ++frames] {
      EXPECT_FALSE(inside);
      EXPECT_TRUE(ServerLoop().InLoop());
      order.push_back(frame);
      if (frame == kCount) ServerLoop().AfterEvent([&] { last.set_value(); });
    });
    if (frames == kCount) server_.connection().reset();
    inside = false;
  };
  Start();
  client_.thread().Do([&] {
    for (size_t i = 0; i < kCount; ++i) client_.connection()->Send(MakeFrame(1, "x"));
  });
  ASSERT_EQ(last.get_future().wait_for(kPatience), std::future_status::ready);
  ASSERT_EQ(order.size(), kCount);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_P(TransportConformance, FramesSentBeforeStartArrive) {
  Connect();
  client_.Send(1, "early");
  server_.Start();
  ASSERT_TRUE(server_.recorder().WaitForFrames(1));
}

TEST_P(TransportConformance, AnErrorFromOnHeaderClosesTheConnectionWithThatReason) {
  Connect();
  server_.recorder().on_header = [](uint8_t, size_t) -> Result<ByteSpan> {
    return Status(StatusCode::kRefused, "not you");
  };
  Start();
  const auto& payload = Payload(1000, 9);
  client_.Send(1, "a", payload);
  client_.Send(1, "b", payload);
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  ASSERT_TRUE(client_.recorder().WaitForClosed());
  EXPECT_EQ(server_.recorder().why(), Status(StatusCode::kRefused, "not you"));
  EXPECT_EQ(client_.recorder().why().code(), StatusCode::kPeerLost);
  EXPECT_EQ(server_.recorder().frame_count(), 0u);
}

TEST_P(TransportConformance, APlaceOfTheWrongSizeClosesTheConnection) {
  Connect();
  std::vector<std::byte> place(10);
  server_.recorder().on_header = [&](uint8_t, size_t) { return ByteSpan(place); };
  Start();
  const auto& sent = Payload(11, 1);
  client_.Send(1, "a", sent);
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  EXPECT_EQ(server_.recorder().why().code(), StatusCode::kInternal);
}

TEST_P(TransportConformance, AFrameBeyondTheLimitIsAProtocolError) {
  Connect();
  server_.Start(100);
  client_.Start();
  const auto& payload = Payload(101, 10);
  client_.Send(1, "fits", ConstByteSpan(payload).first(100));
  client_.Send(1, "does not", payload);
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  EXPECT_EQ(server_.recorder().why().code(), StatusCode::kProtocol);
  EXPECT_NE(server_.recorder().why().message().find("101"), std::string::npos);
  EXPECT_EQ(server_.recorder().frame_count(), 1u);
  ASSERT_TRUE(client_.recorder().WaitForClosed());
  EXPECT_EQ(client_.recorder().why().code(), StatusCode::kPeerLost);
}

TEST_P(TransportConformance, ALimitRaisedInsideOnFrameHoldsForTheNextFrame) {
  Connect();
  server_.recorder().on_frame = [&] { server_.connection()->SetLimits({1000}); };
  server_.Start(10);
  client_.Start();
  const auto& payload = Payload(1000, 11);
  client_.thread().Do([&] {
    client_.connection()->Send(MakeFrame(1, "a", ConstByteSpan(payload).first(10)));
    client_.connection()->Send(MakeFrame(1, "b", payload));
  });
  ASSERT_TRUE(server_.recorder().WaitForFrames(2));
  EXPECT_EQ(server_.recorder().closed_count(), 0);
}

TEST_P(TransportConformance, TheDefaultLimitIsSmall) {
  Connect();
  server_.thread().Do([&] { server_.connection()->Start(&server_.recorder()); });
  const auto& payload = Payload(Limits{}.payload_bytes_max + 1, 12);
  client_.Send(1, "a", payload);
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  EXPECT_EQ(server_.recorder().why().code(), StatusCode::kProtocol);
}

TEST_P(TransportConformance, QueuedBytesAndKeptBuffersAreGivenBackOnceWritten) {
  ConnectAndStart();
  BufferPool pool;
  client_.thread().Do([&] {
    for (int i = 0; i < 10; ++i) {
      BufferRef buffer = pool.Take(100000);
      std::memset(buffer.data(), i, 100000);
      OutFrame frame = MakeFrame(1, "k", ConstByteSpan(buffer.data(), 100000));
      frame.keep = std::move(buffer);
      client_.connection()->Send(std::move(frame));
    }
    EXPECT_EQ(client_.connection()->queued_bytes(), 10 * (100000 + 1 + kFramePrefixBytes));
    EXPECT_GE(pool.bytes_in_use(), size_t{1000000});
  });
  ASSERT_TRUE(server_.recorder().WaitForFrames(10));
  EXPECT_TRUE(client_.thread().RunUntil([&] { return pool.bytes_in_use() == 0; }));
  EXPECT_EQ(client_.thread().Do([&] { return client_.connection()->queued_bytes(); }), 0u);
  auto frames = server_.recorder().frames();
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(frames[i].payload[99999], static_cast<std::byte>(i));
  client_.Destroy();
}

}  // namespace
}  // namespace byteps::transport
