#include "src/transport/rdma/rdma_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <vector>

#include "src/transport/rdma/rdma_host_for_test.h"

namespace byteps::transport {
namespace {

class RdmaChannelTest : public testing::Test {
 protected:
  RdmaChannelTest() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets_), 0); }
  ~RdmaChannelTest() override {
    for (int socket : sockets_) {
      if (socket >= 0) close(socket);
    }
  }

  void Open(uint32_t slots = 16, size_t slot_bytes = 32768) {
    QueuePairOptions options;
    options.slots = slots;
    options.slot_bytes = slot_bytes;
    std::unique_ptr<QueuePair> made[2];
    for (int i : {0, 1}) {
      auto on_event = [this, i] {
        if (on_event_[i]) on_event_[i]();
      };
      made[i] = QueuePair::Make(hosts_[i].parts(), hosts_[i].at, options, on_event).value();
      pairs_[i] = made[i].get();
    }
    for (int i : {0, 1}) ASSERT_TRUE(made[i]->Connect(made[1 - i]->own_offer()).ok());
    for (int i : {0, 1}) {
      made[i]->AddProbe();
      made[i]->Flush();
      channels_[i] = std::make_unique<RdmaChannel>(sockets_[i], std::move(made[i]));
    }
    ASSERT_TRUE(
        Until([&] { return pairs_[0]->peer_probe_came() && pairs_[1]->peer_probe_came(); }));
  }
  bool Until(const std::function<bool()>& condition) {
    return PollUntil(hosts_[0], hosts_[1], condition);
  }
  RdmaChannel& A() { return *channels_[0]; }
  RdmaChannel& B() { return *channels_[1]; }

  // The other end of this one leaves, and its queue pair with it.
  void Leave(int end) {
    channels_[end].reset();
    close(sockets_[end]);
    sockets_[end] = -1;
  }

  // A stream in one direction, cut into random parts at both ends.
  struct Flow {
    explicit Flow(size_t bytes, uint32_t seed) : random(seed), sent(bytes), got(bytes) {
      for (std::byte& one : sent) one = static_cast<std::byte>(random());
    }
    size_t Cut(size_t left) {
      size_t sizes[] = {1, 8, 136, 137, 4095, 4096, 32768, 40000};
      size_t size = sizes[random() % std::size(sizes)];
      return std::min(left, 1 + random() % size);
    }
    template <typename Bytes>
    std::vector<iovec> Parts(Bytes& of, size_t from) {
      std::vector<iovec> parts;
      for (size_t at = from; at < of.size() && parts.size() < 20;) {
        size_t size = Cut(of.size() - at);
        parts.push_back({of.data() + at, size});
        at += size;
      }
      return parts;
    }

    std::mt19937 random;
    std::vector<std::byte> sent;
    std::vector<std::byte> got;
    size_t sent_bytes = 0;
    size_t got_bytes = 0;
  };
  void Step(Flow& flow, RdmaChannel& from, RdmaChannel& to) {
    auto out = from.Send(flow.Parts(flow.sent, flow.sent_bytes));
    ASSERT_TRUE(out.stop == EAGAIN || out.stop == ByteChannel::kThrough);
    flow.sent_bytes += out.bytes;
    auto in = to.Receive(flow.Parts(flow.got, flow.got_bytes));
    ASSERT_TRUE(in.stop == EAGAIN || in.stop == ByteChannel::kThrough);
    flow.got_bytes += in.bytes;
  }

  StandinLibrary library_;
  RdmaHost hosts_[2] = {RdmaHost(library_.verbs()), RdmaHost(library_.verbs())};
  int sockets_[2] = {-1, -1};
  QueuePair* pairs_[2] = {};
  std::function<void()> on_event_[2];
  std::unique_ptr<RdmaChannel> channels_[2];
};

TEST_F(RdmaChannelTest, AStreamInEachDirectionComesWholeHoweverItIsCut) {
  struct Sizes {
    uint32_t slots;
    size_t slot_bytes;
  };
  for (Sizes sizes : {Sizes{16, 32768}, Sizes{4, 4096}, Sizes{5, 5000}}) {
    Open(sizes.slots, sizes.slot_bytes);
    library_.control().Delay(sizes.slots, 50);
    Flow there(300000, 1);
    Flow back(200000, 2);
    ASSERT_TRUE(Until([&] {
      Step(there, A(), B());
      Step(back, B(), A());
      return HasFatalFailure() ||
             (there.got_bytes == there.got.size() && back.got_bytes == back.got.size() &&
              A().unconfirmed_bytes() + B().unconfirmed_bytes() == 0);
    }));
    EXPECT_TRUE(there.sent == there.got);
    EXPECT_TRUE(back.sent == back.got);
    for (auto& channel : channels_) channel.reset();
    library_.control().Delay(0, 0);
  }
}

