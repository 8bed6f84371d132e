#include "src/base/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <new>
#include <vector>

namespace byteps {
namespace {

TEST(BufferPoolTest, TheLastOneBackIsTheNextOneOut) {
  BufferPool pool;
  BufferRef first = pool.Take(1000);
  BufferRef second = pool.Take(1000);
  std::byte* warm = second.data();
  second = BufferRef();
  EXPECT_EQ(pool.Take(900).data(), warm);
  EXPECT_NE(first.data(), warm);
}

TEST(BufferPoolTest, ASharedBufferReturnsWithItsLastReference) {
  BufferPool pool;
  BufferRef first = pool.Take(100);
  BufferRef copy = first;
  first = BufferRef();
  EXPECT_EQ(pool.bytes_in_use(), 112u);
  copy = BufferRef();
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST(BufferPoolTest, TheNextOneToTakeSoManyBytesGetsTheBufferThatIsOffered) {
  BufferPool pool;
  BufferRef buffer = pool.Take(1000);
  pool.Offer(buffer, 900);
  EXPECT_NE(pool.Take(1000).data(), buffer.data());
  BufferRef taken = pool.Take(900);
  EXPECT_EQ(taken.data(), buffer.data());
  EXPECT_NE(pool.Take(900).data(), buffer.data()) << "it is offered once";
  EXPECT_TRUE(pool.EndOffer());
  taken = BufferRef();
  pool.Offer(buffer, 900);
  EXPECT_FALSE(pool.EndOffer());
  EXPECT_NE(pool.Take(900).data(), buffer.data());
  pool.Offer(BufferRef(), 900);
  EXPECT_TRUE(pool.Take(900));
  EXPECT_FALSE(pool.EndOffer());
  buffer = BufferRef();
  EXPECT_EQ(pool.bytes_in_use(), 0u) << "an offer that has ended keeps nothing";
}

TEST(BufferPoolTest, BuffersAreAligned) {
  BufferPool pool;
  for (size_t bytes : {1, 63, 64, 65, 4096, 100000}) {
    BufferRef buffer = pool.Take(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u) << bytes;
  }
}

TEST(BufferPoolTest, ZeroBytesNeedNoBuffer) {
  BufferPool pool;
  EXPECT_FALSE(pool.Take(0));
  EXPECT_EQ(pool.bytes_held(), 0u);
}

TEST(BufferPoolTest, SteadyStateMakesNoNewBuffers) {
  BufferPool pool;
  for (int round = 0; round < 10; ++round) {
    BufferRef a = pool.Take(32768);
    BufferRef b = pool.Take(32768);
  }
  EXPECT_EQ(pool.bytes_held(), 2u * 32768u);
}

TEST(BufferPoolTest, WhatIsJustAboveAPowerOfTwoWastesAQuarterAtMost) {
  for (size_t bytes : {65, 128, 129, 1000, 32768, 32769, 32776, 40961, 1 << 20, (1 << 20) + 1}) {
    BufferPool pool;
    BufferRef buffer = pool.Take(bytes);
    EXPECT_GE(pool.bytes_held(), bytes);
    EXPECT_LE(pool.bytes_held() * 4, bytes * 5 + 64) << bytes;
  }
}

// Notes what the pool takes and gives back.
class CountingSource final : public BufferSource {
 public:
  std::byte* Make(size_t bytes) noexcept override {
    if (bytes > left) return nullptr;
    left -= bytes;
    std::byte* memory = HeapMemory().Make(bytes);
    sizes[memory] = bytes;
    return memory;
  }
  void Free(std::byte* memory, size_t bytes) noexcept override {
    left += bytes;
    EXPECT_EQ(sizes[memory], bytes);
    sizes.erase(memory);
    HeapMemory().Free(memory, bytes);
  }

  size_t left = 8192;
  std::map<std::byte*, size_t> sizes;
};

TEST(BufferPoolTest, AllMemoryComesFromTheSourceAndGoesBackToIt) {
  CountingSource source;
  {
    BufferPool pool(source);
    BufferRef large = pool.Take(5000);
    EXPECT_EQ(source.sizes.count(large.data()), 1u);
    EXPECT_EQ(source.left, 8192 - pool.bytes_held());
    EXPECT_THROW(pool.Take(4096), std::bad_alloc);
    large = BufferRef();
    EXPECT_TRUE(pool.Take(4096)) << "the source gets the unused buffer back first";
    EXPECT_EQ(pool.bytes_held(), 4096u);
  }
  EXPECT_TRUE(source.sizes.empty());
}

TEST(BufferPoolTest, APeakDoesNotStay) {
  BufferPool pool;
  std::vector<BufferRef> peak;
  for (int i = 0; i < 1000; ++i) peak.push_back(pool.Take(32768));
  peak.clear();
  EXPECT_EQ(pool.bytes_held(), 1000u * 32768u);
  auto use_two = [&](int times) {
    for (int i = 0; i < times; ++i) {
      BufferRef a = pool.Take(32768);
      BufferRef b = pool.Take(100);
    }
  };
  use_two(100);
  EXPECT_EQ(pool.bytes_held(), 1000u * 32768u + 112u) << "it may come again";
  use_two(200000);
  EXPECT_EQ(pool.bytes_held(), 32768u + 112u);
  for (int i = 0; i < 1000; ++i) peak.push_back(pool.Take(32768));
  EXPECT_EQ(pool.bytes_held(), 1000u * 32768u + 112u);
}

TEST(BufferPoolTest, WhatIsNeededAgainAndAgainStays) {
  BufferPool pool;
  std::vector<BufferRef> step;
  for (int round = 0; round < 300; ++round) {
    for (int i = 0; i < 100; ++i) step.push_back(pool.Take(1000));
    step.clear();
    EXPECT_EQ(pool.bytes_held(), 100u * 1024u);
  }
}

TEST(BufferPoolTest, WithoutMemoryBuffersOfOtherSizesAreGivenUpFirst) {
  BufferPool pool(HeapMemory(), 4096);
  BufferRef kept = pool.Take(1024);
  pool.Take(2048);
  EXPECT_EQ(pool.bytes_held(), 3072u);
  BufferRef large = pool.Take(3072);
  EXPECT_EQ(pool.bytes_held(), 4096u);
  EXPECT_THROW(pool.Take(64), std::bad_alloc);
  large = BufferRef();
  EXPECT_TRUE(pool.Take(64));
  EXPECT_EQ(pool.bytes_in_use(), 1024u);
}

// The pool has counted buffers as unused, and all of them go before it looks again.
TEST(BufferPoolTest, BuffersThatWereGivenUpAreNotGivenUpAgain) {
  BufferPool pool;
  {
    std::vector<BufferRef> peak;
    for (int i = 0; i < 100; ++i) peak.push_back(pool.Take(1000));
  }
  for (int i = 0; i < 5000; ++i) pool.Take(64);
  EXPECT_TRUE(pool.FreeUnused());
  EXPECT_EQ(pool.bytes_held(), 0u);
  for (int i = 0; i < 10000; ++i) pool.Take(64);
  EXPECT_EQ(pool.bytes_held(), 64u);
}

}  // namespace
}  // namespace byteps
