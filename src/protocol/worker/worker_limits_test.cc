// Tests of a worker with very many operations, and with memory that does not suffice or is not as
// it should be.
#include <gtest/gtest.h>

#include "src/base/allocation_count_for_test.h"
#include "src/operations/row.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/worker/worker_for_test.h"

namespace byteps::protocol {
namespace {

using wire::Op;

// The maximum number of wants that a worker keeps for tensors that it does not know yet.
constexpr uint32_t kUnknownWantsMax = 65536;

class WorkerLimitsTest : public testing::Test {
 protected:
  void Start(uint64_t credit = 1 << 20, bool alone = false) {
    WorkerOptions options;
    options.credit.fixed_bytes = credit;
    worker.emplace(options, pool, arithmetic, driver);
    worker->OnView(alone ? ViewFor(1, 0) : ViewFor(2, 1), 0);
    if (!alone) worker->OnShardUp(0);
  }
  void StartAlone() { Start(1 << 20, true); }

  // Makes an operation in place on `bytes`, with rows of one byte.
  Operation Make(Op op, const std::string& name, std::string& bytes) {
    auto count = static_cast<int64_t>(bytes.size());
    Operation operation;
    operation.id = ++last_id;
    operation.name = name;
    bool gather = op == Op::kAllgather;
    operation.spec = {op, DataType::kUint8, 0, {gather ? 1 : count}};
    if (gather) operation.rows = bytes.size();
    operation.input = operation.output = reinterpret_cast<std::byte*>(bytes.data());
    return operation;
  }

  // Lets memory run out at each point of Submit in turn, until it suffices.
  void SubmitWithLittleMemory(Op op) {
    std::string bytes(64, 'x');
    for (uint64_t successes = 0; successes < 1000; ++successes) {
      Operation operation = Make(op, "a name that does not fit into the string itself", bytes);
      try {
        NoMemory none(successes);
        EXPECT_TRUE(worker->Submit(std::move(operation)).ok());
        return;
      } catch (const std::bad_alloc&) {
        EXPECT_EQ(worker->open_operations(), 0u) << successes;
      }
    }
    ADD_FAILURE() << "it never suffices";
  }

  Status Submit(OperationId id, const std::string& name) {
    Operation operation;
    operation.id = id;
    operation.name = name;
    operation.spec = {Op::kSum, DataType::kUint8, 0, {64}};
    operation.input = operation.output = memory;
    return worker->Submit(operation);
  }

  void Declared(const std::string& name, TensorId tensor) {
    worker->OnDeclared({name, 0, 0, tensor, {0, 1}});
  }

  std::vector<TensorId> Pushed() const {
    std::vector<TensorId> tensors;
    for (const SentPush& push : driver.pushes) tensors.push_back(push.header.ref.tensor);
    return tensors;
  }

  static wire::PieceRef FirstPieceOf(TensorId tensor) { return {tensor, 0, wire::RoundOf(1, 0)}; }

