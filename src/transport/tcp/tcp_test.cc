#include "src/transport/tcp/tcp_transport.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <future>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "src/transport/tcp/raw_socket_for_test.h"
#include "src/transport/transport_conformance.h"

namespace byteps::transport {
namespace {

std::unique_ptr<Transport> MakeDefault() { return MakeTcpTransport({}); }

std::unique_ptr<Transport> MakeTuned() {
  TcpOptions options;
  options.send_buffer_bytes = 32768;
  options.receive_buffer_bytes = 32768;
  options.not_sent_low_water_bytes = 16384;
  options.receive_low_water_bytes = 16384;
  options.user_timeout = Duration::zero();
  options.keepalive_idle = Duration::zero();
  return MakeTcpTransport(options);
}

// Nobody listens on port 1 of the loopback interface, and the system never gives it out.
INSTANTIATE_TEST_SUITE_P(TcpV4, TransportConformance,
                         ::testing::Values(Backend{"tcp", MakeDefault, "127.0.0.1:0",
                                                   "127.0.0.1:1"}));
INSTANTIATE_TEST_SUITE_P(TcpV6, TransportConformance,
                         ::testing::Values(Backend{"tcp", MakeDefault, "[::1]:0", "[::1]:1"}));
INSTANTIATE_TEST_SUITE_P(TcpName, TransportConformance,
                         ::testing::Values(Backend{"tcp", MakeDefault, "localhost:0",
                                                   "localhost:1"}));
INSTANTIATE_TEST_SUITE_P(TcpSmallBuffers, TransportConformance,
                         ::testing::Values(Backend{"tcp", MakeTuned, "127.0.0.1:0",
                                                   "127.0.0.1:1"}));

// A socket that has its descriptor before it is connected.
class UnconnectedSocket {
 public:
  UnconnectedSocket() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~UnconnectedSocket() { close(fd_); }

  void Connect(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }

 private:
  int fd_;
};

// Runs a server that starts every connection that comes.
class TcpTest : public ::testing::Test {
 protected:
  TcpTest() : transport_(MakeDefault()), thread_(*transport_) {}
  ~TcpTest() override {
    thread_.Do([&] { listener_.reset(); });
  }

  void Listen(const std::string& address) {
    auto listener = thread_.Do([&] {
      return thread_.loop().Listen(address, [this](std::unique_ptr<Connection> connection) {
        End& end = ends_.emplace_back(thread_);
        end.connection() = std::move(connection);
        end.connection()->Start(&end.recorder());
        accepted_.fetch_add(1);
      });
    });
    ASSERT_TRUE(listener.ok()) << listener.status().ToString();
    listener_ = std::move(listener.value());
  }

  // Returns the n-th connection that came.
  End& Accepted(size_t n) {
    EXPECT_TRUE(thread_.RunUntil([&] { return ends_.size() > n; }));
    return *std::next(ends_.begin(), static_cast<std::ptrdiff_t>(n));
  }

  Result<std::unique_ptr<Connection>> ConnectTo(const std::string& address,
                                                Duration timeout = kPatience) {
    return ConnectFrom("", address, timeout);
  }

  Result<std::unique_ptr<Connection>> ConnectFrom(const std::string& own,
                                                  const std::string& address,
                                                  Duration timeout = kPatience) {
    std::promise<Result<std::unique_ptr<Connection>>> promise;
    auto future = promise.get_future();
    thread_.Do([&] {
      thread_.loop().ConnectFrom(own, address, timeout,
                                 [&](auto result) { promise.set_value(std::move(result)); });
    });
    if (future.wait_for(kPatience) != std::future_status::ready) {
      return Status(StatusCode::kInternal, "Connect never answers");
    }
    return future.get();
  }

