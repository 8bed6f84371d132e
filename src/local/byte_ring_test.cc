#include "src/local/byte_ring.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <semaphore>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace byteps::local {
namespace {

constexpr size_t kBytes = 1000;
constexpr auto kWakePatience = std::chrono::seconds(60);

class ByteRingTest : public ::testing::Test {
 protected:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kBytes);
  RingWords words_{};
  RingWriter writer_{&words_, bytes_};
  RingReader reader_{&words_, bytes_};
  std::vector<std::byte> place_ = std::vector<std::byte>(2 * kBytes);
};

TEST_F(ByteRingTest, TakesAsMuchAsItHasRoomFor) {
  std::vector<std::byte> sent(2 * kBytes, std::byte{7});
  EXPECT_EQ(writer_.WriteSome(sent), kBytes);
  EXPECT_EQ(writer_.WriteSome(sent), 0u);
  EXPECT_TRUE(writer_.Wait());
  EXPECT_EQ(reader_.ReadSome(ByteSpan(place_).first(10)), 10u);
  EXPECT_EQ(writer_.WriteSome(sent), 10u);
  EXPECT_FALSE(writer_.broken() || reader_.broken());
}

TEST_F(ByteRingTest, AReaderThatWaitsIsWokenOnce) {
  std::byte one{1};
  EXPECT_EQ(writer_.WriteSome({&one, 1}), 1u);
  EXPECT_TRUE(writer_.TakeWake()) << "a reader that has not looked yet waits";
  EXPECT_FALSE(reader_.Wait()) << "something is there";
  EXPECT_EQ(writer_.WriteSome({&one, 1}), 1u);
  EXPECT_FALSE(writer_.TakeWake()) << "it looks again by itself";
  EXPECT_EQ(reader_.ReadSome(place_), 2u);
  EXPECT_TRUE(reader_.Wait());
  EXPECT_EQ(writer_.WriteSome({&one, 1}), 1u);
  EXPECT_TRUE(writer_.TakeWake());
  EXPECT_FALSE(writer_.TakeWake());
}

TEST_F(ByteRingTest, AWriterThatWaitsIsWokenWhenThereIsRoomThatIsWorthIt) {
  EXPECT_EQ(writer_.WriteSome(place_), kBytes);
  EXPECT_FALSE(reader_.TakeWake()) << "it does not wait";
  EXPECT_TRUE(writer_.Wait());
  EXPECT_EQ(reader_.ReadSome(ByteSpan(place_).first(10)), 10u);
  EXPECT_FALSE(reader_.TakeWake());
  EXPECT_EQ(reader_.ReadSome(ByteSpan(place_).first(kBytes / 2)), kBytes / 2);
  EXPECT_TRUE(reader_.TakeWake());
  EXPECT_FALSE(reader_.TakeWake());
  EXPECT_FALSE(writer_.Wait()) << "there is room";
}

TEST_F(ByteRingTest, PositionsThatCannotBeBreakItForGood) {
  words_.written = kBytes + 1;
  EXPECT_EQ(reader_.ReadSome(place_), 0u);
  EXPECT_TRUE(reader_.broken()) << "more than the ring holds";
  words_.written = 1;
  EXPECT_EQ(reader_.ReadSome(place_), 0u);
  EXPECT_TRUE(reader_.broken());

  words_.read = 1;
  EXPECT_EQ(writer_.WriteSome(place_), 0u);
  EXPECT_TRUE(writer_.broken()) << "read before it was written";
}

TEST_F(ByteRingTest, PositionsThatGoBackBreakIt) {
  EXPECT_EQ(writer_.WriteSome(ByteSpan(place_).first(100)), 100u);
  EXPECT_EQ(reader_.ReadSome(ByteSpan(place_).first(50)), 50u);
  words_.written = 60;
  EXPECT_EQ(reader_.ReadSome(place_), 0u);
  EXPECT_TRUE(reader_.broken());

  EXPECT_EQ(writer_.WriteSome(ByteSpan(place_).first(1)), 1u);
  words_.read = 10;
  EXPECT_EQ(writer_.WriteSome(place_), 0u);
  EXPECT_TRUE(writer_.broken());
}

// Each end sleeps when it has nothing to do, so the test does not end if a wake is lost.
TEST_F(ByteRingTest, NoWakeIsLost) {
  constexpr size_t kTotal = size_t{4} << 20;
  std::counting_semaphore<> something(0);
  std::counting_semaphore<> room(0);
  std::vector<std::byte> sent(kTotal);
  for (size_t i = 0; i < kTotal; ++i) sent[i] = static_cast<std::byte>(i * 2654435761U >> 24);
  std::thread writing([&] {
    ConstByteSpan rest(sent);
    for (size_t size = 1; !rest.empty(); size = size % 1500 + 1) {
      size_t count = writer_.WriteSome(rest.first(std::min(size, rest.size())));
      rest = rest.subspan(count);
      if (count > 0 && writer_.TakeWake()) something.release();
      if (count == 0 && writer_.Wait() && !room.try_acquire_for(kWakePatience)) break;
    }
  });
  std::vector<std::byte> got(kTotal);
  ByteSpan rest(got);
  for (size_t size = 1; !rest.empty(); size = size % 1700 + 1) {
    size_t count = reader_.ReadSome(rest.first(std::min(size, rest.size())));
    rest = rest.subspan(count);
    if (count > 0 && reader_.TakeWake()) room.release();
    if (count == 0 && reader_.Wait() && !something.try_acquire_for(kWakePatience)) break;
  }
  writing.join();
  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(std::memcmp(got.data(), sent.data(), kTotal), 0);
}

}  // namespace
}  // namespace byteps::local
