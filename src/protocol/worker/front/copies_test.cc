#include "src/protocol/worker/front/copies.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/protocol/kernel_arithmetic.h"

namespace byteps::protocol {
namespace {

class CopiesTest : public testing::Test {
 protected:
  CopiesTest() : from(100), to(100) {
    for (size_t at = 0; at < from.size(); ++at) from[at] = static_cast<std::byte>(at + 1);
  }
  Copy Of(size_t bytes) { return {to.data(), from.data(), bytes}; }
  bool HasCopied(size_t bytes) const {
    for (size_t at = 0; at < to.size(); ++at) {
      if (to[at] != (at < bytes ? from[at] : std::byte())) return false;
    }
    return true;
  }

  std::vector<std::byte> from;
  std::vector<std::byte> to;
  KernelArithmetic arithmetic;
  Copies copies{10, arithmetic};
};

TEST_F(CopiesTest, OneSliceIsDoneAtOnce) {
  EXPECT_TRUE(copies.Begin(1, {}));
  EXPECT_TRUE(copies.Begin(2, Of(10)));
  EXPECT_TRUE(HasCopied(10));
  EXPECT_TRUE(copies.empty());
}

TEST_F(CopiesTest, MoreIsDoneSliceBySlice) {
  EXPECT_FALSE(copies.Begin(1, Of(25)));
  EXPECT_TRUE(HasCopied(0));
  EXPECT_FALSE(copies.CopySlice().has_value());
  EXPECT_TRUE(HasCopied(10));
  EXPECT_FALSE(copies.CopySlice().has_value());
  EXPECT_EQ(copies.CopySlice(), OperationId{1});
  EXPECT_TRUE(HasCopied(25)) << "and not a byte more";
  EXPECT_TRUE(copies.empty());
}

TEST_F(CopiesTest, WhoBeganFirstIsCompleteFirst) {
  std::vector<std::byte> other(11);
  EXPECT_FALSE(copies.Begin(7, Of(20)));
  EXPECT_FALSE(copies.Begin(3, {other.data(), from.data(), other.size()}));
  EXPECT_FALSE(copies.CopySlice().has_value());
  EXPECT_EQ(copies.CopySlice(), OperationId{7});
  EXPECT_FALSE(copies.CopySlice().has_value());
  EXPECT_EQ(copies.CopySlice(), OperationId{3});
}

TEST_F(CopiesTest, WhatIsDroppedIsTouchedNoMore) {
  EXPECT_FALSE(copies.Begin(1, Of(30)));
  EXPECT_FALSE(copies.CopySlice().has_value());
  copies.Drop(2);
  EXPECT_FALSE(copies.empty()) << "it was another's";
  copies.Drop(1);
  EXPECT_TRUE(copies.empty());
  EXPECT_TRUE(HasCopied(10));
}

}  // namespace
}  // namespace byteps::protocol
