#include "src/protocol/worker/front/task.h"

#include <gtest/gtest.h>

#include <cstring>

#include "src/base/allocation_count_for_test.h"
#include "src/operations/sizes.h"
#include "src/protocol/kernel_arithmetic.h"

namespace byteps::protocol {
namespace {

using wire::Op;

class TaskTest : public testing::Test {
 protected:
  // The set has ranks 0 to 2, each a contributor. This rank is 1.
  TaskTest() {
    set.ranks = set.present = {0, 1, 2};
    set.slot_of = {0, 1, 2};
    set.self = 1;
  }

  Task& Make(Op op, std::vector<int64_t> shape, uint64_t rows = 0) {
    spec = {op, DataType::kUint8, 0, std::move(shape)};
    Operation operation;
    operation.name = "w";
    operation.spec = spec;
    operation.input = input;
    operation.output = output;
    operation.rows = rows;
    task.emplace(operation, spec, set, deal);
    task->path = PathOf(task->row.sizes_first, false);
    return *task;
  }

  Copy PlannedCopy() {
    Copy copy;
    EXPECT_TRUE(task->PlanCopy(copy).status.ok());
    return copy;
  }

  static Receipt ReceiptOf(const std::vector<Slot>& slots) {
    auto receipt = std::make_shared<SlotSet>();
    for (Slot slot : slots) receipt->Insert(slot);
    return receipt;
  }

