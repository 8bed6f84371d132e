#include "src/machine/room/word_line.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace byteps::machine {
namespace {

std::vector<std::byte> PacketOf(size_t bytes) {
  std::vector<std::byte> packet(bytes);
  for (size_t i = 0; i < bytes; ++i) packet[i] = static_cast<std::byte>(i % 251);
  return packet;
}

class WordLineTest : public testing::Test {
 protected:
  std::optional<std::vector<std::byte>> Next() {
    auto packet = second.Receive(wake);
    EXPECT_TRUE(packet.ok()) << packet.status().ToString();
    return packet.ok() ? std::move(packet).value() : std::nullopt;
  }

  std::unique_ptr<WordRing> there = std::make_unique<WordRing>();
  std::unique_ptr<WordRing> back = std::make_unique<WordRing>();
  WordLine first{*there, *back};
  WordLine second{*back, *there};
  bool wake = false;
};

TEST_F(WordLineTest, PacketsKeepTheirBordersAndOrder) {
  for (size_t bytes : {5, 0, 1, 300}) first.Send(PacketOf(bytes));
  EXPECT_FALSE(Next().has_value()) << "nothing was flushed";
  EXPECT_TRUE(first.Flush());
  for (size_t bytes : {5, 0, 1, 300}) EXPECT_EQ(Next(), PacketOf(bytes));
  EXPECT_FALSE(Next().has_value());
  EXPECT_TRUE(first.IsFlushed());
}

TEST_F(WordLineTest, APacketMayBeLargerThanTheRing) {
  const std::vector<std::byte> large = PacketOf(5 * kWordRingBytes + 3);
  first.Send(large);
  first.Send(PacketOf(2));
  int turns = 0;
  std::optional<std::vector<std::byte>> got;
  while (!got.has_value()) {
    EXPECT_TRUE(first.Flush());
    got = Next();
    ASSERT_LT(++turns, 10);
  }
  EXPECT_EQ(got, large);
  EXPECT_TRUE(wake) << "the other end waited for room";
  first.Flush();
  EXPECT_EQ(Next(), PacketOf(2));
}

TEST_F(WordLineTest, ALengthThatNoPacketHasIsAnError) {
  const std::vector<std::byte> nonsense(4, std::byte{255});
  local::RingWriter(&there->words, there->bytes).WriteSome(nonsense);
  EXPECT_EQ(second.Receive(wake).status().code(), StatusCode::kProtocol);
}

TEST_F(WordLineTest, APositionThatCannotBeIsAnError) {
  first.Send(PacketOf(5));
  first.Flush();
  there->words.written = 2 * kWordRingBytes;
  EXPECT_EQ(second.Receive(wake).status().code(), StatusCode::kProtocol);
}

}  // namespace
}  // namespace byteps::machine