// The usual frame is a head of some 60 bytes and a piece of 32 KB: one message.
TEST_F(RdmaChannelTest, AFrameWithAPieceIsOneMessageAndSmallFramesShareOne) {
  Open();
  uint64_t before = library_.control().counts().messages;
  std::vector<std::byte> head(64);
  std::vector<std::byte> piece(32768);
  std::vector<iovec> frame = {{head.data(), head.size()}, {piece.data(), piece.size()}};
  EXPECT_EQ(A().Send(frame).bytes, 64u + 32768u);
  ASSERT_TRUE(Until([&] { return A().unconfirmed_bytes() == 0; }));
  EXPECT_EQ(library_.control().counts().messages - before, 1u);
  std::vector<iovec> small(200, iovec{head.data(), head.size()});
  EXPECT_EQ(A().Send(small).bytes, 200u * 64u);
  ASSERT_TRUE(Until([&] { return A().unconfirmed_bytes() == 0; }));
  EXPECT_EQ(library_.control().counts().messages - before, 2u);
}

TEST_F(RdmaChannelTest, ABufferOfThePoolLeavesWithoutACopyAndMayBeKeptWithoutOne) {
  Open();
  std::vector<std::byte> head(64, std::byte{1});
  BufferRef piece = hosts_[0].pool.Take(32768);
  std::ranges::fill(ByteSpan(piece.data(), 32768), std::byte{2});
  std::vector<iovec> frame = {{head.data(), head.size()}, {piece.data(), 32768}};
  const std::vector<const BufferRef*> keeps = {nullptr, &piece};
  EXPECT_EQ(A().SendKept(frame, keeps).bytes, 64u + 32768u);
  EXPECT_EQ(A().copied_out_bytes(), 0u);
  EXPECT_EQ(pairs_[0]->referred_messages(), 1u);
  ASSERT_TRUE(Until([&] { return A().unconfirmed_bytes() == 0; }));

  std::vector<std::byte> got(40000);
  std::vector<iovec> in = {{got.data(), got.size()}};
  auto passed = B().Receive(in);
  EXPECT_EQ(passed.bytes, 64u) << "the payload waits until it has a place";
  EXPECT_EQ(passed.stop, ByteChannel::kThrough);
  EXPECT_FALSE(B().Lying(32767));
  BufferRef lying = B().Lying(32768);
  ASSERT_TRUE(lying);
  in = {{lying.data(), 32768}};
  passed = B().Receive(in);
  EXPECT_EQ(passed.bytes, 32768u);
  EXPECT_EQ(B().copied_in_bytes(), 0u);
  EXPECT_EQ(lying.data()[0], std::byte{2});
  EXPECT_EQ(lying.data()[32767], std::byte{2});

  // The same without anybody who keeps anything.
  EXPECT_EQ(A().Send(frame).bytes, 64u + 32768u);
  ASSERT_TRUE(Until([&] { return B().pair().HasMessage(); }));
  in = {{got.data(), got.size()}};
  EXPECT_EQ(B().Receive(in).bytes, 64u);
  EXPECT_EQ(B().Receive(in).bytes, 32768u);
  EXPECT_EQ(A().copied_out_bytes(), 32768u);
  EXPECT_EQ(B().copied_in_bytes(), 32768u);
}

// A small payload in a whole slot would hold eight times its memory.
TEST_F(RdmaChannelTest, APayloadOfLessThanHalfASlotIsCopied) {
  Open();
  std::vector<std::byte> head(64);
  std::vector<std::byte> piece(16383);
  for (size_t bytes : {size_t{16384}, size_t{16383}, size_t{4096}}) {
    piece.resize(bytes);
    std::vector<iovec> frame = {{head.data(), head.size()}, {piece.data(), piece.size()}};
    A().Send(frame);
    ASSERT_TRUE(Until([&] { return B().pair().HasMessage(); }));
    std::vector<std::byte> got(40000);
    std::vector<iovec> in = {{got.data(), got.size()}};
    EXPECT_EQ(B().Receive(in).bytes, 64u);
    EXPECT_EQ(static_cast<bool>(B().Lying(bytes)), bytes == 16384);
    EXPECT_EQ(B().Receive(in).bytes, bytes);
  }
}

