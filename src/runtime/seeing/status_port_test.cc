// Tests that the status port answers guests that ask and guests that say nothing, and takes no harm
// from the rest.
#include "src/runtime/seeing/status_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace byteps::runtime {
namespace {

class StatusPortTest : public testing::Test {
 protected:
  StatusPortTest() {
    Result<std::unique_ptr<StatusPort>> started =
        StatusPort::Start({"127.0.0.1:0", true}, [this](const std::string& path) {
          ++looks;
          using Answer = StatusPort::Answer;
          Answer answer = Answer::kFound;
          if (path == "/none") answer = Answer::kNotFound;
          if (path == "/still") answer = Answer::kNoAnswer;
          return StatusPort::Content{answer, "text/plain", "page of " + path + "\n"};
        });
    EXPECT_TRUE(started.ok()) << started.status().ToString();
    if (started.ok()) port = std::move(started).value();
  }

  int Connect() const {
    int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    Knock(socket);
    return socket;
  }
  void Knock(int socket) const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string text = port->address();
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(text.substr(text.rfind(':') + 1))));
    timeval patience{60, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  static std::string ReadAll(int socket) {
    std::string text;
    char bytes[4096];
    ssize_t count = 0;
    while ((count = ::recv(socket, bytes, sizeof(bytes), 0)) > 0) {
      text.append(bytes, static_cast<size_t>(count));
    }
    EXPECT_FALSE(count < 0 && errno == EAGAIN) << "it is neither answered nor closed";
    ::close(socket);
    return text;
  }
  // Says these parts on a new connection, and returns the answer. The port gives the page to who
  // says nothing for a moment, so a test that was late begins again.
  std::string Say(const std::function<int()>& connect, const std::vector<std::string>& parts) {
    constexpr int kTriesMax = 20;
    for (int tries = 1;; ++tries) {
      const int seen = looks;
      const auto begun = std::chrono::steady_clock::now();
      const int socket = connect();
      for (const std::string& part : parts) {
        static_cast<void>(::send(socket, part.data(), part.size(), MSG_NOSIGNAL));
      }
      const auto took = std::chrono::steady_clock::now() - begun;
      std::string answer = ReadAll(socket);
      if (took < StatusPort::kAskLimit || tries == kTriesMax) return answer;
      looks = seen;
    }
  }
  std::string Ask(const std::string& request) {
    return Say([this] { return Connect(); }, {request});
  }

  std::atomic<int> looks = 0;
  std::unique_ptr<StatusPort> port;
};

TEST_F(StatusPortTest, WhoSaysNothingGetsThePage) {
  EXPECT_EQ(ReadAll(Connect()), "page of /\n");
  int socket = Connect();
  ::shutdown(socket, SHUT_WR);
  EXPECT_EQ(ReadAll(socket), "page of /\n");
  EXPECT_EQ(Ask("\n"), "page of /\n");
}

