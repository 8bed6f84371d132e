#include "src/operations/check.h"

#include <gtest/gtest.h>

#include "src/operations/row.h"
#include "src/operations/sizes.h"

namespace byteps::operations {
namespace {

using wire::Op;

class CheckTest : public testing::Test {
 protected:
  // Checks `work` for rank 3 of process set 7, which has the ranks 1, 3 and 4.
  Status Check() {
    Status checked = CheckArguments(work);
    return checked.ok() ? CheckPlace(work, splits) : checked;
  }
  std::string Text() {
    Status checked = Check();
    EXPECT_EQ(checked.code(), StatusCode::kInvalidArgument);
    return checked.message();
  }

  std::byte memory[64];
  std::vector<uint32_t> ranks = {1, 3, 4};
  std::vector<uint64_t> splits;
  wire::TensorSpec spec{Op::kSum, DataType::kUint8, 0, {7, 2}, false, Op::kSum, 7};
  Work work{.spec = spec, .name = "x", .place = {ranks, 1}, .input = memory, .output = memory};
};

TEST_F(CheckTest, WhatIsRightIsAccepted) {
  for (int op = 0; op < wire::kOpCount; ++op) {
    spec.op = static_cast<Op>(op);
    spec.root = 4;
    work.rows = 3;
    work.splits = {};
    work.output = RowOf(spec.op).scatters ? memory + 6 : memory;  // rows 3 and 4
    EXPECT_TRUE(Check().ok()) << RowOf(spec.op).name << ": " << Check().message();
  }
}

TEST_F(CheckTest, TheTensorIsSound) {
  work.name = "";
  EXPECT_EQ(Text(), "an operation needs a name");
  work.name = "x";
  spec.shape = {2, -1};
  EXPECT_EQ(Text(), "tensor 'x' has a negative dimension");
  spec.shape = {int64_t{1} << 40, 1 << 20};
  EXPECT_EQ(Text(), "tensor 'x' has more than 281474976710656 bytes; check its shape");
  spec.shape = {2};
  spec.detail.assign(wire::kDetailBytesMax + 1, 'x');
  EXPECT_EQ(Text(), "the detail of tensor 'x' has 1025 bytes; it may have 1024");
}

TEST_F(CheckTest, TheRootTakesPart) {
  spec.op = Op::kBroadcast;
  spec.root = 2;
  EXPECT_EQ(Text(), "broadcast of 'x' from rank 2: process set 7 has ranks 1, 3, 4");
  spec.process_set = 0;
  EXPECT_EQ(Text(), "broadcast of 'x' from rank 2: the job has ranks 1, 3, 4");
  ranks = {0, 1, 2};
  work.place.ranks = ranks;
  spec.root = 3;
  EXPECT_EQ(Text(), "broadcast of 'x' from rank 3: the job has ranks 0 to 2");
  spec.root = 2;
  EXPECT_TRUE(Check().ok());
}

TEST_F(CheckTest, ScatteredRowsAreReduced) {
  spec.op = Op::kReducescatter;
  spec.shape = {};
  EXPECT_EQ(Text(), "reducescatter of 'x': a scalar has no rows to scatter; give it the shape [1]");
  spec.shape = {3};
  spec.combine = Op::kBroadcast;
  EXPECT_EQ(Text(),
            "reducescatter of 'x' cannot combine by broadcast; use a sum, average, min, max or "
            "product");
}

TEST_F(CheckTest, WhatEachRankGetsAnotherPartOfCannotBeAtomic) {
  spec.atomic = true;
  EXPECT_TRUE(Check().ok());
  for (Op op : {Op::kReducescatter, Op::kAllgather, Op::kAlltoall}) {
    spec.op = op;
    EXPECT_NE(Text().find(" 'x' cannot be atomic"), std::string::npos);
  }
}

TEST_F(CheckTest, OnlyWhatIsCombinedHasACodec) {
  spec.codec = 9;
  for (Op op : {Op::kSum, Op::kAverage, Op::kMin, Op::kMax, Op::kProduct}) {
    spec.op = op;
    EXPECT_TRUE(Check().ok()) << NameOf(op);
  }
  spec.op = Op::kReducescatter;
  work.output = memory + 6;
  EXPECT_TRUE(Check().ok());
  work.output = memory;
  for (Op op : {Op::kAllgather, Op::kAlltoall, Op::kBarrier, Op::kJoin}) {
    spec.op = op;
    EXPECT_NE(Text().find(" of 'x' cannot have codec 9"), std::string::npos) << NameOf(op);
  }
  spec.op = Op::kBroadcast;
  spec.root = 4;
  EXPECT_EQ(Text(),
            "broadcast of 'x' cannot have codec 9: it moves bytes and adds nothing up, and only "
            "what is combined can be encoded; give it codec 0");
  spec.codec = 0;
  EXPECT_TRUE(Check().ok());
}

TEST_F(CheckTest, SplitsAreMadeEqualOrFit) {
  spec.op = Op::kAlltoall;
  spec.shape = {2};
  work.rows = 6;
  EXPECT_TRUE(Check().ok());
  EXPECT_EQ(std::vector<uint64_t>(work.splits.begin(), work.splits.end()),
            (std::vector<uint64_t>{2, 2, 2}));
  work.splits = {};
  work.rows = 7;
  EXPECT_EQ(Text(), "alltoall of 'x': 7 rows cannot be split evenly among 3 ranks; give splits");
  std::vector<uint64_t> given = {1, 2, 4};
  work.splits = given;
  EXPECT_TRUE(Check().ok());
  given = {1, 2, UINT64_MAX};
  EXPECT_NE(Text().find("it needs one for each of the 3 ranks"), std::string::npos);
  given = {5, 2};
  work.splits = given;
  EXPECT_NE(Text().find("it needs one for each of the 3 ranks"), std::string::npos);
  work.splits = {};
  ranks.resize(2049);
  work.place.ranks = ranks;
  EXPECT_NE(Text().find("at most 2048 can take part"), std::string::npos);
}

TEST_F(CheckTest, MemoryIsThereAndWhereItMayBe) {
  work.input = nullptr;
  EXPECT_EQ(Text(), "tensor 'x' has 14 bytes but no memory");
  work.input = memory;
  work.output = nullptr;
  EXPECT_EQ(Text(), "tensor 'x' has 14 bytes but no memory");
  work.output = memory + 13;
  EXPECT_NE(Text().find("input and output overlap"), std::string::npos);
  work.output = memory + 14;
  EXPECT_TRUE(Check().ok());
  spec.op = Op::kReducescatter;  // rows 0 to 2, 3 and 4, 5 and 6
  for (size_t at : {6, 14}) {
    work.output = memory + at;
    EXPECT_TRUE(Check().ok()) << at;
  }
  for (size_t at : {0, 5, 7, 13}) {
    work.output = memory + at;
    EXPECT_NE(Text().find("this rank's own rows are in the input"), std::string::npos) << at;
  }
  work.input = memory + 14;
  work.output = memory + 10;
  EXPECT_TRUE(Check().ok()) << "two rows in front of the input";
  spec.op = Op::kAllgather;
  spec.shape = {2};
  work.rows = 3;
  work.output = nullptr;
  EXPECT_TRUE(Check().ok()) << "the result gets memory of its own";
  spec.op = Op::kBarrier;
  work.input = nullptr;
  EXPECT_TRUE(Check().ok());
}

}  // namespace
}  // namespace byteps::operations
