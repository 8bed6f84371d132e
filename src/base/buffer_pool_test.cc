#include "src/base/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstdint>

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
  EXPECT_EQ(pool.bytes_in_use(), 128u);
  copy = BufferRef();
  EXPECT_EQ(pool.bytes_in_use(), 0u);
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

}  // namespace
}  // namespace byteps
