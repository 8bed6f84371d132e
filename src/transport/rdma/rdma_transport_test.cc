#include "src/transport/rdma/rdma_transport.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/thread_annotations.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/over_standin_for_test.h"
#include "src/transport/tcp/raw_socket_for_test.h"
#include "src/transport/transport_conformance.h"

namespace byteps::transport {
namespace {

using ConnectResult = Result<std::unique_ptr<Connection>>;

// Two processes, each with a transport and a loop, and a connection that the server has moved to a
// second loop, as servers do.
class RdmaTransportTest : public ::testing::Test {
 protected:
  // A busy machine confirms late what was sent.
  RdmaTransportTest() { tcp_.user_timeout = kPatience; }
  RdmaOptions Options() {
    RdmaOptions options;
    options.on_outcome = [this](const RdmaOutcome& outcome) {
      MutexLock lock(mutex_);
      outcomes_.push_back(outcome);
    };
    return options;
  }
  void Open(const RdmaOptions& server, const RdmaOptions& client) {
    server_transport_ = std::make_unique<OverStandin>(server, nullptr, tcp_);
    RdmaOptions other = client;
    other.library = standin::LibraryPath();
    other.takes_software = true;
    client_transport_ = MakeRdmaTransport(tcp_, other);
    server_loop_ = std::make_unique<LoopThread>(*server_transport_);
    shard_loop_ = std::make_unique<LoopThread>(*server_transport_);
    client_loop_ = std::make_unique<LoopThread>(*client_transport_);
    listener_ = server_loop_->Do([&] {
      return server_loop_->loop().Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> made) {
        made->MoveTo(shard_loop_->loop(), [&](std::unique_ptr<Connection> moved) {
          server_->connection() = std::move(moved);
          server_->connection()->SetLimits({size_t{1} << 30});
          server_->connection()->Start(&server_->recorder());
          accepted_.set_value();
        });
      });
    });
    ASSERT_TRUE(listener_.value() != nullptr);
    Connect();
  }
  void OpenBoth() {
    RdmaOptions client = Options();
    client.wanted = true;
    Open(Options(), client);
  }
  void Connect() { ConnectOn(*client_loop_); }
  void ConnectOn(LoopThread& loop) {
    accepted_ = std::promise<void>();
    server_ = std::make_unique<End>(*shard_loop_);
    client_ = std::make_unique<End>(loop);
    std::promise<void> connected;
    loop.Do([&] {
      loop.loop().Connect(listener_.value()->Address(), kPatience, [&](ConnectResult result) {
        ASSERT_TRUE(result.ok()) << result.status().ToString();
        client_->connection() = std::move(result).value();
        connected.set_value();
      });
    });
    ASSERT_EQ(connected.get_future().wait_for(kPatience), std::future_status::ready);
    client_->Start();
    ASSERT_EQ(accepted_.get_future().wait_for(kPatience), std::future_status::ready);
  }
  ~RdmaTransportTest() override {
    server_.reset();
    client_.reset();
    if (listener_.ok()) server_loop_->Do([&] { listener_.value().reset(); });
    client_loop_.reset();
    shard_loop_.reset();
    server_loop_.reset();
    client_transport_.reset();
  }

  static std::string MediumOf(End& end) {
    return end.thread().Do([&] { return end.connection()->Medium(); });
  }
  // Both ends go over the device.
  bool BecomesRdma() {
    for (End* end : {server_.get(), client_.get()}) {
      bool is =
          end->thread().RunUntil([&] { return end->connection()->Medium() == "rdma standin0"; });
      if (!is) return false;
    }
    return true;
  }
  bool WaitForOutcomes(size_t count) {
    return client_loop_->RunUntil([&] { return Outcomes().size() >= count; });
  }
  std::vector<RdmaOutcome> Outcomes() {
    MutexLock lock(mutex_);
    return outcomes_;
  }
  void ExpectFramesPass() {
    const size_t before[] = {server_->recorder().frame_count(), client_->recorder().frame_count()};
    static const auto payload = Bytes(300000, 1);
    client_->Send(1, "there", payload);
    server_->Send(2, "back", payload);
    ASSERT_TRUE(server_->recorder().WaitForFrames(before[0] + 1));
    ASSERT_TRUE(client_->recorder().WaitForFrames(before[1] + 1));
    EXPECT_TRUE(Same(server_->recorder().frames().back().payload, payload));
    EXPECT_TRUE(Same(client_->recorder().frames().back().payload, payload));
  }
  standin::Control& control() { return server_transport_->control(); }

