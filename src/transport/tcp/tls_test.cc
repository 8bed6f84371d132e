// Tests the guarantees that TLS adds to the transport: it admits only peers with the key, keeps
// bytes secret, and notices changes.
#include <malloc.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "src/transport/tcp/raw_socket_for_test.h"
#include "src/transport/tcp/tcp_transport.h"
#include "src/transport/transport_conformance.h"

namespace byteps::transport {
namespace {

const TlsKey kKey{"a job", {std::byte{7}}};

std::unique_ptr<Transport> MakeTls(const TlsKey& key, const TcpOptions& options = {}) {
  auto transport = MakeTlsTransport(options, key);
  if (!transport.ok()) ADD_FAILURE() << transport.status().ToString();
  return transport.ok() ? std::move(transport).value() : nullptr;
}

std::unique_ptr<Transport> MakeTlsDefault() { return MakeTls(kKey); }

std::unique_ptr<Transport> MakeTlsTuned() {
  TcpOptions options;
  options.send_buffer_bytes = 32768;
  options.receive_buffer_bytes = 32768;
  options.not_sent_low_water_bytes = 16384;
  return MakeTls(kKey, options);
}

// Makes a transport that changes its keys every few records.
std::unique_ptr<Transport> MakeTlsRestless() {
  TlsKey key = kKey;
  key.records_max = 3;
  return MakeTls(key);
}

INSTANTIATE_TEST_SUITE_P(Tls, TransportConformance,
                         ::testing::Values(Backend{"tls", MakeTlsDefault, "127.0.0.1:0",
                                                   "127.0.0.1:1"}));
INSTANTIATE_TEST_SUITE_P(TlsSmallBuffers, TransportConformance,
                         ::testing::Values(Backend{"tls", MakeTlsTuned, "127.0.0.1:0",
                                                   "127.0.0.1:1"}));
INSTANTIATE_TEST_SUITE_P(TlsNewKeys, TransportConformance,
                         ::testing::Values(Backend{"tls", MakeTlsRestless, "127.0.0.1:0",
                                                   "127.0.0.1:1"}));

// Stands between a client and a server: hands all bytes on, keeps those of the client, and changes
// one of these when told to.
class Relay {
 public:
  explicit Relay(uint16_t target) : target_(target), thread_([this] { Run(); }) {}
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() {
    listener_.Stop();
    thread_.join();
  }

  std::string Address() const { return listener_.Address(); }
  void ChangeAByte() { change_ = true; }
  std::string Said() {
    std::scoped_lock lock(mutex_);
    return said_;
  }

 private:
  // Runs until either side ends the connection.
  void Run() {
    RawSocket client = listener_.Accept();
    if (client.descriptor() < 0) return;
    RawSocket server(target_);
    pollfd ends[2] = {{client.descriptor(), POLLIN, 0}, {server.descriptor(), POLLIN, 0}};
    bool open = true;
    while (open && poll(ends, 2, -1) > 0) {
      for (int i : {0, 1}) {
        if (ends[i].revents != 0) open = open && HandOn(ends[i].fd, ends[1 - i].fd, i == 0);
      }
    }
  }

  bool HandOn(int from, int to, bool client) {
    std::vector<char> bytes(65536);
    ssize_t count = recv(from, bytes.data(), bytes.size(), 0);
    if (count <= 0) return false;
    bytes.resize(static_cast<size_t>(count));
    if (client) {
      std::scoped_lock lock(mutex_);
      said_.append(bytes.data(), bytes.size());
      if (change_.exchange(false)) bytes.back() ^= 1;
    }
    return send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL) == count;
  }

  const uint16_t target_;
  RawListener listener_;
  std::atomic<bool> change_ = false;
  std::mutex mutex_;
  std::string said_;
  std::thread thread_;
};

class TlsTest : public ::testing::Test {
 protected:
  ~TlsTest() override {
    if (server_ != nullptr) {
      server_->Do([&] { listener_.reset(); });
    }
  }

