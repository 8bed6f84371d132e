#include "src/machine/room/heap_memory.h"

#include <gtest/gtest.h>

#include <memory>

namespace byteps::machine {
namespace {

constexpr size_t kHeapMemoryBytes = 4 * 4096;

TEST(HeapMemoryTest, TensorsLieInTheHeapWhereItHasRoom) {
  std::shared_ptr<local::Heap> heap = local::Heap::Create(kHeapMemoryBytes).value();
  HeapMemory memory(heap);
  runtime::TensorMemory::Taken shared = memory.Take(100).value();
  EXPECT_TRUE(shared.is_shared);
  EXPECT_TRUE(heap->OffsetOf(shared.bytes).has_value());
  runtime::TensorMemory::Taken own = memory.Take(kHeapMemoryBytes).value();
  EXPECT_FALSE(own.is_shared);
  EXPECT_EQ(own.bytes.size(), kHeapMemoryBytes);
  EXPECT_FALSE(heap->OffsetOf(own.bytes).has_value());
  memory.Give(own.bytes.data());
  memory.Give(shared.bytes.data());
  EXPECT_TRUE(memory.Take(kHeapMemoryBytes).value().is_shared) << "all of it is free again";
}

TEST(HeapMemoryTest, BehindTheSessionTensorsAreStillThere) {
  std::shared_ptr<local::Heap> heap = local::Heap::Create(kHeapMemoryBytes).value();
  auto memory = std::make_unique<HeapMemory>(heap);
  ByteSpan bytes = memory->Take(100).value().bytes;
  memory->Close();
  EXPECT_FALSE(memory->Take(100).value().is_shared);
  bytes[99] = std::byte{1};
  memory->Give(bytes.data());
  EXPECT_FALSE(heap->OffsetOf(bytes).has_value());
}

}  // namespace
}  // namespace byteps::machine
