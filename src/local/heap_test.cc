#include "src/local/heap.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace byteps::local {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHeapBytes = 64 * kPage;

std::shared_ptr<Heap> NewHeap(size_t bytes = kHeapBytes) {
  Result<std::shared_ptr<Heap>> heap = Heap::Create(bytes);
  EXPECT_TRUE(heap.ok()) << heap.status().ToString();
  return heap.value();
}

// Returns the bytes that the machine has for the heap now.
size_t Resident(const Heap& heap) {
  struct stat about{};
  EXPECT_EQ(fstat(heap.fd(), &about), 0);
  return static_cast<size_t>(about.st_blocks) * 512;
}

bool IsZero(ConstByteSpan bytes) {
  return std::ranges::all_of(bytes, [](std::byte one) { return one == std::byte{0}; });
}

TEST(HeapTest, ItGivesMemoryAndSaysWhereBytesLie) {
  auto heap = NewHeap();
  std::byte elsewhere[8] = {};
  EXPECT_FALSE(heap->OffsetOf(elsewhere).has_value());
  ByteSpan first = heap->Take(100).value();
  ByteSpan second = heap->Take(kPage + 1).value();
  EXPECT_TRUE(IsZero(first) && IsZero(second));
  EXPECT_EQ(first.size(), 100u);
  EXPECT_EQ(heap->OffsetOf(first), 0u);
  EXPECT_EQ(heap->OffsetOf(second.subspan(5)), kPage + 5);
  EXPECT_EQ(heap->At(kPage + 5), second.data() + 5);
  EXPECT_FALSE(heap->OffsetOf(elsewhere).has_value());
  ConstByteSpan beyond{first.data(), kHeapBytes + 1};
  EXPECT_FALSE(heap->OffsetOf(beyond).has_value());
}

TEST(HeapTest, TheMachineHasThePagesAgainWhenTheyAreGivenBack) {
  auto heap = NewHeap();
  ByteSpan bytes = heap->Take(16 * kPage).value();
  EXPECT_EQ(Resident(*heap), 0u);
  std::ranges::fill(bytes, std::byte{1});
  EXPECT_EQ(Resident(*heap), 16 * kPage);
  ByteSpan other = heap->Take(kPage).value();
  other[0] = std::byte{2};
  EXPECT_TRUE(heap->Give(bytes.data()));
  EXPECT_EQ(Resident(*heap), kPage);
  EXPECT_EQ(other[0], std::byte{2});
  ByteSpan again = heap->Take(16 * kPage).value();
  EXPECT_EQ(again.data(), bytes.data());
  EXPECT_TRUE(IsZero(again));
}

TEST(HeapTest, WhatWasNotTakenIsNotGivenBack) {
  auto heap = NewHeap();
  std::byte elsewhere[8];
  EXPECT_FALSE(heap->Give(elsewhere));
  ByteSpan bytes = heap->Take(2 * kPage).value();
  EXPECT_FALSE(heap->Give(elsewhere));
  EXPECT_FALSE(heap->Give(bytes.data() + kPage));
  EXPECT_TRUE(heap->Give(bytes.data()));
  EXPECT_FALSE(heap->Give(bytes.data()));
}

TEST(HeapTest, WhereThereIsNoRoomThatIsAnError) {
  auto heap = NewHeap();
  EXPECT_EQ(heap->Take(kHeapBytes + 1).status().code(), StatusCode::kExhausted);
  EXPECT_EQ(heap->Take(SIZE_MAX).status().code(), StatusCode::kExhausted);
  ByteSpan all = heap->Take(kHeapBytes).value();
  EXPECT_EQ(heap->Take(0).status().code(), StatusCode::kExhausted);
  EXPECT_TRUE(heap->Give(all.data()));
  EXPECT_TRUE(heap->Take(0).ok());
  auto huge = NewHeap(size_t{1} << 60);
  EXPECT_EQ(huge->Take(1).status().code(), StatusCode::kExhausted) << "no such address space";
}

// In any order of Take and Give, no memory overlaps, all memory is zero at first, and in the end
// the whole heap is free again.
TEST(HeapTest, RoomIsNeverLostNorGivenTwice) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    auto heap = NewHeap();
    std::vector<std::pair<ByteSpan, std::byte>> taken;
    for (int step = 0; step < 200; ++step) {
      if (random() % 2 == 0 && !taken.empty()) {
        auto at = taken.begin() + static_cast<ptrdiff_t>(random() % taken.size());
        for (std::byte one : at->first) ASSERT_EQ(one, at->second);
        ASSERT_TRUE(heap->Give(at->first.data()));
        taken.erase(at);
        continue;
      }
      Result<ByteSpan> bytes = heap->Take(random() % (9 * kPage));
      if (!bytes.ok()) continue;
      ASSERT_TRUE(IsZero(bytes.value()));
      auto mark = static_cast<std::byte>(1 + random() % 255);
      std::ranges::fill(bytes.value(), mark);
      taken.emplace_back(bytes.value(), mark);
    }
    for (auto& [bytes, mark] : taken) ASSERT_TRUE(heap->Give(bytes.data()));
    EXPECT_EQ(Resident(*heap), 0u);
    EXPECT_TRUE(heap->Take(kHeapBytes).ok());
  }
}

TEST(HeapTest, LargeTensorsBeginAtALargePage) {
  constexpr size_t kLarge = size_t{2} << 20;
  auto heap = NewHeap(4 * kLarge);
  EXPECT_TRUE(heap->Take(1).ok());
  EXPECT_EQ(heap->OffsetOf(heap->Take(kLarge).value()), kLarge);
  EXPECT_EQ(heap->OffsetOf(heap->Take(1).value()), kPage) << "what lies before it is not lost";
}

TEST(HeapTest, AClosedOneGoesWithItsLastTensor) {
  auto fds = [] {
    auto all = std::filesystem::directory_iterator("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = fds();
  auto heap = NewHeap();
  ByteSpan bytes = heap->Take(kPage).value();
  heap->Close();
  EXPECT_EQ(heap->Take(1).status().code(), StatusCode::kExhausted);
  bytes[0] = std::byte{1};
  EXPECT_TRUE(heap->OffsetOf(bytes).has_value());
  EXPECT_TRUE(heap->Give(bytes.data()));
  EXPECT_FALSE(heap->OffsetOf(bytes).has_value()) << "its address space was given back";
  EXPECT_EQ(fds(), before);
  EXPECT_FALSE(heap->Give(bytes.data()));
}

TEST(HeapTest, TheOthersCannotWriteWithTheirDescriptor) {
  auto heap = NewHeap();
  void* address = mmap(nullptr, kHeapBytes, PROT_READ | PROT_WRITE, MAP_SHARED, heap->fd(), 0);
  EXPECT_EQ(address, MAP_FAILED);
  EXPECT_NE(fallocate(heap->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage), 0);
  EXPECT_NE(ftruncate(heap->fd(), 0), 0);
}

TEST(HeapTest, ItIsAsLargeAsTheMachineAllowsForSoManyRanks) {
  EXPECT_EQ(Heap::BytesFor(2) % kPage, 0u);
  EXPECT_GT(Heap::BytesFor(2), 0u);
  EXPECT_LE(Heap::BytesFor(64) * 64, size_t{1} << 46);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 3 * kPage + 1;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_EQ(Heap::BytesFor(2), 3 * kPage);
  EXPECT_TRUE(Heap::Create(Heap::BytesFor(2)).ok());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

}  // namespace
}  // namespace byteps::local
