// Tests connections with a long path.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/thread_annotations.h"
#include "src/transport/tcp/socket_path.h"
#include "src/transport/tcp/tcp_transport.h"
#include "src/transport/transport_conformance.h"

namespace byteps::transport {
namespace {

// Returns the congestion controls of this process' connected sockets.
std::set<std::string> CongestionControls() {
  std::set<std::string> found;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_storage peer{};
    socklen_t bytes = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) continue;
    const std::string name = CongestionControlOf(fd);
    if (!name.empty()) found.insert(name);
  }
  return found;
}

// Returns the user timeouts of this process' sockets, in milliseconds.
std::set<int> UserTimeouts() {
  std::set<int> found;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_storage peer{};
    socklen_t bytes = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) continue;
    int timeout_ms = 0;
    bytes = sizeof(timeout_ms);
    if (getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &bytes) != 0) continue;
    found.insert(timeout_ms);
  }
  return found;
}

// A connection of a transport that takes any path for a long one.
class LongPathTest : public ::testing::Test {
 protected:
  LongPathTest() {
    options_.long_path = Duration(1);
    options_.on_long_path = [this](const LongPath& path) {
      MutexLock lock(mutex_);
      told_.push_back(path);
    };
  }
  ~LongPathTest() override {
    if (thread_ == nullptr) return;
    thread_->Do([&] {
      ends_.clear();
      listener_.reset();
    });
  }

  // Makes both ends, and passes a payload from each to the other.
  void Exchange() {
    transport_ = MakeTcpTransport(options_);
    thread_ = std::make_unique<LoopThread>(*transport_);
    thread_->Do([&] {
      auto listener = thread_->loop().Listen(
          "127.0.0.1:0", [&](auto connection) { ends_.push_back(std::move(connection)); });
      ASSERT_TRUE(listener.ok()) << listener.status().ToString();
      listener_ = std::move(listener).value();
      thread_->loop().Connect(listener_->Address(), kPatience, [&](auto connection) {
        ASSERT_TRUE(connection.ok()) << connection.status().ToString();
        ends_.push_back(std::move(connection).value());
      });
    });
    ASSERT_TRUE(thread_->RunUntil([&] { return ends_.size() == 2; }));
    thread_->Do([&] {
      for (size_t i = 0; i < 2; ++i) {
        ends_[i]->SetLimits({kMegabyte});
        ends_[i]->Start(&receivers_[i]);
        ends_[i]->Send(MakeFrame(1, "", payload_));
      }
    });
    for (Recorder& receiver : receivers_) ASSERT_TRUE(receiver.WaitForFrames(1));
  }

  std::vector<LongPath> told() {
    MutexLock lock(mutex_);
    return told_;
  }

  TcpOptions options_;
  const std::vector<std::byte> payload_ = Bytes(kMegabyte, 3);
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<LoopThread> thread_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::unique_ptr<Connection>> ends_;
  Recorder receivers_[2];
  Mutex mutex_;
  std::vector<LongPath> told_ BYTEPS_GUARDED_BY(mutex_);
};

TEST_F(LongPathTest, BothEndsGetTheCongestionControlOfLongPaths) {
  options_.long_path_congestion_control = "reno";  // every kernel has it
  Exchange();
  EXPECT_EQ(CongestionControls(), std::set<std::string>{"reno"});
  ASSERT_EQ(told().size(), 2U) << "each end says it once";
  for (const LongPath& path : told()) {
    EXPECT_EQ(path.congestion_control, "reno");
    EXPECT_EQ(path.trouble, "");
    EXPECT_GT(path.round_trip, Duration::zero());
    EXPECT_TRUE(path.peer.starts_with("127.0.0.1:")) << path.peer;
  }
}

TEST_F(LongPathTest, OneThatTheSystemDoesNotHaveChangesNothingAndIsTold) {
  options_.long_path_congestion_control = "carrier-pigeon";
  Exchange();
  EXPECT_FALSE(CongestionControls().contains("carrier-pigeon"));
  ASSERT_EQ(told().size(), 2U);
  for (const LongPath& path : told()) {
    EXPECT_NE(path.trouble, "");
    EXPECT_EQ(std::set{path.congestion_control}, CongestionControls());
  }
}

TEST_F(LongPathTest, AShortPathKeepsTheSystems) {
  options_.long_path = std::chrono::hours(1);
  options_.long_path_congestion_control = "reno";
  Exchange();
  const int usual = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(CongestionControls(), std::set{CongestionControlOf(usual)});
  close(usual);
  EXPECT_TRUE(told().empty());
}

TEST_F(LongPathTest, APacketThatIsLostDoesNotEndAConnection) {
  options_.user_timeout = milliseconds(900);
  Exchange();
  EXPECT_EQ(UserTimeouts(), std::set<int>{4000});
}

TEST_F(LongPathTest, ALongerTimeoutStays) {
  options_.user_timeout = seconds(7);
  Exchange();
  EXPECT_EQ(UserTimeouts(), std::set<int>{7000});
}

TEST_F(LongPathTest, AConnectionKnowsItsRoundTrip) {
  Exchange();
  for (const auto& end : ends_) {
    const Duration round_trip = thread_->Do([&] { return end->RoundTrip(); });
    EXPECT_GT(round_trip, Duration::zero());
    EXPECT_LT(round_trip, kPatience);
  }
}

}  // namespace
}  // namespace byteps::transport