  void ExpectProtocolError(std::string_view bytes, const std::string& text) {
    Listen("127.0.0.1:0");
    RawSocket stranger(listener_->Port());
    RawSocket good(listener_->Port());
    stranger.Write(bytes);
    EXPECT_TRUE(stranger.SeesTheEnd());
    good.Write(std::string_view("\x03\0\0\0\x02\0\x07\0hdabc", 13));
    size_t survivors = 0;
    for (size_t n : {0, 1}) {
      End& end = Accepted(n);
      if (thread_.RunUntil(
              [&] { return end.recorder().closed_count() + end.recorder().frame_count() > 0; }) &&
          end.recorder().frame_count() == 1) {
        ++survivors;
        EXPECT_EQ(end.recorder().frames()[0].header, "hd");
        continue;
      }
      EXPECT_EQ(end.recorder().why().code(), StatusCode::kProtocol);
      EXPECT_NE(end.recorder().why().message().find(text), std::string::npos)
          << end.recorder().why().message();
    }
    EXPECT_EQ(survivors, 1u);
  }

  const std::vector<std::byte> payload_ = Bytes(3, 1);  // outlives the connections
  std::unique_ptr<Transport> transport_;
  LoopThread thread_;
  std::unique_ptr<Listener> listener_;
  std::atomic<size_t> accepted_ = 0;
  std::list<End> ends_;  // filled on the loop's thread
};

TEST_F(TcpTest, AReservedByteThatIsNotZeroClosesOnlyThatConnection) {
  ExpectProtocolError(std::string_view("\0\0\0\0\0\0\x01\x01", 8), "reserved");
}

TEST_F(TcpTest, AHeaderThatIsTooLongClosesOnlyThatConnection) {
  ExpectProtocolError(std::string_view("\0\0\0\0\x81\0\x01\0", 8), "129");
}

TEST_F(TcpTest, APayloadBeyondTheLimitClosesOnlyThatConnection) {
  ExpectProtocolError(std::string_view("\xff\xff\xff\xff\0\0\x01\0", 8), "4294967295");
}

TEST_F(TcpTest, AWebBrowserClosesOnlyItsConnection) {
  ExpectProtocolError("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n", "broke the protocol");
}

TEST_F(TcpTest, FramesThatComeByteByByteAreWhole) {
  Listen("127.0.0.1:0");
  RawSocket slow(listener_->Port());
  std::string stream;
  for (int i = 0; i < 3; ++i) stream += std::string("\x05\0\0\0\x03\0\x07\0hdrHELLO", 16);
  for (char byte : stream) slow.Write({&byte, 1});
  End& end = Accepted(0);
  ASSERT_TRUE(end.recorder().WaitForFrames(3));
  for (const auto& frame : end.recorder().frames()) {
    EXPECT_EQ(frame.kind, 7);
    EXPECT_EQ(frame.header, "hdr");
    EXPECT_EQ(std::memcmp(frame.payload.data(), "HELLO", 5), 0);
  }
}

TEST_F(TcpTest, ALargePayloadFromASlowWriterIsWhole) {
  Listen("127.0.0.1:0");
  RawSocket slow(listener_->Port());
  constexpr uint32_t kSize = 300000;
  End& end = Accepted(0);
  thread_.Do([&] { end.connection()->SetLimits({kSize}); });
  std::string head("\xe0\x93\x04\0\0\0\x01\0", 8);  // 300000
  slow.Write(head);
  std::string payload(kSize, 'x');
  // The test writes parts that straddle the low-water mark, each one only after the loop has
  // looked.
  for (size_t at = 0; at < kSize;) {
    size_t part = std::min<size_t>(kSize - at, at % 7 == 0 ? 9000 : 70001);
    slow.Write(std::string_view(payload).substr(at, part));
    thread_.Do([] {});
    at += part;
  }
  slow.Write(head);
  slow.Write(payload);
  ASSERT_TRUE(end.recorder().WaitForFrames(2));
  EXPECT_EQ(end.recorder().frames()[1].payload.size(), kSize);
  EXPECT_EQ(end.recorder().frames()[1].payload[kSize - 1], std::byte{'x'});
}

TEST_F(TcpTest, WhatLeavesIsAsSpecified) {
  Listen("127.0.0.1:0");
  RawSocket reader(listener_->Port());
  End& end = Accepted(0);
  end.Send(9, "ab", payload_);
  std::string expected("\x03\0\0\0\x02\0\x09\0ab", 10);
  expected.append(reinterpret_cast<const char*>(payload_.data()), payload_.size());
  EXPECT_EQ(reader.Read(13), expected);
}

TEST_F(TcpTest, AStrangerThatSaysNothingDisturbsNobody) {
  Listen("127.0.0.1:0");
  RawSocket silent(listener_->Port());
  RawSocket talker(listener_->Port());
  Accepted(1);
  talker.Write(std::string_view("\0\0\0\0\0\0\x01\0", 8));
  EXPECT_TRUE(thread_.RunUntil([&] {
    size_t frames = 0;
    for (End& end : ends_) frames += end.recorder().frame_count();
    return frames == 1;
  }));
  for (End& end : ends_) EXPECT_EQ(end.recorder().closed_count(), 0);
}

TEST_F(TcpTest, AResetIsALossThatNamesPeerAndCause) {
  Listen("127.0.0.1:0");
  RawSocket peer(listener_->Port());
  End& end = Accepted(0);
  peer.Reset();
  ASSERT_TRUE(end.recorder().WaitForClosed());
  EXPECT_EQ(end.recorder().why().code(), StatusCode::kPeerLost);
  std::string text = end.recorder().why().message();
  EXPECT_NE(text.find("127.0.0.1:"), std::string::npos) << text;
  EXPECT_NE(text.find("reset"), std::string::npos) << text;
}

TEST_F(TcpTest, ACloseInTheMiddleOfAFrameIsALoss) {
  Listen("127.0.0.1:0");
  {
    RawSocket peer(listener_->Port());
    peer.Write(std::string_view("\x64\0\0\0\0\0\x01\0half", 12));
    Accepted(0);
  }
  ASSERT_TRUE(Accepted(0).recorder().WaitForClosed());
  EXPECT_EQ(Accepted(0).recorder().why().code(), StatusCode::kPeerLost);
  EXPECT_EQ(Accepted(0).recorder().frame_count(), 0u);
}

TEST_F(TcpTest, AnEmptyHostListensOnBothFamilies) {
  Listen(":0");
  std::string port = std::to_string(listener_->Port());
  for (const std::string& host : {std::string("127.0.0.1:"), std::string("[::1]:")}) {
    auto result = ConnectTo(host + port);
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    EXPECT_EQ(result.value()->PeerName(), host + port);
    thread_.Do([&] { result.value().reset(); });
  }
  // The name of an IPv4 peer is an IPv4 address, although it came in through an IPv6 socket.
  End& end = Accepted(0);
  EXPECT_TRUE(end.connection()->PeerName().starts_with("127.0.0.1:"));
  EXPECT_EQ(end.connection()->LocalAddress(), "127.0.0.1");
}

TEST_F(TcpTest, ANameThatDoesNotExistIsUnavailable) {
  auto result = ConnectTo("no-such-host.invalid:1");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(result.status().message().find("no-such-host.invalid"), std::string::npos);
}

TEST_F(TcpTest, APeerThatDoesNotAnswerCostsTheTimeoutOnly) {
  // The listener accepts nobody and its queue is full, so the kernel drops further connections.
  int deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(deaf, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(deaf, 0), 0);
  ASSERT_EQ(getsockname(deaf, reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::string name = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  std::vector<std::unique_ptr<Connection>> queued;
  Status status;
  for (int i = 0; i < 10 && status.ok(); ++i) {
    auto result = ConnectTo(name, milliseconds(100));
    if (result.ok()) {
      queued.push_back(std::move(result.value()));
    } else {
      status = result.status();
    }
  }
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("time"), std::string::npos) << status.message();
  thread_.Do([&] { queued.clear(); });
  close(deaf);
}

// Lowers the limit so that there is no descriptor left, as long as this object lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    int next = dup(0);
    close(next);
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(next);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(TcpTest, WithoutDescriptorsThoseWhoKnockWaitUntilThereAreSome) {
  TcpOptions options;
  std::promise<std::string> first;
  std::atomic<int> reports = 0;
  options.on_shortage = [&](const std::string& text) {
    if (reports.fetch_add(1) == 0) first.set_value(text);
  };
  auto transport = MakeTcpTransport(options);
  LoopThread thread(*transport);
  std::vector<std::unique_ptr<Connection>> accepted;
  auto listener = thread.Do([&] {
    return thread.loop().Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) {
      accepted.push_back(std::move(connection));
    });
  });
  ASSERT_TRUE(listener.ok());
  UnconnectedSocket early;
  UnconnectedSocket late;
  {
    NoDescriptors none;
    early.Connect(listener.value()->Port());
    auto told = first.get_future();
    ASSERT_EQ(told.wait_for(kPatience), std::future_status::ready);
    EXPECT_NE(told.get().find("Too many open files"), std::string::npos);
    late.Connect(listener.value()->Port());
  }
  EXPECT_TRUE(thread.RunUntil([&] { return accepted.size() == 2; }));
  EXPECT_EQ(reports.load(), 1) << "it is said once";
  thread.Do([&] {
    accepted.clear();
    listener.value().reset();
  });
}

TEST_F(TcpTest, AConnectionLeavesFromTheAddressThatItIsTold) {
  Listen("127.0.0.1:0");
  auto connected = ConnectFrom("127.0.0.9", listener_->Address());
  ASSERT_TRUE(connected.ok()) << connected.status().ToString();
  EXPECT_EQ(connected.value()->LocalAddress(), "127.0.0.9");
  EXPECT_TRUE(Accepted(0).connection()->PeerName().starts_with("127.0.0.9:"));
  thread_.Do([&] { connected.value().reset(); });
}

TEST_F(TcpTest, AnAddressThatThisHostDoesNotHaveIsNamed) {
  Listen("127.0.0.1:0");
  for (const char* own : {"192.0.2.1", "::1"}) {
    auto connected = ConnectFrom(own, listener_->Address());
    ASSERT_FALSE(connected.ok());
    EXPECT_EQ(connected.status().code(), StatusCode::kUnavailable);
    std::string from = std::string("(from ") + own + ")";
    EXPECT_NE(connected.status().message().find(from), std::string::npos)
        << connected.status().message();
  }
}

TEST_F(TcpTest, NoDescriptorOutlivesExec) {
  Listen("localhost:0");
  auto connected = ConnectTo(listener_->Address());
  ASSERT_TRUE(connected.ok()) << connected.status().ToString();
  Accepted(0);
  int sockets = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    struct stat kind{};
    if (fstat(fd, &kind) != 0 || !S_ISSOCK(kind.st_mode)) continue;
    ++sockets;
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << fd;
  }
  EXPECT_GE(sockets, 3);
  thread_.Do([&] { connected.value().reset(); });
}