  void Serve(std::unique_ptr<Transport> transport) {
    server_transport_ = std::move(transport);
    server_ = std::make_unique<LoopThread>(*server_transport_);
    auto listener = server_->Do([&] {
      return server_->loop().Listen("127.0.0.1:0", [this](std::unique_ptr<Connection> connection) {
        End& end = accepted_.emplace_back(*server_);
        end.connection() = std::move(connection);
        end.connection()->SetLimits({kMegabyte});
        end.connection()->Start(&end.recorder());
      });
    });
    ASSERT_TRUE(listener.ok());
    listener_ = std::move(listener.value());
  }

  void Connect(std::unique_ptr<Transport> transport, const std::string& address) {
    client_.reset();
    client_thread_.reset();
    client_transport_ = std::move(transport);
    client_thread_ = std::make_unique<LoopThread>(*client_transport_);
    client_ = std::make_unique<End>(*client_thread_);
    std::promise<void> done;
    client_thread_->Do([&] {
      client_thread_->loop().Connect(address, kPatience, [&](auto result) {
        EXPECT_TRUE(result.ok());
        client_->connection() = std::move(result).value();
        done.set_value();
      });
    });
    ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
    client_->Start(kMegabyte);
  }

  // Returns the n-th connection that came.
  End& Accepted(size_t n = 0) {
    EXPECT_TRUE(server_->RunUntil([&] { return accepted_.size() > n; }));
    return *std::next(accepted_.begin(), static_cast<std::ptrdiff_t>(n));
  }

  static void ExpectRefused(End& end, const std::string& text) {
    ASSERT_TRUE(end.recorder().WaitForClosed());
    EXPECT_EQ(end.recorder().why().code(), StatusCode::kRefused);
    EXPECT_NE(end.recorder().why().message().find(text), std::string::npos)
        << end.recorder().why().message();
    EXPECT_EQ(end.recorder().frame_count(), 0u);
  }

  // Checks that the two ends cannot connect, and that both report the reason.
  void ExpectNoWay(std::unique_ptr<Transport> client, std::unique_ptr<Transport> server,
                   const std::string& text) {
    Serve(std::move(server));
    Connect(std::move(client), listener_->Address());
    client_->Send(1, "hello");
    ExpectRefused(*client_, text);
    ExpectRefused(Accepted(), text);
  }