  TcpOptions tcp_;
  Mutex mutex_;
  std::vector<RdmaOutcome> outcomes_ BYTEPS_GUARDED_BY(mutex_);
  std::unique_ptr<OverStandin> server_transport_;
  std::unique_ptr<RdmaTransport> client_transport_;
  std::unique_ptr<LoopThread> server_loop_;
  std::unique_ptr<LoopThread> shard_loop_;
  std::unique_ptr<LoopThread> client_loop_;
  Result<std::unique_ptr<Listener>> listener_ = Status(StatusCode::kInternal, "none");
  std::promise<void> accepted_;
  std::unique_ptr<End> server_;
  std::unique_ptr<End> client_;
};

TEST_F(RdmaTransportTest, AConnectionThatHasMovedGoesOverTheDeviceInBothDirections) {
  OpenBoth();
  ASSERT_TRUE(BecomesRdma());
  const uint64_t before = control().counts().bytes;
  ExpectFramesPass();
  EXPECT_GE(control().counts().bytes - before, 600000u);
  ASSERT_TRUE(WaitForOutcomes(2));
  for (const RdmaOutcome& outcome : Outcomes()) {
    EXPECT_TRUE(outcome.over);
    EXPECT_EQ(outcome.device, "standin0");
    EXPECT_EQ(outcome.own, "127.0.0.1");
  }
}

TEST_F(RdmaTransportTest, AProcessThatDoesNotWantItDeclinesAndLoadsNothing) {
  RdmaOptions client = Options();
  client.on_outcome = nullptr;
  Open(Options(), client);
  ASSERT_TRUE(WaitForOutcomes(1));
  EXPECT_FALSE(Outcomes()[0].over);
  EXPECT_TRUE(Outcomes()[0].peer_says);
  EXPECT_NE(Outcomes()[0].why.find("BYTEPS_TRANSPORT"), std::string::npos) << Outcomes()[0].why;
  ExpectFramesPass();
  EXPECT_EQ(MediumOf(*client_), "tcp");
  EXPECT_EQ(control().counts().messages, 0u);
  EXPECT_EQ(control().counts().queue_pairs, 0u);
}

TEST_F(RdmaTransportTest, WithoutADeviceAServerSaysWhyAndOffersNothing) {
  RdmaOptions server = Options();
  server.devices = {"mlx9"};
  RdmaOptions client = Options();
  client.wanted = true;
  Open(server, client);
  ASSERT_TRUE(WaitForOutcomes(1));
  EXPECT_FALSE(Outcomes()[0].peer_says);
  EXPECT_NE(Outcomes()[0].why.find("mlx9"), std::string::npos) << Outcomes()[0].why;
  ExpectFramesPass();
  EXPECT_EQ(MediumOf(*server_), "tcp");
}

TEST_F(RdmaTransportTest, MessagesThatGetLostLeaveItOnTcp) {
  RdmaOptions options = Options();
  options.wanted = true;
  options.proof_limit = milliseconds(20);
  RdmaOptions silent = options;
  server_transport_ = nullptr;
  silent.holds_switch = nullptr;
  Open(silent, options);
  // The stand-in began to be silent too late for this connection, but not for the next one.
  control().Silence(true);
  client_->Destroy();
  ASSERT_TRUE(server_->recorder().WaitForClosed());
  Connect();
  ASSERT_TRUE(client_loop_->RunUntil([&] {
    size_t lost = 0;
    for (const RdmaOutcome& outcome : Outcomes())
      lost += outcome.why.find("20 ms") != std::string::npos ? 1 : 0;
    return lost >= 1;
  }));
  ExpectFramesPass();
  EXPECT_EQ(MediumOf(*client_), "tcp");
}

TEST_F(RdmaTransportTest, IfTheDevicesGoSilentTheConnectionIsCutAndTheNextOneStaysOnTcp) {
  tcp_.user_timeout = seconds(2);
  OpenBoth();
  ASSERT_TRUE(BecomesRdma());
  control().Silence(true);
  client_->Send(1, "lost");
  ASSERT_TRUE(client_->recorder().WaitForClosed());
  EXPECT_EQ(client_->recorder().why().code(), StatusCode::kUnavailable);
  ASSERT_TRUE(server_->recorder().WaitForClosed());
  EXPECT_EQ(server_->recorder().why().code(), StatusCode::kPeerLost);
  control().Silence(false);
  Connect();
  ExpectFramesPass();
  ASSERT_TRUE(WaitForOutcomes(3));
  EXPECT_NE(Outcomes().back().why.find("has failed a short time ago"), std::string::npos);
  EXPECT_EQ(MediumOf(*client_), "tcp");
}