TEST_F(StatusPortTest, ItSpeaksHttp) {
  const std::string answer = Ask("GET /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_NE(answer.find("Content-Length: 17\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\npage of /metrics\n")) << answer;
  EXPECT_TRUE(Ask("GET /none HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_TRUE(Ask("GET /still HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 503 Service Unavail"));
}

TEST_F(StatusPortTest, ARequestMayComeInParts) {
  const std::string answer =
      Say([this] { return Connect(); }, {"GET /a", "bc HTTP/1.1\r\n", "\r\n"});
  EXPECT_TRUE(answer.ends_with("page of /abc\n")) << answer;
}

// A page of a browser on this machine can bind a name of its own to 127.0.0.1.
TEST_F(StatusPortTest, AForeignHostGetsNothing) {
  const auto of = [this](const std::string& host) {
    return Ask("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  for (const char* foreign : {"evil.example", "evil.example:80", "127.0.0.1.evil.example"}) {
    const std::string answer = of(foreign);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 403 Forbidden\r\n")) << answer;
    EXPECT_EQ(answer.find("page of"), std::string::npos) << answer;
  }
  EXPECT_EQ(looks, 0);
  char own[256] = "";
  ASSERT_EQ(::gethostname(own, sizeof(own) - 1), 0);
  for (const std::string& known :
       {port->address(), std::string("localhost:1"), std::string("[::1]"), std::string("10.0.0.1"),
        std::string(own)}) {
    EXPECT_TRUE(of(known).ends_with("page of /\n")) << known;
  }
}

// The port answers other requests without a page: a browser also reads an answer that is not HTTP.
TEST_F(StatusPortTest, OtherMethodsAndRequestsWithoutEndGetNothing) {
  EXPECT_TRUE(Ask("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 405 "));
  EXPECT_TRUE(Ask("POST / HTTP/1.1\r\nHost: evil.example\r\n\r\n").starts_with("HTTP/1.1 403 "));
  EXPECT_TRUE(Ask("GET / HTTP/1.1\r\n").starts_with("HTTP/1.1 408 "));
  EXPECT_EQ(looks, 0);
}

// Browsers send the cookies of all programs that have used this host.
TEST_F(StatusPortTest, LongHeadersAreReadAndDropped) {
  const auto with = [this](size_t bytes) {
    return Ask("GET /a HTTP/1.1\r\nCookie: " + std::string(bytes, 'c') +
               "\r\nHost: localhost\r\n\r\n");
  };
  EXPECT_TRUE(with(16 << 10).ends_with("page of /a\n"));
  EXPECT_TRUE(with(2 * StatusRequest::kBytesMax).starts_with("HTTP/1.1 431 "));
}

double CpuSeconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// Without a pause the port would use a whole processor.
TEST_F(StatusPortTest, WithoutADescriptorForWhoKnocksItDoesNotSpin) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const rlimit none = {static_cast<rlim_t>(socket) + 1, before.rlim_max};
  std::vector<int> between;  // descriptors below that may be free
  for (int one = ::dup(socket); one >= 0 && one < socket; one = ::dup(socket)) {
    between.push_back(one);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  Knock(socket);
  constexpr double kWindow = 0.5;
  const double cpu = CpuSeconds();
  char byte;
  timeval patience{0, static_cast<suseconds_t>(kWindow * 1e6)};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  EXPECT_LT(::recv(socket, &byte, 1, 0), 0) << "it was let in";
  EXPECT_LT(CpuSeconds() - cpu, kWindow / 25);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  for (int one : between) ::close(one);
  patience = {60, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  EXPECT_EQ(ReadAll(socket), "page of /\n");
}

TEST_F(StatusPortTest, HostileBytesChangeNothing) {
  std::mt19937 random(7);
  for (int i = 0; i < 20; ++i) {
    std::string bytes(random() % 9000, '\0');
    for (char& one : bytes) one = static_cast<char>(random());
    const std::string answer = Ask(i % 2 == 0 ? bytes : "GET " + bytes);
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 ") || answer.starts_with("page of "))
        << answer;
  }
  EXPECT_EQ(ReadAll(Connect()), "page of /\n");
}

TEST_F(StatusPortTest, AFullHouseEmptiesItself) {
  std::vector<int> sockets;
  for (size_t i = 0; i < 3 * StatusPort::kConnectionsMax; ++i) sockets.push_back(Connect());
  for (int socket : sockets) {
    const std::string answer = ReadAll(socket);
    EXPECT_TRUE(answer.empty() || answer == "page of /\n") << answer;
  }
  EXPECT_LE(looks, static_cast<int>(3 * StatusPort::kConnectionsMax));
  EXPECT_EQ(ReadAll(Connect()), "page of /\n");
}

TEST_F(StatusPortTest, ItEndsBesideWhoeverIsConnected) {
  int socket = Connect();
  port.reset();
  const std::string answer = ReadAll(socket);
  EXPECT_TRUE(answer.empty() || answer == "page of /\n") << answer;
}

TEST_F(StatusPortTest, APortThatIsTakenIsNamed) {
  Result<std::unique_ptr<StatusPort>> second = StatusPort::Start(
      {port->address(), false}, [](const std::string&) { return StatusPort::Content{}; });
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find("BYTEPS_STATUS_PORT"), std::string::npos);
}

// Connects to a local socket; -1: nobody listens there.
int KnockLocally(const std::string& name) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  timeval patience{60, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0) return socket;
  ::close(socket);
  return -1;
}

TEST_F(StatusPortTest, ItsOwnUserAsksALocalSocket) {
  const std::string name = port->local_name();
  EXPECT_EQ(name, "byteps-status-" + std::to_string(::geteuid()) + "-" +
                      std::to_string(::getpid()) + "-0");
  const std::string request = "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string answer = Say([&] { return KnockLocally(name); }, {request});
  EXPECT_TRUE(answer.ends_with("\r\n\r\npage of /status.json\n")) << answer;
  EXPECT_EQ(ReadAll(KnockLocally(name)), "page of /\n") << "as nc asks";
  port.reset();
  EXPECT_EQ(KnockLocally(name), -1);
}

TEST_F(StatusPortTest, EachPortOfAProcessHasALocalNameOfItsOwn) {
  auto look = [](const std::string&) { return StatusPort::Content{}; };
  Result<std::unique_ptr<StatusPort>> other = StatusPort::Start({"", true}, look);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other.value()->address(), "");
  EXPECT_TRUE(other.value()->local_name().ends_with("-1"));
  Result<std::unique_ptr<StatusPort>> none = StatusPort::Start({"", false}, look);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none.value(), nullptr);
}

TEST_F(StatusPortTest, GuestsOfThePortDoNotKeepTheOwnUserOut) {
  std::vector<int> silent;
  for (size_t i = 0; i < 2 * StatusPort::kConnectionsMax; ++i) silent.push_back(Connect());
  EXPECT_EQ(ReadAll(KnockLocally(port->local_name())), "page of /\n");
  for (int socket : silent) ::close(socket);
}

// Nobody asked for the local socket, so a job starts without it.
TEST(LocalStatusSocket, WithoutADescriptorThereIsNone) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(next);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next) + 1;  // for the socket; the eventfd gets none
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  auto look = [](const std::string&) { return StatusPort::Content{}; };
  Result<std::unique_ptr<StatusPort>> none = StatusPort::Start({"", true}, look);
  Result<std::unique_ptr<StatusPort>> wished = StatusPort::Start({"127.0.0.1:0", false}, look);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(none.ok()) << none.status().ToString();
  EXPECT_EQ(none.value(), nullptr);
  EXPECT_EQ(wished.status().code(), StatusCode::kUnavailable);
}

// A child that the program has forked holds the socket, too.
TEST_F(StatusPortTest, TheLocalSocketEndsWithThePortThoughAChildHoldsIt) {
  const std::string name = port->local_name();
  int wait[2];
  ASSERT_EQ(::pipe(wait), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte;
    ::close(wait[1]);
    while (::read(wait[0], &byte, 1) > 0) {
    }
    ::_exit(0);
  }
  port.reset();
  EXPECT_EQ(KnockLocally(name), -1);
  ::close(wait[0]);
  ::close(wait[1]);
  ::waitpid(child, nullptr, 0);
}

TEST_F(StatusPortTest, HeadGetsTheHeadersAlone) {
  const std::string answer = Ask("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_NE(answer.find("Content-Length: 17\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
  EXPECT_NE(Ask("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n").find("\r\nAllow: GET, HEAD\r\n"),
            std::string::npos);
}

}  // namespace
}  // namespace byteps::runtime
