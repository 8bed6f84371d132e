#include "src/machine/room/byte_ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace byteps::machine {
namespace {

class ByteRingTest : public testing::Test {
 protected:
  std::unique_ptr<RingWords> words = std::make_unique<RingWords>();
  ByteRing writer{*words};
  ByteRing reader{*words};
  bool wake = false;
};

TEST_F(ByteRingTest, GivesWhatWasPutInItsOrder) {
  std::vector<std::byte> in = {std::byte{1}, std::byte{2}, std::byte{3}};
  EXPECT_EQ(writer.Write(in), 3u);
  std::vector<std::byte> out(10);
  EXPECT_EQ(reader.Read(out, wake), 3u);
  EXPECT_EQ(out[2], std::byte{3});
  EXPECT_EQ(reader.Read(out, wake), 0u);
  EXPECT_FALSE(wake) << "nobody waits for room";
}

TEST_F(ByteRingTest, TakesNoMoreThanItHoldsAndSaysWhenThereIsRoom) {
  std::vector<std::byte> much(kRingBytes + 100, std::byte{7});
  EXPECT_EQ(writer.Write(much), kRingBytes);
  EXPECT_EQ(writer.Write(much), 0u);
  std::vector<std::byte> out(10);
  EXPECT_EQ(reader.Read(out, wake), 10u);
  EXPECT_TRUE(wake);
  wake = false;
  EXPECT_EQ(reader.Read(out, wake), 10u);
  EXPECT_FALSE(wake) << "it was said";
  EXPECT_EQ(writer.Write(much), 20u);
}

TEST_F(ByteRingTest, NonsenseOfTheOtherEndTouchesNothingElse) {
  words->read.store(100);
  EXPECT_EQ(writer.Write(std::vector<std::byte>(10)), 0u);
  words->written.store(uint64_t{1} << 60);
  std::vector<std::byte> out(2 * kRingBytes);
  EXPECT_LE(reader.Read(out, wake), kRingBytes);
}

TEST_F(ByteRingTest, TwoThreadsPassManyBytes) {
  constexpr size_t kBytes = size_t{3} << 20;
  std::thread other([&] {
    std::mt19937 random(1);
    size_t done = 0;
    while (done < kBytes) {
      std::vector<std::byte> part(std::min<size_t>(kBytes - done, random() % 50000));
      for (size_t i = 0; i < part.size(); ++i) part[i] = static_cast<std::byte>((done + i) % 251);
      done += writer.Write(part);
    }
  });
  std::mt19937 random(2);
  size_t done = 0;
  bool right = true;
  while (done < kBytes) {
    std::vector<std::byte> room(random() % 50000);
    size_t count = reader.Read(room, wake);
    for (size_t i = 0; i < count; ++i) {
      right = right && room[i] == static_cast<std::byte>((done + i) % 251);
    }
    done += count;
  }
  other.join();
  EXPECT_TRUE(right);
}

}  // namespace
}  // namespace byteps::machine
