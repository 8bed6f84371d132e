// Tests that the session gets the operation that the request describes.
#include "src/session/c_request.h"

#include <gtest/gtest.h>

namespace byteps::session {
namespace {

TEST(ReadRequestTest, AllThatIsAskedForIsTold) {
  const int64_t shape[] = {4, 3};
  const int64_t splits[] = {1, 3};
  int32_t input[12] = {};
  int32_t output[12] = {};
  byteps_request request{};
  request.name = "x";
  request.op = BYTEPS_ALLTOALL;
  request.dtype = BYTEPS_INT32;
  request.shape = shape;
  request.dimensions = 2;
  request.splits = splits;
  request.split_count = 2;
  request.input = input;
  request.output = output;
  request.priority = -7;
  request.process_set = 5;
  request.atomic = 1;
  request.detail = "more";
  const Result<protocol::Operation> read = ReadRequest(request);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->name, "x");
  EXPECT_EQ(read->spec.op, wire::Op::kAlltoall);
  EXPECT_EQ(read->spec.dtype, DataType::kInt32);
  EXPECT_EQ(read->spec.shape, std::vector<int64_t>{3}) << "of a row";
  EXPECT_EQ(read->rows, 4u);
  EXPECT_EQ(read->splits, (std::vector<uint64_t>{1, 3}));
  EXPECT_EQ(read->input, reinterpret_cast<const std::byte*>(input));
  EXPECT_EQ(read->output, reinterpret_cast<std::byte*>(output));
  EXPECT_EQ(read->priority, -7);
  EXPECT_EQ(read->spec.process_set, 5u);
  EXPECT_TRUE(read->spec.atomic);
  EXPECT_EQ(read->spec.detail, "more");
}

TEST(ReadRequestTest, ARootAndAWayToCombineToo) {
  const int64_t shape[] = {4};
  byteps_request request{};
  request.name = "x";
  request.shape = shape;
  request.dimensions = 1;
  request.op = BYTEPS_BROADCAST;
  request.root_rank = 3;
  const Result<protocol::Operation> broadcast = ReadRequest(request);
  ASSERT_TRUE(broadcast.ok()) << broadcast.status().ToString();
  EXPECT_EQ(broadcast->spec.root, 3u);
  EXPECT_EQ(broadcast->spec.shape, std::vector<int64_t>{4});
  request.op = BYTEPS_REDUCESCATTER;
  request.combine = BYTEPS_MAX;
  const Result<protocol::Operation> scatter = ReadRequest(request);
  ASSERT_TRUE(scatter.ok()) << scatter.status().ToString();
  EXPECT_EQ(scatter->spec.combine, wire::Op::kMax);
}

// A join has the type of a rank, whatever the request says.
TEST(ReadRequestTest, WhatHasOneTypeOnlyHasThat) {
  byteps_request request{};
  request.name = "x";
  request.op = BYTEPS_JOIN;
  request.dtype = BYTEPS_FLOAT32;
  const Result<protocol::Operation> read = ReadRequest(request);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->spec.dtype, DataType::kInt64);
}

}  // namespace
}  // namespace byteps::session
