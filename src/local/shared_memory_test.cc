#include "src/local/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <utility>

namespace byteps::local {
namespace {

UniqueFd Duplicate(const SharedMemory& memory) {
  return UniqueFd(fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0));
}

TEST(SharedMemoryTest, BytesOfOneMappingAreSeenInTheOther) {
  Result<SharedMemory> mine = SharedMemory::Create(100, Access::kReadWrite);
  ASSERT_TRUE(mine.ok()) << mine.status().ToString();
  Result<SharedMemory> theirs = SharedMemory::Map(Duplicate(mine.value()), 100, Access::kReadWrite);
  ASSERT_TRUE(theirs.ok()) << theirs.status().ToString();
  EXPECT_EQ(theirs->bytes()[99], std::byte{0});
  theirs->bytes()[99] = std::byte{7};
  EXPECT_EQ(mine->bytes()[99], std::byte{7});
}

TEST(SharedMemoryTest, ItsSizeCannotChange) {
  Result<SharedMemory> mine = SharedMemory::Create(8192, Access::kReadWrite);
  ASSERT_TRUE(mine.ok());
  EXPECT_NE(ftruncate(mine->fd(), 4096), 0);
  EXPECT_NE(ftruncate(mine->fd(), 16384), 0);
}

TEST(SharedMemoryTest, WhatOthersMayOnlyReadTheyCannotMapForWriting) {
  Result<SharedMemory> mine = SharedMemory::Create(4096, Access::kReadOnly);
  ASSERT_TRUE(mine.ok()) << mine.status().ToString();
  EXPECT_FALSE(SharedMemory::Map(Duplicate(mine.value()), 4096, Access::kReadWrite).ok());
  Result<SharedMemory> theirs = SharedMemory::Map(Duplicate(mine.value()), 4096, Access::kReadOnly);
  ASSERT_TRUE(theirs.ok()) << theirs.status().ToString();
  EXPECT_NE(mprotect(theirs->bytes().data(), 4096, PROT_READ | PROT_WRITE), 0);
  mine->bytes()[5] = std::byte{3};
  EXPECT_EQ(theirs->bytes()[5], std::byte{3});
}

TEST(SharedMemoryTest, OtherMemoryThanAgreedIsRefused) {
  Result<SharedMemory> mine = SharedMemory::Create(4096, Access::kReadWrite);
  ASSERT_TRUE(mine.ok());
  Result<SharedMemory> larger =
      SharedMemory::Map(Duplicate(mine.value()), 8192, Access::kReadWrite);
  EXPECT_EQ(larger.status().code(), StatusCode::kProtocol);
  UniqueFd unsealed(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  Result<SharedMemory> loose = SharedMemory::Map(std::move(unsealed), 4096, Access::kReadWrite);
  EXPECT_EQ(loose.status().code(), StatusCode::kProtocol);
  Result<SharedMemory> nothing = SharedMemory::Map(UniqueFd(), 4096, Access::kReadWrite);
  EXPECT_EQ(nothing.status().code(), StatusCode::kProtocol);
}

TEST(SharedMemoryTest, MoreThanCanBeMappedIsAnError) {
  Result<SharedMemory> huge = SharedMemory::Create(size_t{1} << 60, Access::kReadWrite);
  EXPECT_EQ(huge.status().code(), StatusCode::kExhausted);
}

TEST(SharedMemoryTest, AMovedOneIsEmpty) {
  Result<SharedMemory> mine = SharedMemory::Create(4096, Access::kReadWrite);
  ASSERT_TRUE(mine.ok());
  SharedMemory other = std::move(mine.value());
  EXPECT_EQ(mine->bytes().size(), 0u);
  EXPECT_EQ(other.bytes().size(), 4096u);
}

}  // namespace
}  // namespace byteps::local