// The other end would take the end of the TCP connection for the end of the stream.
TEST_F(RdmaTransportTest, TheEndComesBehindMessagesThatAreStillOnTheirWay) {
  OpenBoth();
  ASSERT_TRUE(BecomesRdma());
  control().Hold(true);
  client_->Send(1, "last words");
  client_->CloseAfterFlush(kPatience);
  // Each end takes what there is for it.
  for (int turn = 0; turn < 10; ++turn) {
    client_loop_->Do([] {});
    shard_loop_->Do([] {});
  }
  EXPECT_EQ(server_->recorder().closed_count(), 0);
  control().Hold(false);
  ASSERT_TRUE(server_->recorder().WaitForClosed());
  ASSERT_EQ(server_->recorder().frame_count(), 1u);
  EXPECT_EQ(server_->recorder().frames()[0].header, "last words");
  ASSERT_TRUE(client_->recorder().WaitForClosed());
  EXPECT_TRUE(client_->recorder().why().ok());
}

TEST_F(RdmaTransportTest, AnErrorOfTheDeviceCutsTheConnectionAndFramesBeforeItArrive) {
  OpenBoth();
  ASSERT_TRUE(BecomesRdma());
  ExpectFramesPass();
  control().FailMessage(1, 12);
  client_->Send(1, "lost");
  ASSERT_TRUE(client_->recorder().WaitForClosed());
  ASSERT_TRUE(server_->recorder().WaitForClosed());
  // It may also hit an empty message of the server, which tells what it gave back.
  const Status client = client_->recorder().why();
  const Status server = server_->recorder().why();
  const Status& why = client.code() == StatusCode::kUnavailable ? client : server;
  EXPECT_EQ(why.code(), StatusCode::kUnavailable);
  EXPECT_NE(why.message().find("error 12"), std::string::npos) << why.ToString();
  EXPECT_NE(why.message().find("127.0.0.1:"), std::string::npos) << why.ToString();
}

// Its queue pair fails, too. Its successor on the same host shall have RDMA at once.
TEST_F(RdmaTransportTest, AProcessThatIsGoneSaysNothingAgainstItsHost) {
  OpenBoth();
  ASSERT_TRUE(BecomesRdma());
  control().Hold(true);
  server_->Send(1, "to nobody");
  shard_loop_->Do([] {});
  // The end that stays finds both at once: the failure of its message, and the end of the peer.
  shard_loop_->Do([&] {
    client_->Destroy();
    const uint64_t before = control().counts().notifications;
    control().FailMessage(1, 12);
    control().Hold(false);
    Loop& loop = shard_loop_->loop();
    const Time end = loop.Now() + kPatience;
    while (control().counts().notifications == before && loop.Now() < end) {
      // tidy-allow(yield): the device wakes this loop, which is here.
      std::this_thread::yield();
    }
  });
  ASSERT_TRUE(server_->recorder().WaitForClosed());
  Connect();
  EXPECT_TRUE(BecomesRdma());
}

TEST_F(RdmaTransportTest, ADeviceThatIsGoneEndsItsConnectionsAndServesNoMore) {
  OpenBoth();
  ASSERT_TRUE(BecomesRdma());
  control().KillDevice(0);
  ASSERT_TRUE(client_->recorder().WaitForClosed());
  ASSERT_TRUE(server_->recorder().WaitForClosed());
  EXPECT_NE(client_->recorder().why().code(), StatusCode::kProtocol);
  Connect();
  ExpectFramesPass();
  EXPECT_EQ(MediumOf(*client_), "tcp");
}

// No queue pair says anything, and nothing is sent. Each end hears it from its own device.
TEST_F(RdmaTransportTest, ADeviceThatIsPulledOutEndsItsConnections) {
  OpenBoth();
  ASSERT_TRUE(BecomesRdma());
  control().LoseDevice(0);
  ASSERT_TRUE(client_->recorder().WaitForClosed());
  ASSERT_TRUE(server_->recorder().WaitForClosed());
  const Status client = client_->recorder().why();
  const Status server = server_->recorder().why();
  const Status& first = client.code() == StatusCode::kUnavailable ? client : server;
  EXPECT_NE(first.message().find("the RDMA device standin0 of this host is gone"),
            std::string::npos)
      << first.ToString();
  Connect();
  ExpectFramesPass();
  EXPECT_EQ(MediumOf(*client_), "tcp");
}

