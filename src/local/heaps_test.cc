#include "src/local/heaps.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace byteps::local {
namespace {

constexpr size_t kSmallHeapBytes = 16 * 4096;

UniqueFd Duplicate(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

// Tests the heaps as rank 0 of two sees them.
class HeapsTest : public testing::Test {
 protected:
  std::unique_ptr<Heaps> Make(UniqueFd theirs) {
    std::vector<UniqueFd> others(2);
    others[1] = std::move(theirs);
    return std::make_unique<Heaps>(0, mine_, std::move(others));
  }
  const std::shared_ptr<Heap> mine_ = Heap::Create(kSmallHeapBytes).value();
  const std::shared_ptr<Heap> theirs_ = Heap::Create(kSmallHeapBytes).value();
};

TEST_F(HeapsTest, AnotherRanksBytesAreReadWhereTheyLie) {
  auto heaps = Make(Duplicate(theirs_->fd()));
  ByteSpan bytes = theirs_->Take(8).value();
  const uint64_t offset = theirs_->OffsetOf(bytes).value();
  EXPECT_EQ(heaps->At(1, offset, 8), nullptr);
  ASSERT_TRUE(heaps->Map(1));
  ASSERT_TRUE(heaps->Map(1));
  const std::byte* seen = heaps->At(1, offset, 8);
  ASSERT_NE(seen, nullptr);
  bytes[3] = std::byte{7};
  EXPECT_EQ(seen[3], std::byte{7});
  EXPECT_NE(mprotect(const_cast<std::byte*>(seen), 4096, PROT_READ | PROT_WRITE), 0);
}

TEST_F(HeapsTest, TheOwnOneNeedsNoMapping) {
  auto heaps = Make(UniqueFd());
  EXPECT_TRUE(heaps->Map(0));
  ByteSpan bytes = mine_->Take(8).value();
  EXPECT_EQ(heaps->At(0, heaps->OffsetOf(bytes).value(), 8), bytes.data());
}

TEST_F(HeapsTest, BytesThatAHeapDoesNotHaveAreNotRead) {
  auto heaps = Make(Duplicate(theirs_->fd()));
  ASSERT_TRUE(heaps->Map(1));
  EXPECT_NE(heaps->At(1, kSmallHeapBytes - 8, 8), nullptr);
  EXPECT_EQ(heaps->At(1, kSmallHeapBytes - 8, 9), nullptr);
  EXPECT_EQ(heaps->At(1, kSmallHeapBytes + 8, 0), nullptr);
  EXPECT_EQ(heaps->At(1, UINT64_MAX, 8), nullptr);
}

TEST_F(HeapsTest, WhatIsNoHeapCannotBeMapped) {
  EXPECT_FALSE(Make(UniqueFd())->Map(1));
  UniqueFd loose(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(loose.get(), 4096), 0);
  EXPECT_FALSE(Make(std::move(loose))->Map(1)) << "its size may change";
}

// The pages of a rank that has ended exist as long as a process can read them.
TEST_F(HeapsTest, AfterCloseNothingOfTheOthersIsLeft) {
  auto heaps = Make(Duplicate(theirs_->fd()));
  ASSERT_TRUE(heaps->Map(1));
  heaps->Close();
  EXPECT_EQ(heaps->At(1, 0, 8), nullptr);
  EXPECT_FALSE(heaps->Map(1));
  ByteSpan bytes = mine_->Take(8).value();
  EXPECT_EQ(heaps->At(0, heaps->OffsetOf(bytes).value(), 8), bytes.data());
}

}  // namespace
}  // namespace byteps::local
