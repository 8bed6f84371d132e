#include "src/local/packet_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <vector>

namespace byteps::local {
namespace {

Time Soon() { return std::chrono::steady_clock::now() + seconds(20); }

class PacketSocketTest : public testing::Test {
 protected:
  PacketSocketTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    here_ = UniqueFd(ends[0]);
    there_ = UniqueFd(ends[1]);
  }

  UniqueFd here_;
  UniqueFd there_;
};

TEST_F(PacketSocketTest, KeepsTheBordersOfPackets) {
  const std::vector<std::byte> longest(kPacketBytesMax, std::byte{7});
  ASSERT_TRUE(SendPacket(here_, longest).ok());
  ASSERT_TRUE(SendPacket(here_, ConstByteSpan(longest.data(), 3)).ok());
  EXPECT_EQ(ReceivePacket(there_, Soon()).value().bytes, longest);
  EXPECT_EQ(ReceivePacket(there_, Soon()).value().bytes.size(), 3U);
}

TEST_F(PacketSocketTest, RefusesAPacketThatIsTooLong) {
  const std::vector<std::byte> longer(kPacketBytesMax + 1);
  ASSERT_TRUE(SendPacket(here_, longer).ok());
  EXPECT_EQ(ReceivePacket(there_, Soon()).status().code(), StatusCode::kProtocol);
}

TEST_F(PacketSocketTest, SaysThatTheOtherEndHasClosed) {
  here_ = UniqueFd();
  EXPECT_EQ(ReceivePacket(there_, Soon()).status().code(), StatusCode::kPeerLost);
}

}  // namespace
}  // namespace byteps::local
