#include "src/session/wide_average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace byteps::session {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

wire::TensorSpec AverageOf(DataType type, int64_t count) {
  wire::TensorSpec spec;
  spec.op = wire::Op::kAverage;
  spec.dtype = type;
  spec.shape = {count};
  return spec;
}

TEST(WideAverageTest, AveragesOfSmallIntegersNeedIt) {
  for (DataType type : {DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kUint8}) {
    EXPECT_TRUE(WideAverage::IsNeededFor(AverageOf(type, 1)));
  }
  for (DataType type : {DataType::kInt64, DataType::kFloat16, DataType::kBool}) {
    EXPECT_FALSE(WideAverage::IsNeededFor(AverageOf(type, 1)));
  }
  wire::TensorSpec spec = AverageOf(DataType::kInt8, 1);
  spec.op = wire::Op::kSum;
  EXPECT_FALSE(WideAverage::IsNeededFor(spec));
  spec.op = wire::Op::kReducescatter;
  spec.combine = wire::Op::kAverage;
  EXPECT_TRUE(WideAverage::IsNeededFor(spec));
}

// Checks the values that a rank exchanges, and the values that its user gets if the result is the
// input backwards.
template <typename Integer, size_t kCount>
void ExpectExact(DataType type, std::array<Integer, kCount> values) {
  protocol::Operation operation;
  operation.spec = AverageOf(type, kCount);
  operation.input = std::as_bytes(std::span(values)).data();
  operation.output = std::as_writable_bytes(std::span(values)).data();  // in place
  WideAverage wide(operation, kCount);
  EXPECT_EQ(operation.spec.dtype, DataType::kInt64);
  EXPECT_EQ(operation.spec.detail, std::string("averages of ") + byteps::NameOf(type));
  std::array<int64_t, kCount> sent{};
  std::memcpy(sent.data(), operation.input, sizeof(sent));
  EXPECT_THAT(sent, ElementsAreArray(values));
  std::ranges::reverse(sent);
  std::memcpy(operation.output, sent.data(), sizeof(sent));
  std::array<Integer, kCount> expected = values;
  std::ranges::reverse(expected);
  wide.Narrow();
  EXPECT_EQ(values, expected);
}

TEST(WideAverageTest, WhatIsExchangedAndWhatTheUserGetsIsExact) {
  ExpectExact<int8_t, 3>(DataType::kInt8, {-128, 127, -1});
  ExpectExact<int16_t, 2>(DataType::kInt16, {-32768, 32767});
  ExpectExact<int32_t, 2>(DataType::kInt32, {INT32_MIN, INT32_MAX});
  ExpectExact<uint8_t, 2>(DataType::kUint8, {0, 255});
}

// The page behind the input cannot be read, so a copy that goes too far ends the process.
TEST(WideAverageTest, NothingIsReadBehindTheInput) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* end = static_cast<std::byte*>(memory) + page;
  ASSERT_EQ(mprotect(end, page, PROT_NONE), 0);
  protocol::Operation operation;
  operation.spec = AverageOf(DataType::kInt16, 2);
  operation.input = operation.output = end - 2 * sizeof(int16_t);
  WideAverage wide(operation, 2);
  EXPECT_NE(operation.input, end - 2 * sizeof(int16_t));
  munmap(memory, 2 * page);
}

TEST(WideAverageTest, AResultMayBeSmallerThanTheInput) {
  std::array<int16_t, 4> input = {1, 2, 3, 4};
  std::array<int16_t, 2> output = {0, 9};
  protocol::Operation operation;
  operation.spec = AverageOf(DataType::kInt16, 4);
  operation.spec.detail = "prescale 2";
  operation.input = std::as_bytes(std::span(input)).data();
  operation.output = std::as_writable_bytes(std::span(output)).data();
  WideAverage wide(operation, 1);
  EXPECT_EQ(operation.spec.detail, "prescale 2, averages of int16");
  const int64_t result = -7;
  std::memcpy(operation.output, &result, sizeof(result));
  wide.Narrow();
  EXPECT_THAT(output, ElementsAre(-7, 9));
}

}  // namespace
}  // namespace byteps::session
