// The status port answers those who ask and those who say nothing, and takes no harm from the rest.
#include "src/runtime/status_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>

namespace byteps::runtime {
namespace {

class StatusPortTest : public testing::Test {
 protected:
  StatusPortTest() {
    Result<std::unique_ptr<StatusPort>> started =
        StatusPort::Start("127.0.0.1:0", [this](const std::string& path) {
          ++looks;
          if (path == "/none") return StatusPort::Content{false, "text/plain", "none"};
          return StatusPort::Content{true, "text/plain", "page of " + path + "\n"};
        });
    EXPECT_TRUE(started.ok()) << started.status().ToString();
    if (started.ok()) port = std::move(started).value();
  }

  int Connect() const {
    int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string text = port->address();
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(text.substr(text.rfind(':') + 1))));
    timeval patience{60, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return socket;
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
  std::string Ask(const std::string& request) const {
    int socket = Connect();
    static_cast<void>(::send(socket, request.data(), request.size(), MSG_NOSIGNAL));
    return ReadAll(socket);
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
  const std::string answer = Ask("GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_NE(answer.find("Content-Length: 17\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\npage of /metrics\n")) << answer;
  EXPECT_TRUE(Ask("GET /none HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404 Not Found\r\n"));
}

TEST_F(StatusPortTest, ARequestMayComeInParts) {
  int socket = Connect();
  for (const char* part : {"GET /a", "bc HTTP/1.1\r\n", "\r\n"}) {
    ASSERT_GT(::send(socket, part, strlen(part), 0), 0);
  }
  EXPECT_TRUE(ReadAll(socket).ends_with("page of /abc\n"));
}

TEST_F(StatusPortTest, HostileBytesChangeNothing) {
  std::mt19937 random(7);
  for (int i = 0; i < 50; ++i) {
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
  Result<std::unique_ptr<StatusPort>> second =
      StatusPort::Start(port->address(), [](const std::string&) { return StatusPort::Content{}; });
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find("BYTEPS_STATUS_PORT"), std::string::npos);
}

}  // namespace
}  // namespace byteps::runtime