  PlacedSet set;
  Deal deal;
  wire::TensorSpec spec;
  KernelArithmetic arithmetic;
  std::byte input[16] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  std::byte output[16] = {};
  std::optional<Task> task;
};

TEST_F(TaskTest, ItsPiecesLieInTheMemoryOfItsUser) {
  Make(Op::kSum, {16});
  deal.Begin({0, 1});
  ASSERT_TRUE(task->LayOut(64).status.ok());
  DealOptions options{{1}, 8, 3};
  ASSERT_TRUE(deal.Cut(options, "w", 0, task->layout.extent, 64, true).ok());
  Spans spans = task->SpansOf(0);
  EXPECT_EQ(spans.push.data(), input);
  EXPECT_EQ(spans.want.data(), output);
  EXPECT_EQ(spans.piece_bytes, 16U);
}

TEST_F(TaskTest, SizesAreToldInATableThatIsOnePiece) {
  Make(Op::kAllgather, {2}, 3);
  task->at = 1;
  ASSERT_EQ(task->stage(), Stage::kLayout);
  task->MakeTable();
  EXPECT_EQ(task->table, (std::vector<uint64_t>{0, 3, 0}));
  Spans spans = task->SpansOf(0);
  EXPECT_EQ(spans.piece_bytes, 24U);
  EXPECT_EQ(spans.push_offset, 8U);
  EXPECT_EQ(spans.push.size(), 8U);
  EXPECT_EQ(spans.want.size(), 24U);
}

TEST_F(TaskTest, WithAllSizesTheResultHasItsMemoryAndItsOwnPart) {
  Make(Op::kAllgather, {2}, 2);
  task->MakeTable();
  task->table = {1, 2, 1};
  task->work.table = task->table;
  task->outcome.receipt = ReceiptOf({0, 1, 2});
  ASSERT_TRUE(task->LayOut(64).status.ok());
  EXPECT_EQ(task->outcome.gathered_bytes, 8U);
  EXPECT_EQ(task->outcome.rows, 4U);
  Copy own = PlannedCopy();
  EXPECT_EQ(own.to, task->outcome.gathered.get() + 2);
  EXPECT_EQ(own.from, input);
  EXPECT_EQ(own.bytes, 4U);
}

// The rank belongs to a machine whose other ranks take part.
TEST_F(TaskTest, ARankThatTakesNoPartHasNoRowsAndIsNotCounted) {
  set.slot_of = {0, 0, 1};
  set.slots_are_ranks = false;
  Make(Op::kAllgather, {2}, 2);
  task->MakeTable();
  task->table = {operations::kTakesNoPart, 2, 1};
  task->work.table = task->table;
  task->outcome.receipt = ReceiptOf({0, 1});
  ASSERT_TRUE(task->LayOut(64).status.ok());
  EXPECT_EQ(task->outcome.gathered_bytes, 6U);
  EXPECT_EQ(task->outcome.received_splits, (std::vector<int64_t>{0, 2, 1}));
  task->Finish();
  EXPECT_EQ(task->outcome.ranks->List(), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(task->outcome.members, 2U);
}

TEST_F(TaskTest, AResultThatIsTooLargeIsAnErrorOfAllRanks) {
  Make(Op::kAllgather, {2}, 2);
  task->MakeTable();
  task->table = {100, 2, 100};
  task->work.table = task->table;
  task->outcome.receipt = ReceiptOf({0, 1, 2});
  Task::Trouble laid = task->LayOut(64);
  EXPECT_EQ(laid.status.code(), StatusCode::kExhausted);
  EXPECT_FALSE(laid.only_here);
}

TEST_F(TaskTest, WithoutMemoryOnlyThisRankIsInTrouble) {
  Make(Op::kAllgather, {1 << 16}, 1);
  task->MakeTable();
  task->table = {0, 1, 0};
  task->work.table = task->table;
  task->outcome.receipt = ReceiptOf({0, 1, 2});
  NoMemory none(0, 1 << 16);
  Task::Trouble laid = task->LayOut(1 << 20);
  EXPECT_EQ(laid.status.code(), StatusCode::kExhausted);
  EXPECT_TRUE(laid.only_here);
}

// An answer of the first attempt would overwrite the bytes that a second attempt pushes.
TEST_F(TaskTest, AnAtomicInputThatIsOverwrittenIsKept) {
  Make(Op::kSum, {16});
  ASSERT_TRUE(task->LayOut(64).status.ok());
  EXPECT_EQ(PlannedCopy().bytes, 0U) << "it is not atomic";
  EXPECT_EQ(task->work.input, input);
  spec.atomic = true;
  task->work.output = output;
  EXPECT_EQ(PlannedCopy().bytes, 0U) << "its result lies elsewhere";
  EXPECT_EQ(task->work.input, input);
  task->work.output = input;
  Copy kept = PlannedCopy();
  EXPECT_EQ(kept.from, input);
  EXPECT_EQ(kept.bytes, 16U);
  EXPECT_NE(task->work.input, input);
  EXPECT_EQ(task->work.input, kept.to);
}

TEST_F(TaskTest, ARootsResultIsItsInput) {
  Make(Op::kBroadcast, {16});
  EXPECT_EQ(PlannedCopy().bytes, 0U) << "rank 0 is the root";
  spec.root = 1;
  Copy own = PlannedCopy();
  EXPECT_EQ(own.to, output);
  EXPECT_EQ(own.from, input);
  EXPECT_EQ(own.bytes, 16U);
  task->operation.output = input;
  EXPECT_EQ(PlannedCopy().bytes, 0U) << "in place";
}

TEST_F(TaskTest, AloneTheInputIsTheResult) {
  set.ranks = set.present = {0};
  set.slot_of = {0};
  set.self = 0;
  Make(Op::kSum, {16});
  ASSERT_TRUE(task->KeepAlone(arithmetic).status.ok());
  EXPECT_EQ(std::memcmp(output, input, 16), 0);
  Make(Op::kAllgather, {2}, 3);
  ASSERT_TRUE(task->KeepAlone(arithmetic).status.ok());
  EXPECT_EQ(task->outcome.gathered_bytes, 6U);
  EXPECT_EQ(task->outcome.rows, 3U);
  EXPECT_EQ(task->outcome.received_splits, (std::vector<int64_t>{3}));
}

TEST_F(TaskTest, WhoseBytesAllGetMustBeInTheReceipt) {
  Make(Op::kBroadcast, {16});
  spec.root = 2;
  task->outcome.receipt = ReceiptOf({1, 2});
  EXPECT_TRUE(task->CheckReceipt().ok());
  task->outcome.receipt = ReceiptOf({0, 1});
  EXPECT_EQ(task->CheckReceipt().code(), StatusCode::kPeerLost);
  EXPECT_NE(task->CheckReceipt().message().find("rank 2"), std::string::npos);
  Make(Op::kSum, {16});
  task->outcome.receipt = ReceiptOf({1});
  EXPECT_TRUE(task->CheckReceipt().ok()) << "a sum needs nobody";
}

TEST_F(TaskTest, WhoIsInItIsToldInRanks) {
  set.slot_of = {0, 0, 2};  // ranks 0 and 1 are one contributor
  set.slots_are_ranks = false;
  Make(Op::kSum, {16});
  task->outcome.receipt = ReceiptOf({0});
  task->Finish();
  EXPECT_EQ(task->outcome.ranks->List(), (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(task->outcome.members, 2U);
}

TEST_F(TaskTest, AResultSaysWhetherItIsThatOfEveryLayout) {
  const auto is_of_any = [this](Op op, DataType type, plan::SumBits bits) {
    set.sum_bits = bits;
    Make(op, {4});
    task->operation.spec.dtype = type;
    task->outcome.receipt = ReceiptOf({0, 1, 2});
    task->Finish();
    return task->outcome.any_layout;
  };
  EXPECT_TRUE(is_of_any(Op::kSum, DataType::kFloat32, plan::SumBits::kOnMachines));
  EXPECT_FALSE(is_of_any(Op::kSum, DataType::kFloat32, plan::SumBits::kOnPlacement));
  EXPECT_FALSE(is_of_any(Op::kAverage, DataType::kBfloat16, plan::SumBits::kOnMachines));
  EXPECT_TRUE(is_of_any(Op::kMax, DataType::kBfloat16, plan::SumBits::kOnPlacement));
  EXPECT_TRUE(is_of_any(Op::kSum, DataType::kBfloat16, plan::SumBits::kOnNothingElse));
  task->operation.spec.codec = 3;
  task->Finish();
  EXPECT_FALSE(task->outcome.any_layout) << "the codec rounds";
  task->operation.spec.codec = 0;
  task->outcome.mixed = true;
  task->Finish();
  EXPECT_FALSE(task->outcome.any_layout) << "parts have other ranks";
}

}  // namespace
}  // namespace byteps::protocol
