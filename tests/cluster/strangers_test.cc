// Tests that strangers on the ports of a job change nothing.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/proof.h"
#include "src/runtime/handshakes.h"
#include "src/transport/transport.h"
#include "src/wire/frame_kind.h"
#include "src/wire/handshake.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

using wire::FrameKind;

// A program that speaks to a port without being a member of the job. Its waits end after kPatience.
class RawSocket {
 public:
  explicit RawSocket(const std::string& address)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in target{};
    target.sin_family = AF_INET;
    target.sin_port =
        htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval patience{60, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&target), sizeof(target)), 0);
  }
  RawSocket(RawSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawSocket& operator=(RawSocket&&) = delete;
  ~RawSocket() {
    if (fd_ >= 0) close(fd_);
  }

  void Write(ConstByteSpan bytes) {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void WriteFrame(FrameKind kind, ConstByteSpan payload) {
    Bytes bytes(transport::kFramePrefixBytes);
    for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<std::byte>(payload.size() >> (8 * i));
    bytes[6] = static_cast<std::byte>(kind);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    Write(bytes);
  }
  // Returns the payload of the next frame if the frame is of this kind; else nothing.
  Bytes ReadFrame(FrameKind kind) {
    Bytes prefix = Read(transport::kFramePrefixBytes);
    if (prefix.size() < 8 || prefix[6] != static_cast<std::byte>(kind)) return {};
    size_t size = std::to_integer<size_t>(prefix[0]) | std::to_integer<size_t>(prefix[1]) << 8;
    return Read(size);
  }
  std::optional<wire::Welcome> ReadWelcome() {
    Result<wire::Welcome> welcome = wire::DecodeWelcome(ReadFrame(FrameKind::kWelcome));
    if (!welcome.ok()) return {};
    return welcome.value();
  }
  // Sends the hello. Returns the proof that knows this secret, for the challenge that comes.
  ProofBytes Challenge(const wire::Hello& hello, const std::string& secret) {
    Bytes bytes = wire::EncodeHello(hello);
    WriteFrame(FrameKind::kHello, bytes);
    return Proof(secret, "byteps initiator", bytes, ReadFrame(FrameKind::kChallenge));
  }
  // Returns whether the other side ends the connection, by a close or a reset.
  bool SeesTheEnd() {
    char byte;
    ssize_t count = recv(fd_, &byte, 1, 0);
    return count == 0 || (count < 0 && errno == ECONNRESET);
  }

 private:
  Bytes Read(size_t size) {
    Bytes bytes(size);
    ssize_t count = recv(fd_, bytes.data(), size, MSG_WAITALL);
    bytes.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return bytes;
  }

  int fd_;
};

class Strangers : public ::testing::Test {
 protected:
  Strangers() : cluster_(Size()) {}

  static ClusterOptions Size() {
    ClusterOptions options;
    options.servers = 1;
    options.shards = 2;
    return options;
  }

  void SetUp() override { ASSERT_TRUE(cluster_.StartServices().ok()); }

  std::vector<std::string> Ports() {
    return {cluster_.coordinator_address(), cluster_.server_address(0)};
  }

  wire::Hello Hello(const std::string& port) {
    wire::Hello hello;
    hello.job = cluster_.identity().job;
    hello.wanted_role = port == cluster_.coordinator_address() ? Role::kCoordinator : Role::kServer;
    return hello;
  }

  void ExpectRefusal(const std::string& port, const wire::Hello& hello, const std::string& text) {
    RawSocket stranger(port);
    stranger.WriteFrame(FrameKind::kHello, wire::EncodeHello(hello));
    ExpectRefused(stranger, text);
  }

  void ExpectRefused(RawSocket& stranger, const std::string& text) {
    std::optional<wire::Welcome> welcome = stranger.ReadWelcome();
    ASSERT_TRUE(welcome.has_value());
    EXPECT_EQ(welcome->code, StatusCode::kRefused);
    EXPECT_NE(welcome->text.find(text), std::string::npos) << welcome->text;
    EXPECT_EQ(welcome->proof, ProofBytes());  // a refused process learns nothing
    EXPECT_TRUE(stranger.SeesTheEnd());
  }

  // Expects that the job starts, if it has not, and works.
  void ExpectTheJobWorks() {
    if (!std::exchange(started_, true)) {
      ASSERT_TRUE(cluster_.StartWorkers().ok());
    }
    std::vector<Bytes> data(2, Encode(DataType::kFloat32, std::vector<double>(30000, 1)));
    TicketRef a = cluster_.Submit(0, SumOf("w", data[0]));
    TicketRef b = cluster_.Submit(1, SumOf("w", data[1]));
    ASSERT_TRUE(a->WaitStatus().ok());
    ASSERT_TRUE(b->WaitStatus().ok());
    EXPECT_EQ(data[0], Encode(DataType::kFloat32, std::vector<double>(30000, 2)));
  }

  Cluster cluster_;
  bool started_ = false;
};

TEST_F(Strangers, SilenceAndGarbageChangeNothing) {
  std::vector<RawSocket> silent;
  for (int phase = 0; phase < 2; ++phase) {  // while the job gathers, and while it runs
    for (const std::string& port : Ports()) {
      for (int i = 0; i < 20; ++i) silent.emplace_back(port);
      for (uint64_t seed = 0; seed < 20; ++seed) {
        RawSocket stranger(port);
        stranger.Write(RandomBits(100 + 50 * seed, seed));
        RawSocket half(port);
        half.Write(RandomBits(3, seed));
      }
      RawSocket browser(port);
      std::string request = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
      browser.Write(std::as_bytes(std::span(request)));
      EXPECT_TRUE(browser.SeesTheEnd());
      RawSocket early(port);
      early.WriteFrame(FrameKind::kPush, RandomBits(100, 1));
      EXPECT_TRUE(early.SeesTheEnd());
      RawSocket large(port);
      large.WriteFrame(FrameKind::kHello, RandomBits(wire::kHandshakeBytesMax + 1, 1));
      EXPECT_TRUE(large.SeesTheEnd());
      RawSocket torn(port);
      torn.WriteFrame(FrameKind::kHello, RandomBits(40, 1));
      EXPECT_TRUE(torn.SeesTheEnd());
    }
    ExpectTheJobWorks();
  }
  cluster_.LeaveInOrder();
}

TEST_F(Strangers, WhoMeansSomethingElseIsToldAndGone) {
  for (int phase = 0; phase < 2; ++phase) {
    for (const std::string& port : Ports()) {
      wire::Hello hello = Hello(port);
      hello.job = "another job";
      ExpectRefusal(port, hello, "another job");
      hello = Hello(port);
      hello.version = 77;
      ExpectRefusal(port, hello, "77");
    }
    ExpectTheJobWorks();
  }
  cluster_.LeaveInOrder();
}

// The hello is right, but the proof is made up, or belongs to another secret or another hello.
TEST_F(Strangers, WithoutTheSecretNobodyGetsIn) {
  for (int phase = 0; phase < 2; ++phase) {
    for (const std::string& port : Ports()) {
      ProofBytes used{};
      for (const std::string& secret : {std::string("guessed"), cluster_.identity().secret}) {
        RawSocket stranger(port);
        ProofBytes proof = stranger.Challenge(Hello(port), secret);
        if (secret == "guessed") used = proof;
        stranger.WriteFrame(FrameKind::kProof, secret == "guessed" ? proof : used);
        ExpectRefused(stranger, "does not know the secret");
      }
    }
    ExpectTheJobWorks();
  }
  cluster_.LeaveInOrder();
}

// The job ignores an unproven hello, whatever view and place the hello claims.
TEST_F(Strangers, AHelloWithoutProofLeavesNothing) {
  std::vector<RawSocket> waiting;
  for (int phase = 0; phase < 2; ++phase) {
    for (const std::string& port : Ports()) {
      wire::Hello hello = Hello(port);
      hello.index = 0;
      hello.generation = UINT32_MAX;
      for (uint64_t incarnation : {kFirstWorkerProcess, kFirstServerProcess}) {
        hello.incarnation = incarnation;
        RawSocket silent(port);
        EXPECT_EQ(silent.Challenge(hello, "guessed").size(), ProofBytes().size());
        waiting.push_back(std::move(silent));
        RawSocket stranger(port);
        stranger.WriteFrame(FrameKind::kProof, stranger.Challenge(hello, "guessed"));
        ExpectRefused(stranger, "does not know the secret");
      }
    }
    ExpectTheJobWorks();
  }
  cluster_.LeaveInOrder();
}

// A process that knows the secret and means another process is told so, and that answer is proven.
TEST_F(Strangers, WhoKnowsTheSecretIsToldWhatDoesNotFit) {
  ExpectTheJobWorks();
  for (const std::string& port : Ports()) {
    wire::Hello hello = Hello(port);
    hello.wanted_role = hello.wanted_role == Role::kServer ? Role::kCoordinator : Role::kServer;
    RawSocket member(port);
    member.WriteFrame(FrameKind::kProof, member.Challenge(hello, cluster_.identity().secret));
    std::optional<wire::Welcome> welcome = member.ReadWelcome();
    ASSERT_TRUE(welcome.has_value());
    EXPECT_EQ(welcome->code, StatusCode::kRefused);
    EXPECT_NE(welcome->text.find("this is"), std::string::npos) << welcome->text;
    EXPECT_NE(welcome->proof, ProofBytes());
    EXPECT_TRUE(member.SeesTheEnd());
  }
  cluster_.LeaveInOrder();
}

// Under TLS strangers do not even get as far as a hello, whatever they say.
TEST(StrangersUnderTls, ChangeNothing) {
  ClusterOptions options;
  options.medium = Medium::kTls;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.StartServices().ok());
  wire::Hello hello;
  hello.job = cluster.identity().job;
  std::vector<RawSocket> silent;
  for (const std::string& port : {cluster.coordinator_address(), cluster.server_address(0)}) {
    for (int i = 0; i < 20; ++i) silent.emplace_back(port);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      RawSocket stranger(port);
      stranger.Write(RandomBits(100 + 50 * seed, seed));
    }
    RawSocket plain(port);
    plain.WriteFrame(FrameKind::kHello, wire::EncodeHello(hello));
    EXPECT_TRUE(plain.ReadFrame(FrameKind::kChallenge).empty());
    EXPECT_TRUE(plain.SeesTheEnd());
  }
  ASSERT_TRUE(cluster.StartWorkers().ok());
  std::vector<Bytes> data(2, Encode(DataType::kFloat32, std::vector<double>(30000, 1)));
  TicketRef a = cluster.Submit(0, SumOf("w", data[0]));
  TicketRef b = cluster.Submit(1, SumOf("w", data[1]));
  ASSERT_TRUE(a->WaitStatus().ok());
  ASSERT_TRUE(b->WaitStatus().ok());
  EXPECT_EQ(data[0], Encode(DataType::kFloat32, std::vector<double>(30000, 2)));
  cluster.LeaveInOrder();
}

// Strangers make room for each other, and for members. No member has to wait until they are gone.
TEST_F(Strangers, ManyWhoSayNothingMakeRoom) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  size_t allowed = runtime::UnprovenMax();
  if (before.rlim_cur < 3 * allowed + 200) GTEST_SKIP() << "needs more descriptors: ulimit -n";
  for (int phase = 0; phase < 2; ++phase) {
    const std::string& port = cluster_.coordinator_address();
    std::vector<RawSocket> silent;
    for (size_t i = 0; i < allowed + 10; ++i) silent.emplace_back(port);
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(silent[static_cast<size_t>(i)].SeesTheEnd());
    ExpectTheJobWorks();
  }
  cluster_.LeaveInOrder();
}

}  // namespace
}  // namespace byteps::cluster
