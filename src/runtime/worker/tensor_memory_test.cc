#include "src/runtime/worker/tensor_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace byteps::runtime {
namespace {

TEST(TensorMemoryTest, PlainMemoryIsZeroAlignedAndNobodyElses) {
  auto memory = MakePlainMemory();
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{64}, size_t{100'000}}) {
    TensorMemory::Taken taken = memory->Take(bytes).value();
    EXPECT_FALSE(taken.is_shared);
    EXPECT_EQ(taken.bytes.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(taken.bytes.data()) % 64, 0u);
    EXPECT_TRUE(std::ranges::all_of(taken.bytes, [](auto one) { return one == std::byte{0}; }));
    std::ranges::fill(taken.bytes, std::byte{1});
    memory->Give(taken.bytes.data());
    memory->Give(taken.bytes.data());
  }
}

TEST(TensorMemoryTest, MoreThanThereIsIsAnError) {
  auto memory = MakePlainMemory();
  EXPECT_EQ(memory->Take(SIZE_MAX).status().code(), StatusCode::kExhausted);
  EXPECT_EQ(memory->Take(SIZE_MAX / 2).status().code(), StatusCode::kExhausted);
}

TEST(TensorMemoryTest, WhatWasNotTakenStays) {
  auto memory = MakePlainMemory();
  std::byte elsewhere[4] = {};
  memory->Give(elsewhere);
  memory->Give(nullptr);
  TensorMemory::Taken taken = memory->Take(4).value();
  memory->Close();
  taken.bytes[3] = std::byte{1};
  memory->Give(taken.bytes.data());
}

}  // namespace
}  // namespace byteps::runtime
