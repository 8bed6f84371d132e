// Conformance: buffers of the loop's pool, which a backend may send and receive where they are, and
// connections that end or move while a backend changes the way of their bytes.
#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/transport/transport_conformance.h"

namespace byteps::transport {
namespace {

// A size that no backend takes for itself, and that fills more than half of a slot of RDMA.
constexpr size_t kPieceBytes = 24000;

// A frame whose payload lies in the pool of `end`'s loop. Must be called on its thread.
OutFrame PoolFrame(End& end, const std::string& header, ConstByteSpan bytes) {
  BufferRef buffer = end.thread().loop().Buffers().Take(bytes.size());
  std::ranges::copy(bytes, buffer.data());
  OutFrame frame = MakeFrame(1, header, ConstByteSpan(buffer.data(), bytes.size()));
  frame.keep = std::move(buffer);
  return frame;
}

TEST_P(TransportConformance, BuffersOfTheLoopsPoolComeBackWhenTheyHaveLeft) {
  ConnectAndStart();
  const auto& payload = Payload(kPieceBytes, 1);
  constexpr size_t kCount = 200;
  client_.thread().Do([&] {
    for (size_t i = 0; i < kCount; ++i) {
      client_.connection()->Send(PoolFrame(client_, std::to_string(i), payload));
    }
  });
  ASSERT_TRUE(server_.recorder().WaitForFrames(kCount));
  auto frames = server_.recorder().frames();
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(frames[i].header, std::to_string(i));
    ASSERT_TRUE(Same(frames[i].payload, payload));
  }
  // Addresses say nothing: a pool frees what was not needed for a while. Meanwhile the connection
  // may have taken memory for itself, as RDMA does for its slots.
  constexpr size_t kOwnBytesMax = size_t{1} << 20;
  static_assert(kOwnBytesMax < kCount * kPieceBytes / 4);
  EXPECT_TRUE(client_.thread().RunUntil(
      [&] { return client_.thread().loop().Buffers().bytes_in_use() < kOwnBytesMax; }));
}

// The pool hands buffers that have come back out again, so one that comes back too early would be
// overwritten before it has left.
TEST_P(TransportConformance, BuffersThatAreUsedAgainArriveAsTheyWere) {
  ConnectAndStart();
  constexpr size_t kCount = 1000;
  constexpr size_t kInFlight = 20;
  size_t sent = 0;
  auto send = [&] {
    std::vector<std::byte> bytes(kPieceBytes, static_cast<std::byte>(sent));
    client_.connection()->Send(PoolFrame(client_, std::to_string(sent), bytes));
    ++sent;
  };
  client_.recorder().on_frame = [&] {
    if (sent < kCount) send();
  };
  server_.recorder().on_frame = [&] { server_.connection()->Send(MakeFrame(2, "more")); };
  client_.thread().Do([&] {
    for (size_t i = 0; i < kInFlight; ++i) send();
  });
  ASSERT_TRUE(server_.recorder().WaitForFrames(kCount));
  // The client's last calls use variables of this function.
  ASSERT_TRUE(client_.recorder().WaitForFrames(kCount));
  client_.thread().Do([] {});
  auto frames = server_.recorder().frames();
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(frames[i].header, std::to_string(i));
    const std::vector<std::byte> right(kPieceBytes, static_cast<std::byte>(i));
    ASSERT_TRUE(Same(frames[i].payload, right)) << i;
  }
}

// A receiver takes its places from the loop's pool and keeps them, or names memory of its own.
TEST_P(TransportConformance, APlaceFromThePoolAndOneOfTheUserGetTheSameBytes) {
  Connect();
  constexpr size_t kCount = 300;
  std::vector<std::vector<std::byte>> own(kCount);
  std::vector<BufferRef> kept(kCount);
  size_t next = 0;
  server_.recorder().on_header = [&](uint8_t, size_t bytes) -> Result<ByteSpan> {
    const size_t i = next++;
    if (i % 3 == 0) {
      own[i].resize(bytes);
      return ByteSpan(own[i]);
    }
    kept[i] = server_.thread().loop().Buffers().Take(bytes);
    return ByteSpan(kept[i].data(), bytes);
  };
  Start();
  const auto& payload = Payload(100000, 3);
  auto size_of = [](size_t i) { return i % 7 == 0 ? i * 300 : kPieceBytes + i % 5 * 2000; };
  client_.thread().Do([&] {
    for (size_t i = 0; i < kCount; ++i) {
      client_.connection()->Send(MakeFrame(1, "p", ConstByteSpan(payload).subspan(i, size_of(i))));
    }
  });
  ASSERT_TRUE(server_.recorder().WaitForFrames(kCount));
  server_.thread().Do([&] {
    for (size_t i = 0; i < kCount; ++i) {
      const std::byte* got = i % 3 == 0 ? own[i].data() : kept[i].data();
      ASSERT_TRUE(
          Same(ConstByteSpan(got, size_of(i)), ConstByteSpan(payload).subspan(i, size_of(i))))
          << i;
    }
    kept.clear();
  });
}