  std::byte memory[64] = {};
  OperationId last_id = 0;
  BufferPool pool;
  KernelArithmetic arithmetic;
  RecordingWorkerDriver driver;
  std::optional<Worker> worker;
};

// The credit is one piece, so a piece that leaves beyond it is wanted.
TEST_F(WorkerLimitsTest, EachDeclarationTakesTheWantsOfItsTensor) {
  Start(1);
  worker->OnFrame(0, wire::Want{{FirstPieceOf(9), FirstPieceOf(7), FirstPieceOf(9)}});
  for (OperationId id = 6; id <= 9; ++id) {
    ASSERT_TRUE(Submit(id, "w" + std::to_string(id)).ok());
  }
  for (TensorId tensor : {6, 8, 9, 7}) Declared("w" + std::to_string(tensor), tensor);
  EXPECT_EQ(Pushed(), (std::vector<TensorId>{6, 9, 7}));
}

TEST_F(WorkerLimitsTest, WantsOfUnknownTensorsAreBoundedAndMakeRoomAgain) {
  Start(1);
  std::vector<wire::PieceRef> wants;
  for (uint32_t i = 0; i < kUnknownWantsMax; ++i) wants.push_back(FirstPieceOf(100 + i));
  wants.push_back(FirstPieceOf(8));
  worker->OnFrame(0, wire::Want{wants});
  for (OperationId id : {6, 8, 100}) ASSERT_TRUE(Submit(id, "w" + std::to_string(id)).ok());
  Declared("w6", 6);
  Declared("w8", 8);
  EXPECT_EQ(Pushed(), (std::vector<TensorId>{6})) << "there was no room for that want";
  Declared("w100", 100);
  EXPECT_EQ(Pushed(), (std::vector<TensorId>{6, 100}));
  worker->OnFrame(0, wire::Want{{FirstPieceOf(9)}});
  ASSERT_TRUE(Submit(9, "w9").ok());
  Declared("w9", 9);
  EXPECT_EQ(Pushed(), (std::vector<TensorId>{6, 100, 9})) << "there is room again";
}

TEST_F(WorkerLimitsTest, AnAbortConcernsItsOperationWhileThatIsOpen) {
  Start();
  for (OperationId id : {21, 22, 23}) ASSERT_TRUE(Submit(id, "w" + std::to_string(id)).ok());
  for (TensorId tensor : {23, 22, 21}) Declared("w" + std::to_string(tensor), tensor);
  worker->Abort(22, "too late");
  worker->Abort(24, "there is none");
  EXPECT_EQ(driver.aborts,
            (std::vector<std::pair<ShardId, wire::PieceRef>>{{0, FirstPieceOf(22)}}));
  worker->OnDeclareFailed({"w23", {0, 0, 1}, {23}, StatusCode::kMismatch, "ranks disagree", {}});
  EXPECT_EQ(worker->open_operations(), 2u);
  worker->Abort(23, "it has ended");
  EXPECT_EQ(driver.aborts.size(), 1u);
}

// Input and output may be the same or apart. If they overlap in part, an answer overwrites bytes
// that have not been sent.
TEST_F(WorkerLimitsTest, MemoryThatOverlapsInPartIsRefused) {
  Start();
  for (Op op : {Op::kSum, Op::kAverage, Op::kMin, Op::kMax, Op::kProduct, Op::kBroadcast}) {
    for (ptrdiff_t distance = -17; distance <= 17; ++distance) {
      Operation operation;
      operation.id = ++last_id;
      operation.name = "w" + std::to_string(last_id);
      operation.spec = {op, DataType::kUint8, 0, {16}};
      operation.input = memory + 20;
      operation.output = memory + 20 + distance;
      Status accepted = worker->Submit(operation);
      bool apart = distance <= -16 || distance == 0 || distance >= 16;
      EXPECT_EQ(accepted.ok(), apart) << operations::NameOf(op) << " " << distance;
      if (apart) continue;
      EXPECT_EQ(accepted.code(), StatusCode::kInvalidArgument);
      EXPECT_NE(accepted.message().find("give the same memory"), std::string::npos);
    }
  }
}

TEST_F(WorkerLimitsTest, ASubmitThatFindsNoMemoryLeavesNothingBehind) {
  for (Op op : {Op::kSum, Op::kAllgather}) {
    StartAlone();
    SubmitWithLittleMemory(op);
    EXPECT_EQ(driver.completions[last_id], 1);
    EXPECT_TRUE(driver.outcomes[last_id].status.ok());
  }
  Start();
  SubmitWithLittleMemory(Op::kSum);
  EXPECT_EQ(worker->open_operations(), 1u);
  Declared(std::get<wire::Declare>(driver.control.back()).name, 7);
  EXPECT_EQ(Pushed(), (std::vector<TensorId>{7}));
  worker->Stop({StatusCode::kShutdown, "the test is over"});
  EXPECT_EQ(driver.completions[last_id], 1);
}

TEST_F(WorkerLimitsTest, AnAllgatherAloneWithoutMemoryForItsResultFails) {
  StartAlone();
  std::string bytes(1 << 20, 'x');
  {
    NoMemory none(0, bytes.size());
    EXPECT_TRUE(worker->Submit(Make(Op::kAllgather, "g", bytes)).ok());
  }
  EXPECT_EQ(driver.outcomes[last_id].status.code(), StatusCode::kExhausted);
  EXPECT_TRUE(driver.control.empty()) << "nobody waits for it";
  EXPECT_TRUE(worker->Submit(Make(Op::kAllgather, "g", bytes)).ok());
  EXPECT_TRUE(driver.outcomes[last_id].status.ok());
}

// The others would wait for this rank's part for ever, so the job ends.
TEST_F(WorkerLimitsTest, AnAtomicSumWithoutMemoryToKeepItsInputIsGivenUp) {
  Start();
  std::string bytes(1 << 20, 'x');
  Operation operation = Make(Op::kSum, "w", bytes);
  operation.spec.atomic = true;
  ASSERT_TRUE(worker->Submit(operation).ok());
  {
    NoMemory none(0, bytes.size());
    Declared("w", 7);
  }
  EXPECT_EQ(driver.outcomes[last_id].status.code(), StatusCode::kExhausted);
  EXPECT_NE(driver.outcomes[last_id].status.message().find("'w'"), std::string::npos);
  EXPECT_EQ(std::get<wire::Suspect>(driver.control.back()).why, wire::Suspicion::kGaveUp);
  EXPECT_TRUE(driver.pushes.empty());
}

}  // namespace
}  // namespace byteps::protocol