// The event of a device wakes all loops of a process, and the first of them reads it.
TEST_F(RdmaTransportTest, ALoopThatComesLateHearsThatTheDeviceIsGone) {
  RdmaOptions client = Options();
  client.wanted = true;
  client.devices = {"standin1"};  // the server does not lose its own
  Open(Options(), client);
  auto is_rdma = [](End& end) {
    return end.thread().RunUntil([&] { return end.connection()->Medium() == "rdma standin1"; });
  };
  ASSERT_TRUE(is_rdma(*client_));
  const std::unique_ptr<End> first = std::move(client_);
  const std::unique_ptr<End> first_there = std::move(server_);
  LoopThread late(*client_transport_);
  ConnectOn(late);
  ASSERT_TRUE(is_rdma(*client_));
  std::promise<void> stands;
  std::promise<void> goes_on;
  std::thread stands_still([&] {
    late.Do([&] {
      stands.set_value();
      goes_on.get_future().wait();
    });
  });
  stands.get_future().wait();
  control().LoseDevice(1);
  EXPECT_TRUE(first->recorder().WaitForClosed());
  goes_on.set_value();
  stands_still.join();
  EXPECT_TRUE(client_->recorder().WaitForClosed());
  EXPECT_EQ(client_->recorder().why().code(), StatusCode::kUnavailable);
  client_.reset();
}

TEST_F(RdmaTransportTest, TheMemoryOf64ConnectionsStaysWithinTheLimit) {
  RdmaOptions options = Options();
  options.wanted = true;
  options.buffer_bytes = size_t{8} << 20;
  Open(options, options);
  ASSERT_TRUE(BecomesRdma());
  std::list<std::pair<std::unique_ptr<End>, std::unique_ptr<End>>> others;
  for (int i = 0; i < 63; ++i) {
    others.emplace_back(std::move(server_), std::move(client_));
    Connect();
    ExpectFramesPass();
    // Each of the two processes has this limit.
    EXPECT_LE(control().counts().registered_bytes, 2 * options.buffer_bytes);
  }
  ASSERT_TRUE(client_loop_->RunUntil([&] {
    std::vector<RdmaOutcome> outcome = Outcomes();
    return std::ranges::any_of(outcome, [](const RdmaOutcome& one) {
      return !one.over && one.why.find("no more memory") != std::string::npos;
    });
  }));
}

TEST_F(RdmaTransportTest, FramesThatNoCorrectPeerSendsEndTheirConnectionOnly) {
  OpenBoth();
  auto frame = [](uint8_t kind, std::string_view payload) {
    std::string bytes(kFramePrefixBytes, 0);
    bytes[0] = static_cast<char>(payload.size() & 0xff);
    bytes[1] = static_cast<char>(payload.size() >> 8);
    bytes[6] = static_cast<char>(kind);
    return bytes + std::string(payload);
  };
  std::string offer(kOfferBytes, 0);
  offer[0] = 1;  // the version; all else is impossible
  const std::vector<std::string> bad = {frame(240, offer),
                                        frame(240, std::string("\1\0short", 7)),
                                        frame(241, offer),
                                        frame(242, "\1no"),
                                        frame(243, ""),
                                        frame(243, "x"),
                                        frame(240, std::string(600, 'x'))};
  for (const std::string& bytes : bad) {
    std::promise<std::unique_ptr<Connection>> made;
    auto listener = client_loop_->Do([&] {
      return client_loop_->loop().Listen(
          "127.0.0.1:0", [&](std::unique_ptr<Connection> one) { made.set_value(std::move(one)); });
    });
    ASSERT_TRUE(listener.ok());
    RawSocket raw(listener.value()->Port());
    End end(*client_loop_);
    auto connection = made.get_future().get();
    client_loop_->Do([&] { end.connection() = std::move(connection); });
    end.Start();
    raw.Write(bytes);
    EXPECT_TRUE(end.recorder().WaitForClosed()) << testing::PrintToString(bytes);
    EXPECT_EQ(end.recorder().why().code(), StatusCode::kProtocol)
        << end.recorder().why().ToString() << testing::PrintToString(bytes);
    EXPECT_TRUE(raw.SeesTheEnd());
    EXPECT_EQ(end.recorder().frame_count(), 0u);
    client_loop_->Do([&] { listener.value().reset(); });
  }
  ExpectFramesPass();
}

}  // namespace
}  // namespace byteps::transport
