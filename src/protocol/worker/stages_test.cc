// Stages of one's own on the path of a piece: they wait for events and fail without any other stage
// knowing of it.
#include <gtest/gtest.h>

#include <cstring>

#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/worker/worker_for_test.h"

namespace byteps::protocol {
namespace {

// Writes down what enters, and says what the test wants it to say.
class StageForTest final : public PieceStage {
 public:
  StageVerdict Enter(PieceInHand& piece) override {
    entered.push_back(piece.ticket);
    piece.error = Status(StatusCode::kInternal, "the stage of the test failed");
    return says;
  }
  void Abandon(const PieceTicket& ticket) override { abandoned.push_back(ticket); }

  StageVerdict says = StageVerdict::kDone;
  std::vector<PieceTicket> entered;
  std::vector<PieceTicket> abandoned;
};

class StagesTest : public testing::Test {
 protected:
  StagesTest() {
    WorkerOptions options;
    options.paths = [this](const TensorFacts&, PieceStage* exchange) {
      return PiecePath{&before, exchange, &behind};
    };
    worker.emplace(options, pool, arithmetic, driver);
    worker->OnView(ViewFor(2, 1), 0);
    worker->OnShardUp(0);
  }

  void Begin() {
    Operation operation;
    operation.id = 1;
    operation.name = "w";
    operation.spec = {wire::Op::kSum, DataType::kUint8, 0, {8}};
    operation.input = operation.output = memory;
    ASSERT_TRUE(worker->Submit(operation).ok());
    worker->OnDeclared({"w", 0, 0, 7, {0, 1}});
  }

  void Answer(const wire::DataHeader& pushed, const Status& how = Status::Ok()) {
    wire::DataHeader header = pushed;
    header.count = ++answers;
    std::vector<std::byte> bytes(8, std::byte{3});
    if (!how.ok()) {
      wire::ErrorRow row;
      row.Add(header.ref.round, how);
      bytes = row.Encode(header.ref.round);
      header.status = how.code();
    }
    Result<ByteSpan> place = worker->OnAnswerHeader(0, header, bytes.size());
    ASSERT_TRUE(place.ok()) << place.status().message();
    std::copy(bytes.begin(), bytes.end(), place.value().begin());
    worker->OnAnswer(0, kStart);
  }

  StageForTest before;
  StageForTest behind;
  KernelArithmetic arithmetic;
  BufferPool pool;
  RecordingWorkerDriver driver;
  std::optional<Worker> worker;
  std::byte memory[8] = {};
  uint64_t answers = 0;
};

TEST_F(StagesTest, EachStageIsEnteredOnceInOrder) {
  Begin();
  ASSERT_EQ(driver.pushes.size(), 1U);
  EXPECT_EQ(before.entered.size(), 1U);
  EXPECT_TRUE(behind.entered.empty());
  Answer(driver.pushes[0].header);
  EXPECT_EQ(behind.entered.size(), 1U);
  EXPECT_EQ(driver.completions[1], 1);
}

TEST_F(StagesTest, APieceWaitsInAStageForItsEvent) {
  before.says = behind.says = StageVerdict::kPending;
  Begin();
  EXPECT_TRUE(driver.pushes.empty());
  worker->Resume(before.entered.at(0), StageVerdict::kDone);
  ASSERT_EQ(driver.pushes.size(), 1U);
  worker->Resume(before.entered.at(0), StageVerdict::kDone);
  EXPECT_EQ(driver.pushes.size(), 1U) << "an outdated ticket is harmless";
  Answer(driver.pushes[0].header);
  EXPECT_EQ(driver.completions[1], 0);
  worker->Resume(behind.entered.at(0), StageVerdict::kDone);
  EXPECT_EQ(driver.completions[1], 1);
  EXPECT_TRUE(driver.outcomes[1].status.ok());
}

TEST_F(StagesTest, AStageThatFailsBeforeTheExchangeFailsTheRoundForAll) {
  before.says = StageVerdict::kFailed;
  Begin();
  EXPECT_TRUE(driver.pushes.empty());
  ASSERT_EQ(driver.aborts.size(), 1U);
  EXPECT_EQ(driver.completions[1], 0) << "the owner decides";
  wire::DataHeader pushed;
  pushed.ref = driver.aborts[0].second;
  pushed.epoch = pushed.generation = 1;
  Answer(pushed, Status(StatusCode::kDeadlineExceeded, "rank 0: the stage of the test failed"));
  EXPECT_EQ(driver.completions[1], 1);
  EXPECT_EQ(driver.outcomes[1].status.code(), StatusCode::kDeadlineExceeded);
}

// The others have their result: this rank gives up.
TEST_F(StagesTest, AStageThatFailsBehindTheExchangeEndsThisRank) {
  behind.says = StageVerdict::kFailed;
  Begin();
  Answer(driver.pushes.at(0).header);
  EXPECT_EQ(driver.completions[1], 1);
  EXPECT_EQ(driver.outcomes[1].status.code(), StatusCode::kInternal);
  EXPECT_EQ(std::get<wire::Suspect>(driver.control.back()).why, wire::Suspicion::kGaveUp);
}

TEST_F(StagesTest, AnOperationThatEndsAbandonsItsStage) {
  before.says = StageVerdict::kPending;
  Begin();
  worker->Stop({StatusCode::kShutdown, "the test is over"});
  EXPECT_EQ(before.abandoned, before.entered);
  EXPECT_EQ(driver.completions[1], 1);
  worker->Resume(before.entered.at(0), StageVerdict::kDone);
  EXPECT_TRUE(driver.pushes.empty());
}

}  // namespace
}  // namespace byteps::protocol