  std::unique_ptr<Transport> server_transport_;
  std::unique_ptr<Transport> client_transport_;
  std::unique_ptr<LoopThread> server_;
  std::unique_ptr<LoopThread> client_thread_;
  std::unique_ptr<Listener> listener_;
  std::list<End> accepted_;  // filled on the server's thread
  std::unique_ptr<End> client_;
};

TEST_F(TlsTest, AnotherKeyIsRefused) {
  TlsKey other = kKey;
  other.bytes[31] = std::byte{1};
  ExpectNoWay(MakeTls(other), MakeTls(kKey), "BYTEPS_JOB_SECRET");
}

TEST_F(TlsTest, AnotherNameOfTheKeyIsRefused) {
  ExpectNoWay(MakeTls({"another job", kKey.bytes}), MakeTls(kKey), "BYTEPS_JOB_ID");
}

TEST_F(TlsTest, APlainClientAndAServerWithTlsSayWhatIsWrong) {
  ExpectNoWay(MakeTcpTransport({}), MakeTls(kKey), "BYTEPS_TLS");
}

TEST_F(TlsTest, AClientWithTlsAndAPlainServerSayWhatIsWrong) {
  ExpectNoWay(MakeTls(kKey), MakeTcpTransport({}), "BYTEPS_TLS");
}

TEST_F(TlsTest, AByteThatIsChangedOnTheWayEndsTheConnection) {
  Serve(MakeTls(kKey));
  Relay relay(listener_->Port());
  Connect(MakeTls(kKey), relay.Address());
  client_->Send(1, "before");
  ASSERT_TRUE(Accepted().recorder().WaitForFrames(1));
  relay.ChangeAByte();
  const std::vector<std::byte> payload = Bytes(100000, 1);
  client_->Send(2, "changed", payload);
  client_->Send(2, "behind");
  ASSERT_TRUE(Accepted().recorder().WaitForClosed());
  EXPECT_EQ(Accepted().recorder().why().code(), StatusCode::kPeerLost);
  EXPECT_NE(Accepted().recorder().why().message().find("changed on its way"), std::string::npos)
      << Accepted().recorder().why().message();
  EXPECT_EQ(Accepted().recorder().frame_count(), 1u);
  ASSERT_TRUE(client_->recorder().WaitForClosed());
  EXPECT_EQ(client_->recorder().why().code(), StatusCode::kPeerLost);
  client_->Destroy();
}

TEST_F(TlsTest, WhoListensReadsNothing) {
  Serve(MakeTls(kKey));
  Relay relay(listener_->Port());
  Connect(MakeTls(kKey), relay.Address());
  const std::string secret = "what nobody else may read";
  const auto* bytes = reinterpret_cast<const std::byte*>(secret.data());
  const std::vector<std::byte> payload(bytes, bytes + secret.size());
  client_->Send(1, secret, payload);
  ASSERT_TRUE(Accepted().recorder().WaitForFrames(1));
  EXPECT_GT(relay.Said().size(), 2 * secret.size());
  EXPECT_EQ(relay.Said().find(secret), std::string::npos);
  client_->Destroy();
}

TEST_F(TlsTest, WhatWasSaidOnceIsNotBelievedTwice) {
  Serve(MakeTls(kKey));
  std::string said;
  {
    Relay relay(listener_->Port());
    Connect(MakeTls(kKey), relay.Address());
    client_->Send(1, "once");
    ASSERT_TRUE(Accepted().recorder().WaitForFrames(1));
    said = relay.Said();
    client_->Destroy();
  }
  RawSocket again(listener_->Port());
  again.Write(said);
  again.ReadToTheEnd();
  ASSERT_TRUE(Accepted(1).recorder().WaitForClosed());
  EXPECT_EQ(Accepted(1).recorder().frame_count(), 0u);
}

TEST_F(TlsTest, ABindingIsTheSameAtBothEndsAndOnNoOtherConnection) {
  Serve(MakeTls(kKey));
  std::vector<std::vector<std::byte>> seen;
  for (size_t n : {0, 1}) {
    Connect(MakeTls(kKey), listener_->Address());
    client_->Send(1, "hello");
    ASSERT_TRUE(Accepted(n).recorder().WaitForFrames(1));
    auto binding = [](End& end) {
      return end.thread().Do([&] {
        ConstByteSpan bytes = end.connection()->ChannelBinding();
        return std::vector<std::byte>(bytes.begin(), bytes.end());
      });
    };
    seen.push_back(binding(*client_));
    EXPECT_EQ(seen.back().size(), 32u);
    EXPECT_EQ(seen.back(), binding(Accepted(n)));
  }
  EXPECT_NE(seen[0], seen[1]);
}

TEST_F(TlsTest, HostileBytesEndTheirConnectionOnly) {
  Serve(MakeTls(kKey));
  Connect(MakeTls(kKey), listener_->Address());
  client_->Send(1, "before");
  ASSERT_TRUE(Accepted().recorder().WaitForFrames(1));
  std::mt19937_64 random(1);
  std::vector<std::string> hostile;
  for (size_t size : {5, 50, 500, 50000}) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    hostile.push_back(bytes);
    // The bytes come as a record of a handshake, an alert, data, and as one that is longer than
    // allowed.
    for (std::string_view begin : {"\x16\x03\x01", "\x15\x03\x03", "\x17\x03\x03"}) {
      hostile.push_back(std::string(begin) + bytes);
    }
  }
  hostile.push_back("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n");
  hostile.push_back(std::string("\x16\x03\x01\xff\xff", 5) + std::string(70000, 'x'));
  for (const std::string& bytes : hostile) {
    RawSocket stranger(listener_->Port());
    stranger.Write(bytes);
    stranger.EndWrites();
    stranger.ReadToTheEnd();
  }
  for (size_t n = 1; n <= hostile.size(); ++n) {
    ASSERT_TRUE(Accepted(n).recorder().WaitForClosed());
    EXPECT_EQ(Accepted(n).recorder().frame_count(), 0u);
  }
  client_->Send(1, "after");
  EXPECT_TRUE(Accepted().recorder().WaitForFrames(2));
}

