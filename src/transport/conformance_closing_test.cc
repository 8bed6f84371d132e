// Conformance: every end is told once, with the right reason; borrowed memory is given back.
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/transport/transport_conformance.h"

namespace byteps::transport {
namespace {

// Memory that may be forbidden: a process that touches it then is killed.
class Pages {
 public:
  explicit Pages(size_t size) : size_(size) {
    void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) std::abort();
    bytes_ = static_cast<std::byte*>(pages);
    std::memset(bytes_, 0x5a, size);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { munmap(bytes_, size_); }
  void Forbid() { EXPECT_EQ(mprotect(bytes_, size_, PROT_NONE), 0); }
  ByteSpan span() { return {bytes_, size_}; }

 private:
  std::byte* bytes_;
  size_t size_;
};

// Waits until both loops have done all work that was under way.
void Settle(End& one, End& other) {
  for (int i = 0; i < 3; ++i) {
    one.thread().Do([] {});
    other.thread().Do([] {});
  }
}

TEST_P(TransportConformance, CloseIsReportedOnceOnBothSides) {
  ConnectAndStart();
  client_.thread().Do([&] {
    client_.connection()->Close();
    client_.connection()->Close();
    EXPECT_EQ(client_.recorder().closed_count(), 0) << "reported from inside the call";
  });
  ASSERT_TRUE(client_.recorder().WaitForClosed());
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  server_.Close();
  client_.Close();
  Settle(client_, server_);
  EXPECT_TRUE(client_.recorder().why().ok());
  EXPECT_EQ(server_.recorder().why().code(), StatusCode::kPeerLost);
  EXPECT_EQ(client_.recorder().closed_count(), 1);
  EXPECT_EQ(server_.recorder().closed_count(), 1);
}

TEST_P(TransportConformance, ALossNamesThePeer) {
  ConnectAndStart();
  std::string peer = server_.thread().Do([&] { return server_.connection()->PeerName(); });
  client_.Close();
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  EXPECT_NE(server_.recorder().why().message().find(peer), std::string::npos);
}

TEST_P(TransportConformance, TheDestructorIsSilentHereAndALossThere) {
  ConnectAndStart();
  client_.Destroy();
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  Settle(client_, server_);
  EXPECT_EQ(client_.recorder().closed_count(), 0);
  EXPECT_EQ(server_.recorder().why().code(), StatusCode::kPeerLost);
}

TEST_P(TransportConformance, ADestructorAfterCloseIsSilentToo) {
  ConnectAndStart();
  client_.thread().Do([&] {
    client_.connection()->Close();
    client_.connection().reset();
  });
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  Settle(client_, server_);
  EXPECT_EQ(client_.recorder().closed_count(), 0);
}

TEST_P(TransportConformance, AConnectionMayBeDestroyedInsideOnHeader) {
  Connect();
  server_.recorder().on_header = [&](uint8_t, size_t) -> Result<ByteSpan> {
    server_.connection().reset();
    return ByteSpan();
  };
  Start();
  const auto& sent = Payload(100, 1);
  client_.Send(1, "a", sent);
  ASSERT_TRUE(client_.recorder().WaitForClosed());
  Settle(client_, server_);
  EXPECT_EQ(server_.recorder().frame_count(), 0u);
  EXPECT_EQ(server_.recorder().closed_count(), 0);
}

TEST_P(TransportConformance, AConnectionMayBeDestroyedInsideOnFrame) {
  Connect();
  server_.recorder().on_frame = [&] { server_.connection().reset(); };
  Start();
  client_.thread().Do([&] {
    for (int i = 0; i < 10; ++i) client_.connection()->Send(MakeFrame(1, "a"));
  });
  ASSERT_TRUE(client_.recorder().WaitForClosed());
  Settle(client_, server_);
  EXPECT_EQ(server_.recorder().frame_count(), 1u);
  EXPECT_EQ(server_.recorder().closed_count(), 0);
}

TEST_P(TransportConformance, AConnectionMayBeDestroyedInsideOnClosed) {
  Connect();
  server_.recorder().on_closed = [&] { server_.connection().reset(); };
  client_.recorder().on_closed = [&] { client_.connection().reset(); };
  Start();
  client_.Close();
  ASSERT_TRUE(client_.recorder().WaitForClosed());
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  Settle(client_, server_);
  EXPECT_EQ(server_.recorder().closed_count(), 1);
}

TEST_P(TransportConformance, NothingIsDeliveredAfterCloseInsideOnFrame) {
  Connect();
  server_.recorder().on_frame = [&] { server_.connection()->Close(); };
  Start();
  client_.thread().Do([&] {
    for (int i = 0; i < 10; ++i) client_.connection()->Send(MakeFrame(1, "a"));
  });
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  Settle(client_, server_);
  EXPECT_EQ(server_.recorder().frame_count(), 1u);
  EXPECT_TRUE(server_.recorder().why().ok());
}

TEST_P(TransportConformance, CloseAfterFlushWritesWhatIsQueued) {
  ConnectAndStart();
  constexpr size_t kCount = 20;
  const auto& payload = Payload(kMegabyte, 2);
  client_.thread().Do([&] {
    for (size_t i = 0; i < kCount; ++i) client_.connection()->Send(MakeFrame(1, "a", payload));
    client_.connection()->CloseAfterFlush(kPatience);
    client_.connection()->Send(MakeFrame(1, "too late"));
  });
  // The other side sends, too, and unread bytes must not turn the close into a reset.
  server_.thread().Do([&] {
    for (size_t i = 0; i < kCount; ++i) server_.connection()->Send(MakeFrame(1, "b", payload));
  });
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  ASSERT_TRUE(client_.recorder().WaitForClosed());
  EXPECT_EQ(server_.recorder().frame_count(), kCount);
  EXPECT_EQ(server_.recorder().why().code(), StatusCode::kPeerLost);
  EXPECT_TRUE(client_.recorder().why().ok());
  Settle(client_, server_);
  EXPECT_EQ(client_.recorder().closed_count(), 1);
}

TEST_P(TransportConformance, ARefusalArrivesThoughThePeerKeepsSending) {
  Connect();
  const auto& payload = Payload(kMegabyte, 3);
  server_.recorder().on_frame = [&] {
    server_.connection()->Send(MakeFrame(9, "refused"));
    server_.connection()->CloseAfterFlush(kPatience);
  };
  Start();
  client_.thread().Do([&] {
    for (int i = 0; i < 30; ++i) client_.connection()->Send(MakeFrame(1, "a", payload));
  });
  ASSERT_TRUE(client_.recorder().WaitForClosed());
  EXPECT_EQ(client_.recorder().why().code(), StatusCode::kPeerLost);
  ASSERT_EQ(client_.recorder().frame_count(), 1u);
  EXPECT_EQ(client_.recorder().frames()[0].header, "refused");
}

TEST_P(TransportConformance, CloseAfterFlushOnBothSidesEnds) {
  ConnectAndStart();
  const auto& payload = Payload(kMegabyte, 4);
  for (End* end : {&client_, &server_}) {
    end->thread().Do([&] {
      for (int i = 0; i < 20; ++i) end->connection()->Send(MakeFrame(1, "a", payload));
    });
  }
  client_.CloseAfterFlush(kPatience);
  server_.CloseAfterFlush(kPatience);
  ASSERT_TRUE(client_.recorder().WaitForClosed());
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  // The side that calls it later may have learnt of the other's close first.
  EXPECT_TRUE(client_.recorder().why().ok());
}

TEST_P(TransportConformance, CloseAfterFlushEndsWhenThePatienceIsOver) {
  Connect();
  client_.Start();
  Pages pages(64 * kMegabyte);
  client_.Send(1, "nobody reads this", pages.span());
  client_.CloseAfterFlush(milliseconds(50));
  ASSERT_TRUE(client_.recorder().WaitForClosed());
  EXPECT_TRUE(client_.recorder().why().ok());
  pages.Forbid();
  server_.Start();
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  EXPECT_EQ(server_.recorder().frame_count(), 0u);
}

TEST_P(TransportConformance, CloseAfterFlushEndsWhenThePeerSendsWithoutEnd) {
  Connect();
  client_.Start();
  Pages pages(64 * kMegabyte);
  client_.thread().Do([&] {
    client_.connection()->SetLimits({4096, kMegabyte});
    client_.connection()->Send(MakeFrame(1, "nobody reads this", pages.span()));
    client_.connection()->CloseAfterFlush(kPatience * 10);
  });
  const auto& payload = Payload(kMegabyte, 5);
  server_.thread().Do([&] {
    for (int i = 0; i < 2; ++i) server_.connection()->Send(MakeFrame(1, "a", payload));
  });
  ASSERT_TRUE(client_.recorder().WaitForClosed());
  EXPECT_TRUE(client_.recorder().why().ok());
}

TEST_P(TransportConformance, CloseDuringCloseAfterFlushEndsAtOnce) {
  Connect();
  client_.Start();
  Pages pages(64 * kMegabyte);
  client_.Send(1, "nobody reads this", pages.span());
  client_.CloseAfterFlush(kPatience * 10);
  client_.Close();
  pages.Forbid();
  ASSERT_TRUE(client_.recorder().WaitForClosed());
  EXPECT_TRUE(client_.recorder().why().ok());
}

TEST_P(TransportConformance, ABorrowedPayloadIsNotTouchedAfterClose) {
  Connect();
  client_.Start();
  Pages pages(64 * kMegabyte);
  client_.thread().Do([&] {
    client_.connection()->Send(MakeFrame(1, "a", pages.span().first(32 * kMegabyte)));
    client_.connection()->Send(MakeFrame(1, "b", pages.span().last(32 * kMegabyte)));
  });
  Settle(client_, server_);
  client_.thread().Do([&] {
    client_.connection()->Close();
    pages.Forbid();
  });
  server_.Start();
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  EXPECT_EQ(server_.recorder().frame_count(), 0u);
}

TEST_P(TransportConformance, BorrowedMemoryIsNotTouchedAfterALoss) {
  Connect();
  Pages payload(64 * kMegabyte);
  Pages place(64 * kMegabyte);
  // The client sends and receives when the server disappears.
  client_.recorder().on_header = [&](uint8_t, size_t bytes) -> Result<ByteSpan> {
    return place.span().first(bytes);
  };
  client_.recorder().on_closed = [&] {
    payload.Forbid();
    place.Forbid();
  };
  client_.Start();
  const auto& half = Payload(60 * kMegabyte, 5);
  server_.Send(1, "down", half);
  client_.Send(1, "up", payload.span());
  Settle(client_, server_);
  server_.Destroy();
  ASSERT_TRUE(client_.recorder().WaitForClosed());
  EXPECT_EQ(client_.recorder().why().code(), StatusCode::kPeerLost);
  Settle(client_, server_);
  EXPECT_EQ(client_.recorder().closed_count(), 1);
}

TEST_P(TransportConformance, DetachedMemoryIsFreeAndItsFramesArriveUnchanged) {
  Connect();
  client_.Start();
  auto original = Bytes(10 * kMegabyte, 7);
  auto memory = original;
  BufferPool pool;
  client_.thread().Do([&] {
    client_.connection()->Send(MakeFrame(1, "d", memory));
    client_.connection()->Detach(memory, pool);
    std::fill(memory.begin(), memory.end(), std::byte{0});
  });
  server_.Start();
  ASSERT_TRUE(server_.recorder().WaitForFrames(1));
  EXPECT_EQ(server_.recorder().frames()[0].payload, original);
  client_.Destroy();
}

TEST_P(TransportConformance, APayloadThatIsComingInLeavesDetachedMemoryAlone) {
  Connect();
  std::vector<std::byte> memory(60 * kMegabyte);
  std::vector<std::byte> other(kMegabyte);
  BufferPool pool;
  auto take_back = [&] {
    client_.connection()->Detach(memory, pool);
    std::fill(memory.begin(), memory.end(), std::byte{0});
  };
  client_.recorder().on_header = [&](uint8_t, size_t bytes) -> Result<ByteSpan> {
    if (bytes == other.size()) return ByteSpan(other);
    client_.thread().loop().Post(take_back);  // when a part of it is there
    return ByteSpan(memory);
  };
  client_.Start();
  server_.Start();
  auto first = Bytes(memory.size(), 5);
  auto second = Bytes(other.size(), 6);
  server_.Send(1, "a", first);
  server_.Send(1, "b", second);
  ASSERT_TRUE(client_.recorder().WaitForFrames(2));
  EXPECT_TRUE(Same(memory, std::vector<std::byte>(memory.size())));
  EXPECT_TRUE(Same(other, second));
  EXPECT_EQ(client_.thread().Do([&] { return pool.bytes_in_use(); }), 0u);
  client_.Destroy();
  server_.Destroy();  // the client has read all that it sent
}

TEST_P(TransportConformance, KeptBuffersAreGivenBackByCloseAndByLoss) {
  ConnectAndStart();
  BufferPool pools[2];
  auto send = [&](End& end, BufferPool& pool) {
    for (int i = 0; i < 40; ++i) {
      BufferRef buffer = pool.Take(kMegabyte);
      std::memset(buffer.data(), 1, kMegabyte);
      OutFrame frame = MakeFrame(1, "k", ConstByteSpan(buffer.data(), kMegabyte));
      frame.keep = std::move(buffer);
      end.connection()->Send(std::move(frame));
    }
  };
  client_.thread().Do([&] { send(client_, pools[0]); });
  server_.thread().Do([&] { send(server_, pools[1]); });
  client_.thread().Do([&] {
    client_.connection()->Close();
    EXPECT_EQ(pools[0].bytes_in_use(), 0u);
    send(client_, pools[0]);
    EXPECT_EQ(pools[0].bytes_in_use(), 0u) << "Send after Close keeps the buffer";
  });
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  EXPECT_EQ(server_.thread().Do([&] { return pools[1].bytes_in_use(); }), 0u);
}

TEST_P(TransportConformance, ALossBeforeStartIsReportedAfterStart) {
  Connect();
  client_.Send(1, "last words");
  client_.CloseAfterFlush(milliseconds(20));
  client_.Start();
  const auto& sent = Payload(1000, 6);
  server_.Send(1, "into the void", sent);
  Settle(client_, server_);
  server_.Start();
  ASSERT_TRUE(server_.recorder().WaitForClosed());
  EXPECT_EQ(server_.recorder().why().code(), StatusCode::kPeerLost);
}

TEST_P(TransportConformance, AConnectionThatIsClosedBeforeStartTellsNobody) {
  Connect();
  server_.Start();
  client_.thread().Do([&] {
    client_.connection()->Close();
    client_.connection().reset();
  });
  ASSERT_TRUE(server_.recorder().WaitForClosed());
}

}  // namespace
}  // namespace byteps::transport
