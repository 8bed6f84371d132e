#include "src/transport/shared/shared_transport.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/local/byte_ring.h"
#include "src/local/packet_socket.h"
#include "src/local/shared_memory.h"
#include "src/transport/shared/ring_channel.h"
#include "src/transport/transport_conformance.h"

namespace byteps::transport {
namespace {

// Returns a name of this process, because other tests run at the same time.
std::string TestName() { return "@byteps-test-" + std::to_string(getpid()); }

std::unique_ptr<Transport> MakePlain() { return MakeSharedTransport({}); }

INSTANTIATE_TEST_SUITE_P(Shared, TransportConformance,
                         ::testing::Values(Backend{"shared", MakePlain, TestName() + ":0",
                                                   TestName() + "-nobody:1"}));
// The same transport with an address of TCP.
INSTANTIATE_TEST_SUITE_P(SharedsTcp, TransportConformance,
                         ::testing::Values(Backend{"shareds_tcp", MakePlain, "127.0.0.1:0",
                                                   "127.0.0.1:1"}));

// A listener, and a peer that the test plays by hand.
class SharedTest : public ::testing::Test {
 protected:
  SharedTest() : transport_(MakeSharedTransport(Options())), thread_(*transport_) {
    listener_ = thread_.Do([&] {
      auto listener =
          thread_.loop().Listen(TestName() + ":0", [&](std::unique_ptr<Connection> connection) {
            End& end = accepted_.emplace_back(thread_);
            end.connection() = std::move(connection);
            end.connection()->Start(&end.recorder());
            ++count_;
          });
      EXPECT_TRUE(listener.ok()) << listener.status().ToString();
      return std::move(listener).value();
    });
  }
  ~SharedTest() override {
    accepted_.clear();
    thread_.Do([&] { listener_.reset(); });
  }

  static TcpOptions Options() {
    TcpOptions options;
    options.user_timeout = milliseconds(100);
    return options;
  }

  // Connects a peer that sends only what the test writes.
  local::UniqueFd Connect() {
    auto socket = local::ConnectPackets(listener_->Address().substr(1));
    EXPECT_TRUE(socket.ok()) << socket.status().ToString();
    return std::move(socket).value();
  }

  // A peer that has handed over proper memory.
  struct Peer {
    local::UniqueFd socket;
    local::SharedMemory memory;
    local::RingWords& words(size_t ring) {
      return reinterpret_cast<local::RingWords*>(memory.bytes().data())[ring];
    }
    void Wake() { EXPECT_TRUE(local::SendPacket(socket, std::vector<std::byte>(1)).ok()); }
  };
  Peer ConnectWithRings() {
    auto memory = local::SharedMemory::Create(kRingsBytes, local::Access::kReadWrite);
    EXPECT_TRUE(memory.ok());
    Peer peer{Connect(), std::move(memory).value()};
    EXPECT_TRUE(Offer(peer.socket, kRingsOffer, {peer.memory.fd()}).ok());
    return peer;
  }

  static Status Offer(const local::UniqueFd& socket, std::string_view text,
                      const std::vector<int>& fds) {
    return local::SendPacket(socket, std::as_bytes(std::span(text)), fds);
  }

  End& Accepted(size_t number) {
    EXPECT_TRUE(thread_.RunUntil([&] { return count_ > number; }));
    return *std::next(accepted_.begin(), static_cast<std::ptrdiff_t>(number));
  }

  // Checks that the connection with this number ends for this reason, and that others come through.
  void ExpectClosed(size_t number, StatusCode code) {
    Recorder& recorder = Accepted(number).recorder();
    ASSERT_TRUE(recorder.WaitForClosed());
    EXPECT_EQ(recorder.why().code(), code) << recorder.why().ToString();
    End other(thread_);
    std::promise<void> connected;
    thread_.Do([&] {
      thread_.loop().Connect(listener_->Address(), kPatience, [&](auto result) {
        ASSERT_TRUE(result.ok());
        other.connection() = std::move(result).value();
        connected.set_value();
      });
    });
    ASSERT_EQ(connected.get_future().wait_for(kPatience), std::future_status::ready);
    other.Start();
    other.Send(1, "still here");
    EXPECT_TRUE(Accepted(number + 1).recorder().WaitForFrames(1));
  }