// A process may have up to a thousand such peers at a time.
TEST_F(TlsTest, APeerThatHasProvedNothingGetsLittleMemory) {
  constexpr size_t kStrangers = 50;
  Serve(MakeTls(kKey));
  {
    RawSocket first(listener_->Port());
  }  // the state that all connections share is made for it
  ASSERT_TRUE(Accepted(0).recorder().WaitForClosed());
  size_t before = mallinfo2().uordblks;
  std::list<RawSocket> strangers;
  for (size_t n = 1; n <= kStrangers; ++n) {
    strangers.emplace_back(listener_->Port()).Write("\x16\x03\x01");
    Accepted(n);
  }
  EXPECT_LT((mallinfo2().uordblks - before) / kStrangers, size_t{128} * 1024);
}

// Each transport has objects of OpenSSL, of which a process has a limited number.
TEST_F(TlsTest, AProcessMayMakeManyTransports) {
  for (int i = 0; i < 300; ++i) ASSERT_NE(MakeTls(kKey), nullptr);
}

// Uses OpenSSL on a plain blocking socket, with a certificate and without the key.
class TlsStranger {
 public:
  explicit TlsStranger(bool with_certificate) {
    SSL_CTX* context = SSL_CTX_new(TLS_method());
    if (with_certificate) {
      EVP_PKEY* key = EVP_EC_gen("P-256");
      X509* certificate = X509_new();
      X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
      X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
      X509_set_pubkey(certificate, key);
      X509_sign(certificate, key, EVP_sha256());
      EXPECT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
      EXPECT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);
      X509_free(certificate);
      EVP_PKEY_free(key);
    }
    ssl_ = SSL_new(context);
    SSL_CTX_free(context);
  }
  TlsStranger(const TlsStranger&) = delete;
  TlsStranger& operator=(const TlsStranger&) = delete;
  ~TlsStranger() { SSL_free(ssl_); }

  // Returns whether the handshake succeeds.
  bool ConnectOn(int socket) {
    SSL_set_fd(ssl_, socket);
    char byte;
    // In TLS 1.3 a client is through before the server has looked at the client's last message.
    return SSL_connect(ssl_) == 1 && SSL_read(ssl_, &byte, 1) == 1;
  }
  bool AcceptOn(int socket) {
    SSL_set_fd(ssl_, socket);
    return SSL_accept(ssl_) == 1;
  }

 private:
  SSL* ssl_;
};

TEST_F(TlsTest, AClientWithACertificateIsRefused) {
  Serve(MakeTls(kKey));
  for (bool with_certificate : {false, true}) {
    RawSocket socket(listener_->Port());
    EXPECT_FALSE(TlsStranger(with_certificate).ConnectOn(socket.descriptor()));
  }
  for (size_t n : {0, 1}) ExpectRefused(Accepted(n), "key");
}

TEST_F(TlsTest, AServerWithACertificateIsRefused) {
  RawListener listener;
  Connect(MakeTls(kKey), listener.Address());
  RawSocket accepted = listener.Accept();
  EXPECT_FALSE(TlsStranger(true).AcceptOn(accepted.descriptor()));
  ExpectRefused(*client_, "key");
}

}  // namespace
}  // namespace byteps::transport