TEST_F(RdmaChannelTest, WithoutSlotsTheSenderWaitsAndTheReaderIsWoken) {
  Open(4, 4096);
  std::vector<std::byte> bytes(100000);
  std::vector<iovec> parts = {{bytes.data(), bytes.size()}};
  auto first = A().Send(parts);
  EXPECT_EQ(first.stop, EAGAIN);
  EXPECT_GE(first.bytes, 4096u);
  EXPECT_LE(first.bytes, 2u * 4096u) << "two of four slots are kept";
  EXPECT_TRUE(A().room_wakes_reader());
  ASSERT_TRUE(Until([&] { return A().unconfirmed_bytes() == 0; }));
  EXPECT_EQ(A().Send(parts).bytes, 0u) << "it came through, and nobody has read it";
}

TEST_F(RdmaChannelTest, WhatWasSentBeforeTheEndIsReadBeforeTheEnd) {
  Open();
  std::vector<std::byte> bytes(10000, std::byte{7});
  std::vector<iovec> out = {{bytes.data(), bytes.size()}};
  EXPECT_EQ(A().Send(out).bytes, bytes.size());
  // The other end's device has the message, and its loop has not looked yet.
  ASSERT_TRUE(PollUntil(hosts_[0], hosts_[0], [&] { return A().unconfirmed_bytes() == 0; }));
  Leave(0);
  B().Woken();
  std::vector<std::byte> got(20000);
  std::vector<iovec> in = {{got.data(), got.size()}};
  auto passed = B().Receive(in);
  EXPECT_EQ(passed.bytes, bytes.size());
  EXPECT_EQ(passed.stop, ByteChannel::kEndOfStream);
  EXPECT_EQ(B().Send(out).stop, EPIPE);
}

// The owner reads when it is told, and may drop the connection then.
TEST_F(RdmaChannelTest, WhoIsToldMayReadAndLeaveAfterTheEnd) {
  Open();
  std::vector<std::byte> bytes(10000, std::byte{7});
  std::vector<iovec> out = {{bytes.data(), bytes.size()}};
  EXPECT_EQ(A().Send(out).bytes, bytes.size());
  // The other end has the message, and has not looked yet.
  ASSERT_TRUE(PollUntil(hosts_[0], hosts_[0], [&] { return A().unconfirmed_bytes() == 0; }));
  Leave(0);
  B().Woken();
  size_t got = 0;
  int told = 0;
  on_event_[1] = [&] {
    ++told;
    std::vector<std::byte> place(20000);
    std::vector<iovec> in = {{place.data(), place.size()}};
    auto passed = B().Receive(in);
    got += passed.bytes;
    if (passed.stop == ByteChannel::kEndOfStream) channels_[1].reset();
  };
  ASSERT_TRUE(Until([&] { return channels_[1] == nullptr; }));
  EXPECT_EQ(got, bytes.size());
  EXPECT_EQ(told, 1);
}

TEST_F(RdmaChannelTest, BytesOverTcpBreakTheRules) {
  Open();
  ASSERT_EQ(write(sockets_[0], "x", 1), 1);
  B().Woken();
  std::byte place{};
  std::vector<iovec> in = {{&place, 1}};
  EXPECT_EQ(B().Receive(in).stop, EPROTO);
  EXPECT_EQ(B().Trouble().code(), StatusCode::kProtocol);
}

TEST_F(RdmaChannelTest, AFailureOfTheDeviceIsTheReason) {
  Open();
  library_.control().FailMessage(1, 12);
  std::vector<std::byte> bytes(100);
  std::vector<iovec> parts = {{bytes.data(), bytes.size()}};
  A().Send(parts);
  ASSERT_TRUE(Until([&] { return !pairs_[0]->status().ok(); }));
  EXPECT_EQ(A().Send(parts).stop, EPROTO);
  EXPECT_EQ(A().Receive(parts).stop, EPROTO);
  EXPECT_EQ(A().Trouble().code(), StatusCode::kUnavailable);
  EXPECT_NE(A().Trouble().message().find("error 12"), std::string::npos);
}

TEST_F(RdmaChannelTest, WithNothingThereItWaits) {
  Open();
  B().Woken();
  std::byte place{};
  std::vector<iovec> in = {{&place, 1}};
  EXPECT_EQ(B().Receive(in).stop, EAGAIN);
  EXPECT_EQ(B().Send({}).stop, ByteChannel::kThrough);
}

}  // namespace
}  // namespace byteps::transport