TEST_P(TransportConformance, AReceiverThatKeepsEveryBufferOfThePoolGetsAllFrames) {
  Connect();
  std::vector<BufferRef> kept;
  server_.recorder().on_header = [&](uint8_t, size_t bytes) -> Result<ByteSpan> {
    kept.push_back(server_.thread().loop().Buffers().Take(bytes));
    return ByteSpan(kept.back().data(), bytes);
  };
  Start();
  constexpr size_t kCount = 1500;
  const auto& payload = Payload(kPieceBytes + kCount, 4);
  client_.thread().Do([&] {
    for (size_t i = 0; i < kCount; ++i) {
      client_.connection()->Send(MakeFrame(1, "p", ConstByteSpan(payload).subspan(i, kPieceBytes)));
    }
  });
  ASSERT_TRUE(server_.recorder().WaitForFrames(kCount));
  server_.thread().Do([&] {
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_TRUE(Same(ConstByteSpan(kept[i].data(), kPieceBytes),
                       ConstByteSpan(payload).subspan(i, kPieceBytes)));
    }
    kept.clear();
  });
}

// From the first moment on, so the way changes somewhere in between if the backend has two.
TEST_P(TransportConformance, FramesInBothDirectionsArriveOnceAndInOrderFromTheBegin) {
  Connect();
  LoopThread other(*transport_);
  End moved(other);
  End* server = &server_;
  if (GetParam().moves) {
    std::promise<void> adopted;
    server_.thread().Do([&] {
      server_.connection()->MoveTo(other.loop(), [&](std::unique_ptr<Connection> connection) {
        moved.connection() = std::move(connection);
        adopted.set_value();
      });
      server_.connection().reset();
    });
    ASSERT_EQ(adopted.get_future().wait_for(kPatience), std::future_status::ready);
    server = &moved;
  }
  server->Start();
  client_.Start();
  const auto& payload = Payload(70000, 5);
  constexpr size_t kRounds = 100;
  constexpr size_t kCount = 10;  // of each round
  auto size_of = [](size_t i) { return i * 7919 % 9 == 0 ? i * 37 % 70000 : i * 61 % 5000; };
  for (size_t round = 0; round < kRounds; ++round) {
    for (End* end : {&client_, server}) {
      end->thread().Do([&] {
        for (size_t i = round * kCount; i < (round + 1) * kCount; ++i) {
          end->connection()->Send(
              MakeFrame(1, std::to_string(i), ConstByteSpan(payload).first(size_of(i))));
        }
      });
    }
  }
  for (End* end : {&client_, server}) {
    ASSERT_TRUE(end->recorder().WaitForFrames(kRounds * kCount));
    auto frames = end->recorder().frames();
    for (size_t i = 0; i < kRounds * kCount; ++i) {
      ASSERT_EQ(frames[i].header, std::to_string(i));
      ASSERT_EQ(frames[i].payload.size(), size_of(i));
      ASSERT_TRUE(Same(frames[i].payload, ConstByteSpan(payload).first(size_of(i))));
    }
  }
  moved.Destroy();
  server_.Destroy();
}

// One end ends after a while that grows from connection to connection. The other end gets the
// beginning of what was sent, in order, and the end.
TEST_P(TransportConformance, AConnectionMayEndAtAnyMoment) {
  const auto& payload = Payload(kPieceBytes, 6);
  BufferPool detached;
  for (int trial = 0; trial < 40; ++trial) {
    End server(server_thread_);
    End client(client_thread_);
    Connect();
    for (auto [from, to] : {std::pair(&server_, &server), std::pair(&client_, &client)}) {
      from->thread().Do([&] { to->connection() = std::move(from->connection()); });
    }
    server.Start();
    client.Start();
    End& ends = trial % 2 == 0 ? server : client;
    End& stays = trial % 2 == 0 ? client : server;
    std::vector<std::byte> memory = payload;
    auto send = [&](size_t i) {
      if (ends.connection() == nullptr) return;
      ends.connection()->Send(MakeFrame(1, std::to_string(i), memory));
    };
    ends.thread().Do([&] {
      for (size_t i = 0; i < 8; ++i) send(i);
    });
    for (int turn = 0; turn < trial; ++turn) ends.thread().Do([] {});
    ends.thread().Do([&] {
      for (size_t i = 8; i < 16; ++i) send(i);
      switch (trial / 2 % 4) {
        case 0: ends.connection()->Close(); break;
        case 1: ends.connection().reset(); break;
        case 2: ends.connection()->CloseAfterFlush(kPatience); break;
        default: {
          ends.connection()->Detach(memory, detached);
          std::ranges::fill(memory, std::byte{0});
          ends.connection()->CloseAfterFlush(kPatience);
        }
      }
    });
    ASSERT_TRUE(stays.recorder().WaitForClosed()) << trial;
    auto frames = stays.recorder().frames();
    if (trial / 2 % 4 >= 2) {
      EXPECT_EQ(frames.size(), 16u) << trial;
    }
    for (size_t i = 0; i < frames.size(); ++i) {
      ASSERT_EQ(frames[i].header, std::to_string(i));
      ASSERT_TRUE(Same(frames[i].payload, payload)) << trial;
    }
    stays.Destroy();
    ends.Destroy();
  }
  EXPECT_EQ(detached.bytes_in_use(), 0u);
}

}  // namespace
}  // namespace byteps::transport
