#include "src/transport/tcp/peer_owner.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

namespace byteps::transport {
namespace {

constexpr uid_t kNobody = 65534;

// Runs `work` on a thread of another user; credentials belong to threads. Needs root.
template <typename Work>
void AsNobody(Work work) {
  std::thread([&] {
    ASSERT_EQ(syscall(SYS_setresuid, -1, kNobody, -1), 0);
    work();
  }).join();
}

struct Pair {
  Pair() = default;
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    for (int fd : {listener, accepted, connected}) {
      if (fd >= 0) close(fd);
    }
  }
  int listener = -1, accepted = -1, connected = -1;
};

sockaddr* Raw(sockaddr_in6* address) { return reinterpret_cast<sockaddr*>(address); }

// Listens on a port of all addresses of a family. Returns false if this machine has no address of
// the family.
bool Listen(Pair& pair, int family, sockaddr_in6& address) {
  pair.listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  address = {};
  address.sin6_family = static_cast<sa_family_t>(family);
  socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return pair.listener >= 0 && bind(pair.listener, Raw(&address), bytes) == 0 &&
         listen(pair.listener, 4) == 0 && getsockname(pair.listener, Raw(&address), &bytes) == 0;
}

// Connects a socket of `family` to the port, over the loopback address of the family.
void Connect(Pair& pair, int family, in_port_t port) {
  pair.connected = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(pair.connected, 0);
  sockaddr_in6 to{};
  to.sin6_family = static_cast<sa_family_t>(family);
  to.sin6_port = port;
  socklen_t bytes = sizeof(to);
  if (family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(to).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bytes = sizeof(sockaddr_in);
  } else {
    to.sin6_addr = in6addr_loopback;
  }
  ASSERT_EQ(connect(pair.connected, Raw(&to), bytes), 0);
}

// The families of the end that listens and of the one that connects.
struct Families {
  int listens, connects;
};

class PeerOwnerTest : public testing::TestWithParam<Families> {
 protected:
  void SetUp() override {
    if (!Listen(pair, GetParam().listens, address)) GTEST_SKIP() << "no addresses of this family";
  }
  void Accept() { pair.accepted = accept4(pair.listener, nullptr, nullptr, SOCK_CLOEXEC); }

  Pair pair;
  sockaddr_in6 address{};
};

TEST_P(PeerOwnerTest, BothEndsSeeTheUserOfTheOther) {
  Connect(pair, GetParam().connects, address.sin6_port);
  Accept();
  for (int fd : {pair.accepted, pair.connected}) {
    EXPECT_EQ(OwnerOfPeer(fd), geteuid());
    EXPECT_EQ(internal::OwnerByTable(fd), geteuid());
    EXPECT_TRUE(CheckSameUser(fd).ok()) << CheckSameUser(fd).message();
  }
}

TEST_P(PeerOwnerTest, AnotherUserIsSeenWhicheverEndItHas) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can pass for another user";
  AsNobody([&] { Connect(pair, GetParam().connects, address.sin6_port); });
  Accept();
  EXPECT_EQ(OwnerOfPeer(pair.accepted), kNobody);
  EXPECT_EQ(internal::OwnerByTable(pair.accepted), kNobody);
  const Status refused = CheckSameUser(pair.accepted);
  EXPECT_EQ(refused.code(), StatusCode::kRefused);
  EXPECT_NE(refused.message().find("user 65534"), std::string::npos) << refused.message();
  EXPECT_EQ(OwnerOfPeer(pair.connected), geteuid());
  AsNobody([&] { EXPECT_EQ(CheckSameUser(pair.connected).code(), StatusCode::kRefused); });
}

// The kernel says that root owns a socket that no process has any more.
TEST_P(PeerOwnerTest, AnEndThatHasClosedOrWasNotAcceptedHasNoOwner) {
  Connect(pair, GetParam().connects, address.sin6_port);
  EXPECT_EQ(OwnerOfPeer(pair.connected), std::nullopt);
  Accept();
  close(std::exchange(pair.connected, -1));
  EXPECT_EQ(OwnerOfPeer(pair.accepted), std::nullopt);
  EXPECT_EQ(CheckSameUser(pair.accepted).code(), StatusCode::kRefused);
}

std::string NameOf(const testing::TestParamInfo<Families>& families) {
  const auto name = [](int family) { return family == AF_INET ? "V4" : "V6"; };
  return std::string(name(families.param.connects)) + "To" + name(families.param.listens);
}

INSTANTIATE_TEST_SUITE_P(Families, PeerOwnerTest,
                         testing::Values(Families{AF_INET, AF_INET}, Families{AF_INET6, AF_INET6},
                                         Families{AF_INET6, AF_INET}),
                         NameOf);

TEST(PeerOwnerUnixTest, AUnixSocketSaysItItself) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  EXPECT_EQ(OwnerOfPeer(ends[0]), geteuid());
  EXPECT_TRUE(CheckSameUser(ends[1]).ok());
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace byteps::transport
