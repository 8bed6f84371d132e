#include "src/operations/row.h"

#include <gtest/gtest.h>

#include <set>

#include "src/operations/sizes.h"

namespace byteps::operations {
namespace {

using wire::Op;
using wire::TensorSpec;

std::vector<Op> AllOps() {
  std::vector<Op> ops;
  for (int op = 0; op < wire::kOpCount; ++op) ops.push_back(static_cast<Op>(op));
  return ops;
}

TEST(RowsTest, EachOperationHasARowThatFitsTogether) {
  std::set<std::string> names;
  for (Op op : AllOps()) {
    const Row& row = RowOf(op);
    SCOPED_TRACE(row.name);
    EXPECT_TRUE(names.insert(row.name).second);
    EXPECT_EQ(row.sizes_first, row.told != nullptr);
    EXPECT_FALSE(row.own_result && row.overwrites_input);
    EXPECT_FALSE(row.has_splits && !row.sizes_first) << "nobody else knows the splits";
    EXPECT_FALSE(row.sizes_first && row.known_pieces);
    EXPECT_TRUE(row.has_tensor || !row.sizes_first);
  }
  EXPECT_EQ(RowOf(Op::kJoin).name, std::string("join"));
}

TEST(RowsTest, ReductionsCombineByTheirOwnNumber) {
  for (int i = 0; i < wire::kReductionCount; ++i) {
    TensorSpec spec{static_cast<Op>(i), DataType::kFloat32, 0, {3}};
    EXPECT_NE(CombineOf(spec), Combine::kOverlay);
    TensorSpec scattered{Op::kReducescatter, DataType::kFloat32, 0, {3}};
    scattered.combine = spec.op;
    EXPECT_EQ(CombineOf(scattered), CombineOf(spec));
  }
  for (Op op : {Op::kBroadcast, Op::kAllgather, Op::kAlltoall, Op::kBarrier}) {
    EXPECT_EQ(CombineOf({op, DataType::kFloat32, 0, {3}}), Combine::kOverlay);
  }
  EXPECT_EQ(CombineOf({Op::kJoin, DataType::kInt64, 0, {}}), Combine::kLast);
}

TEST(RowsTest, BytesFollowFromTheSpec) {
  TensorSpec sum{Op::kSum, DataType::kFloat32, 0, {3, 4}};
  EXPECT_EQ(TensorBytes(sum), 48u);
  EXPECT_EQ(InputBytes(sum, 9), 48u);
  EXPECT_EQ(DeclaredBytes(sum), 48u);
  TensorSpec gather{Op::kAllgather, DataType::kFloat32, 0, {4}};
  EXPECT_EQ(TensorBytes(gather), 16u) << "of a row";
  EXPECT_EQ(InputBytes(gather, 3), 48u);
  EXPECT_EQ(DeclaredBytes(gather), 0u);
  EXPECT_EQ(TensorBytes({Op::kBarrier, DataType::kFloat32, 0, {4}}), 0u);
  EXPECT_EQ(TensorBytes({Op::kJoin, DataType::kInt64, 0, {}}), 8u);
  EXPECT_EQ(InputBytes({Op::kJoin, DataType::kInt64, 0, {}}, 0), 0u) << "nobody's memory";
  EXPECT_FALSE(TensorBytes({Op::kSum, DataType::kInt8, 0, {-1}}).has_value());
  EXPECT_FALSE(
      TensorBytes({Op::kSum, DataType::kInt8, 0, {int64_t{1} << 40, 1 << 20}}).has_value());
  EXPECT_EQ(TensorBytes({Op::kSum, DataType::kInt8, 0, {int64_t{1} << 40, 1 << 20, 0}}), 0u);
  EXPECT_FALSE(InputBytes(gather, kTensorBytesMax / 15).has_value());
}

// Tests the bytes that a rank must keep or copy beside the exchange.
TEST(RowsTest, InputsAreKeptAndCopiedWhereTheyMustBe) {
  std::byte memory[2];
  const std::vector<uint32_t> ranks = {0, 3};
  TensorSpec spec{Op::kBroadcast, DataType::kUint8, 3, {2}, true};
  Work work{.spec = spec, .name = "x", .place = {ranks, 0}, .input = memory, .output = memory};
  EXPECT_EQ(RootPlace(work), 1u);
  EXPECT_EQ(BytesToCopy(work), 0u);
  EXPECT_EQ(BytesToCopyAlone(work), 2u);
  EXPECT_FALSE(NeedsKeptInput(work)) << "nobody overwrites what the root pushes";
  work.place.self = 1;
  EXPECT_EQ(BytesToCopy(work), 2u) << "the root's result is its input";
  spec.root = 1;
  EXPECT_FALSE(RootPlace(work).has_value());
  spec.op = Op::kSum;
  EXPECT_FALSE(RootPlace(work).has_value());
  EXPECT_EQ(BytesToCopy(work), 0u);
  EXPECT_TRUE(NeedsKeptInput(work));
  work.output = nullptr;
  EXPECT_FALSE(NeedsKeptInput(work)) << "the result lies elsewhere";
  spec.op = Op::kJoin;
  EXPECT_EQ(BytesToCopyAlone(work), 0u);
  spec.op = Op::kAllgather;
  EXPECT_EQ(BytesToCopyAlone(work), 0u) << "the result is no output of the user's";
}

// A missing part matters only if another rank was to get it.
TEST(RowsTest, AnAlltoallNeedsWhoBringsRowsToOthers) {
  const std::vector<uint32_t> ranks = {0, 1, 2};
  TensorSpec spec{Op::kAlltoall, DataType::kUint8, 0, {}};
  Work work{.spec = spec, .name = "x", .place = {ranks, 0}};
  const Row& row = RowOf(Op::kAlltoall);
  std::vector<uint64_t> table = {0, 0, 4,  // rank 0 has rows for rank 2
                                 0, 5, 0,  // rank 1 only for itself
                                 0, 0, 0};
  work.table = table;
  EXPECT_TRUE(row.needs(work, 0));
  EXPECT_FALSE(row.needs(work, 1));
  EXPECT_FALSE(row.needs(work, 2));
}

TEST(RowsTest, SpecsAreDescribedForPeople) {
  EXPECT_EQ(Describe({Op::kSum, DataType::kFloat32, 0, {3, 4}}), "sum of float32[3, 4]");
  EXPECT_EQ(Describe({Op::kBroadcast, DataType::kInt8, 2, {}}), "broadcast of int8[] from rank 2");
  EXPECT_EQ(Describe({Op::kAllgather, DataType::kInt8, 0, {5}}), "allgather of int8[any, 5]");
  EXPECT_EQ(Describe({Op::kBarrier, DataType::kInt8, 0, {}}), "barrier");
  EXPECT_EQ(Describe({Op::kJoin, DataType::kInt64, 0, {}}), "join");
  EXPECT_EQ(Describe({Op::kAlltoall, DataType::kInt8, 0, {}, false, Op::kSum, 3}),
            "alltoall of int8[any] in process set 3");
  EXPECT_EQ(Describe({Op::kReducescatter, DataType::kInt8, 0, {4}, false, Op::kMax, 0, "cpu"}),
            "reducescatter (max) of int8[4] (cpu)");
  TensorSpec encoded{Op::kSum, DataType::kFloat32, 0, {3}};
  encoded.codec = 2;
  EXPECT_EQ(Describe(encoded), "sum of float32[3] with codec 2");
}

}  // namespace
}  // namespace byteps::operations