  std::unique_ptr<Transport> transport_;
  LoopThread thread_;
  std::list<End> accepted_;
  std::atomic<size_t> count_ = 0;
  std::unique_ptr<Listener> listener_;
};

TEST_F(SharedTest, APeerThatOffersSomethingElseIsRefused) {
  local::UniqueFd peer = Connect();
  ASSERT_TRUE(Offer(peer, "byteps rings 99", {}).ok());
  ExpectClosed(0, StatusCode::kRefused);
}

TEST_F(SharedTest, AnOfferWithoutMemoryIsRefused) {
  local::UniqueFd peer = Connect();
  ASSERT_TRUE(Offer(peer, kRingsOffer, {}).ok());
  ExpectClosed(0, StatusCode::kRefused);
}

TEST_F(SharedTest, MemoryThatCouldShrinkIsNotTaken) {
  local::UniqueFd peer = Connect();
  local::UniqueFd memory(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(memory.get(), kRingsBytes), 0);
  ASSERT_TRUE(Offer(peer, kRingsOffer, {memory.get()}).ok());
  ExpectClosed(0, StatusCode::kProtocol);
}

TEST_F(SharedTest, MemoryOfAnotherSizeIsNotTaken) {
  local::UniqueFd peer = Connect();
  auto memory = local::SharedMemory::Create(4096, local::Access::kReadWrite);
  ASSERT_TRUE(memory.ok());
  ASSERT_TRUE(Offer(peer, kRingsOffer, {memory->fd()}).ok());
  ExpectClosed(0, StatusCode::kProtocol);
}

TEST_F(SharedTest, NonsenseInTheRingEndsItsConnectionOnly) {
  Peer peer = ConnectWithRings();
  peer.words(0).written = kRingBytes + 1;
  peer.Wake();
  ExpectClosed(0, StatusCode::kProtocol);
}

TEST_F(SharedTest, NonsenseOfAReaderEndsItsConnectionOnly) {
  Peer peer = ConnectWithRings();
  peer.words(1).read = 1;
  Accepted(0).Send(1, "to nobody");
  ExpectClosed(0, StatusCode::kProtocol);
}

TEST_F(SharedTest, BytesThatAreNoFrameEndTheirConnectionOnly) {
  Peer peer = ConnectWithRings();
  ByteSpan ring = peer.memory.bytes().subspan(kRingWordsBytes, kRingBytes);
  std::fill_n(ring.begin(), 64, std::byte{0xff});
  peer.words(0).written = 64;
  peer.Wake();
  ExpectClosed(0, StatusCode::kProtocol);
}

TEST_F(SharedTest, ThePeersEndIsNoticedAtOnce) {
  Peer peer = ConnectWithRings();
  Accepted(0);
  peer.socket.Close();
  ExpectClosed(0, StatusCode::kPeerLost);
}

TEST_F(SharedTest, APeerThatEndsBeforeItOffersMemoryIsGone) {
  Connect().Close();
  ExpectClosed(0, StatusCode::kPeerLost);
}

TEST_F(SharedTest, APeerThatTakesNothingIsGivenUp) {
  Peer peer = ConnectWithRings();
  const std::vector<std::byte> more_than_a_ring(2 * kRingBytes);
  Accepted(0).Send(1, "nobody reads this", more_than_a_ring);
  ExpectClosed(0, StatusCode::kUnavailable);
}

TEST_F(SharedTest, WakesWithoutAReasonDoNoHarm) {
  Peer peer = ConnectWithRings();
  for (int i = 0; i < 100; ++i) peer.Wake();
  peer.words(0).writer_waits = 77;
  peer.words(1).reader_is_awake = 77;
  peer.socket.Close();
  ExpectClosed(0, StatusCode::kPeerLost);
}

}  // namespace
}  // namespace byteps::transport