TEST_F(TcpTest, AnUnknownCongestionControlIsRefusedWithTheOnesThatExist) {
  TcpOptions options;
  options.congestion_control = "carrier-pigeon";
  auto transport = MakeTcpTransport(options);
  LoopThread thread(*transport);
  auto listener = thread.Do([&] { return thread.loop().Listen("127.0.0.1:0", {}); });
  ASSERT_FALSE(listener.ok());
  EXPECT_EQ(listener.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(listener.status().message().find("carrier-pigeon"), std::string::npos);
  std::promise<Status> promise;
  thread.Do([&] {
    thread.loop().Connect("127.0.0.1:1", kPatience,
                          [&](auto result) { promise.set_value(result.status()); });
  });
  EXPECT_EQ(promise.get_future().get().code(), StatusCode::kInvalidArgument);
}

TEST_F(TcpTest, AKnownCongestionControlIsAccepted) {
  TcpOptions options;
  options.congestion_control = "reno";  // every kernel has it
  auto transport = MakeTcpTransport(options);
  LoopThread thread(*transport);
  auto listener = thread.Do([&] { return thread.loop().Listen("127.0.0.1:0", {}); });
  EXPECT_TRUE(listener.ok()) << listener.status().ToString();
  thread.Do([&] { listener.value().reset(); });
}

}  // namespace
}  // namespace byteps::transport
