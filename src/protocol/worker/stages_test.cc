// Tests of a user's own stages on the path of a piece. They wait for events and fail, and no other
// stage knows about it.
#include <gtest/gtest.h>

#include <cstring>

#include "src/protocol/codec_for_test.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/worker/lane/codec_stages.h"
#include "src/protocol/worker/worker_for_test.h"

namespace byteps::protocol {
namespace {

// Records what enters, and returns the verdict that the test sets.
class StageForTest final : public PieceStage {
 public:
  StageVerdict Enter(PieceInHand& piece) override {
    entered.push_back(piece.ticket);
    verdict = piece.verdict;
    has_input = piece.input.has_value();
    piece.error = Status(StatusCode::kInternal, "the stage of the test failed");
    return says;
  }
  void Abandon(const PieceTicket& ticket) override { abandoned.push_back(ticket); }

  StageVerdict says = StageVerdict::kDone;
  StatusCode verdict = StatusCode::kOk;
  bool has_input = false;
  std::vector<PieceTicket> entered;
  std::vector<PieceTicket> abandoned;
};

class OnePath final : public PiecePaths {
 public:
  explicit OnePath(PiecePath path) : path_(std::move(path)) {}
  const PiecePath& PathOf(const Exchange&) override { return path_; }

 private:
  const PiecePath path_;
};

class StagesTest : public testing::Test {
 protected:
  StagesTest() {
    WorkerOptions options;
    options.paths = [this](const StageTools&) {
      return std::make_unique<OnePath>(PiecePath{{&before}, {&behind}});
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

// This lets a stage that keeps something take back what it did with bytes that do not count.
TEST_F(StagesTest, TheStagesBehindTheExchangeHearOfAnErrorAndHaveNoInput) {
  Begin();
  EXPECT_TRUE(before.has_input);
  Answer(driver.pushes.at(0).header, Status(StatusCode::kDeadlineExceeded, "rank 1 is late"));
  EXPECT_EQ(behind.entered.size(), 1U);
  EXPECT_EQ(behind.verdict, StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(behind.has_input);
  EXPECT_EQ(driver.outcomes[1].status.code(), StatusCode::kDeadlineExceeded);
}

// The others have their result, so this rank gives up.
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

// The first entry has been abandoned, and the piece waits in another stage.
TEST_F(StagesTest, AnOutdatedEntryIsNotResumed) {
  before.says = behind.says = StageVerdict::kPending;
  Begin();
  PieceTicket first = before.entered.at(0);
  worker->Resume(first, StageVerdict::kDone);
  Answer(driver.pushes.at(0).header);
  worker->Resume(first, StageVerdict::kDone);
  EXPECT_EQ(driver.completions[1], 0);
  worker->Resume(behind.entered.at(0), StageVerdict::kFailed, {StatusCode::kInternal, "broken"});
  EXPECT_EQ(driver.outcomes[1].status.message(), "broken");
}

// The memory is a device's, so the lane must not touch it.
class DevicePaths final : public PiecePaths {
 public:
  explicit DevicePaths(const StageTools& tools) : encode_(tools.codecs), decode_(tools.codecs) {}
  const PiecePath& PathOf(const Exchange& exchange) override {
    asked.push_back(exchange.memory);
    const bool coded = exchange.tensor.codec != 0;
    if (exchange.memory == Memory::kDevice) return coded ? coded_device_ : device_;
    return coded ? coded_host_ : host_;
  }

  std::vector<Memory> asked;

 private:
  // A byte of the device is the host's byte plus one.
  class Fetch final : public PieceStage {
    StageVerdict Enter(PieceInHand& piece) override {
      ByteSpan host = piece.MakeOutput(piece.input->size());
      for (size_t i = 0; i < host.size(); ++i) {
        host[i] = std::byte(std::to_integer<int>((*piece.input)[i]) - 1);
      }
      return StageVerdict::kDone;
    }
  };
  class Store final : public PieceStage {
    StageVerdict Enter(PieceInHand& piece) override {
      if (!piece.input.has_value()) return StageVerdict::kDone;
      for (size_t i = 0; i < piece.input->size(); ++i) {
        piece.spans.want[i] = std::byte(std::to_integer<int>((*piece.input)[i]) + 1);
      }
      return StageVerdict::kDone;
    }
  };

  Fetch fetch_;
  Store store_;
  EncodeStage encode_;
  DecodeStage decode_;
  const PiecePath host_;
  const PiecePath coded_host_{{&encode_}, {&decode_}};
  const PiecePath device_{{&fetch_}, {&store_}, true};
  const PiecePath coded_device_{{&fetch_, &encode_}, {&decode_, &store_}, true};
};

class DeviceStagesTest : public testing::Test {
 protected:
  DeviceStagesTest() {
    WorkerOptions options;
    options.codecs = &codecs;
    options.credit.fixed_bytes = 1;
    options.paths = [this](const StageTools& tools) {
      auto made = std::make_unique<DevicePaths>(tools);
      paths = made.get();
      return made;
    };
    worker.emplace(options, pool, arithmetic, driver);
    worker->OnView(ViewFor(2, 1), 0);
    worker->OnShardUp(0);
  }

  // Records what the round with this input pushes, and the output after the shard has answered with
  // the same bytes.
  void Use(OperationId id, Memory memory, std::string bytes,
           uint8_t codec = CodecsForTest::kBfloat16) {
    Operation operation;
    operation.id = id;
    operation.name = "w";
    operation.spec = {wire::Op::kSum, DataType::kFloat32, 0, {2}};
    operation.spec.codec = codec;
    operation.input = reinterpret_cast<const std::byte*>(bytes.data());
    operation.output = output;
    operation.memory = memory;
    ASSERT_TRUE(worker->Submit(operation).ok());
    worker->OnDeclared({"w", 0, 0, 7, {0, 1}});
    const SentPush push = driver.pushes.back();
    pushed.assign(reinterpret_cast<const char*>(push.payload.data()), push.payload.size());
    wire::DataHeader header = push.header;
    header.count = id;
    header.unstable = 1;  // others lack what this rank has
    Result<ByteSpan> place = worker->OnAnswerHeader(0, header, pushed.size());
    ASSERT_TRUE(place.ok()) << place.status().message();
    std::ranges::copy(std::as_bytes(std::span(pushed)), place.value().begin());
    worker->OnAnswer(0, kStart);
    EXPECT_TRUE(driver.outcomes[id].status.ok());
    result.assign(reinterpret_cast<const char*>(output), sizeof(output));
  }

  CodecsForTest codecs;
  KernelArithmetic arithmetic;
  BufferPool pool;
  RecordingWorkerDriver driver;
  std::optional<Worker> worker;
  DevicePaths* paths = nullptr;
  std::byte output[8];
  std::string pushed;
  std::string result;
};

TEST_F(DeviceStagesTest, EachStageTakesWhatTheStageBeforeItHasMade) {
  Use(1, Memory::kDevice, "0abc0xyz");
  EXPECT_EQ(pushed, "abxy") << "the upper halves of what was fetched";
  EXPECT_EQ(result, std::string("\1\1bc\1\1yz", 8)) << "decoded, and then stored";
}

TEST_F(DeviceStagesTest, APathIsChosenForEachUse) {
  Use(1, Memory::kHost, "00ab00xy");
  EXPECT_EQ(pushed, "abxy");
  EXPECT_EQ(result, std::string("\0\0ab\0\0xy", 8));
  Use(2, Memory::kDevice, "00bc00yz");
  EXPECT_EQ(pushed, "abxy");
  EXPECT_EQ(result, std::string("\1\1bc\1\1yz", 8));
  Use(3, Memory::kHost, "00ab00xy");
  EXPECT_EQ(pushed, "abxy");
}

// A shard that lacks the verdict is told the bytes that were sent, because the lane cannot read a
// device's memory.
TEST_F(DeviceStagesTest, TheVerdictWaitsInABufferAndIsKeptFromThere) {
  Use(1, Memory::kDevice, "bcdefghi", 0);
  EXPECT_EQ(pushed, "abcdefgh");
  EXPECT_EQ(result, "bcdefghi");
  std::ranges::fill(output, std::byte{'!'});
  worker->OnShardDown(0);
  worker->OnShardUp(0);
  ASSERT_EQ(driver.verdicts.size(), 1U);
  EXPECT_EQ(driver.verdicts[0].bytes.substr(driver.verdicts[0].header.receipt), "abcdefgh");
}

// The test has two pieces, one after the other.
TEST_F(DeviceStagesTest, WhatARootHasPushedIsKeptAsItWasFetched) {
  std::string bytes(8192, 'b');
  Operation operation;
  operation.id = 1;
  operation.name = "w";
  operation.spec = {wire::Op::kBroadcast, DataType::kUint8, 0, {8192}};
  operation.input = operation.output = reinterpret_cast<std::byte*>(bytes.data());
  operation.memory = Memory::kDevice;
  ASSERT_TRUE(worker->Submit(operation).ok());
  worker->OnDeclared({"w", 0, 0, 7, {0, 1}});
  ASSERT_EQ(driver.pushes.size(), 1U) << "the other one has no credit";
  wire::DataHeader header = driver.pushes[0].header;
  header.count = header.unstable = 1;
  ASSERT_TRUE(worker->OnAnswerHeader(0, header, 0).ok());
  worker->OnAnswer(0, kStart);
  worker->OnShardDown(0);
  worker->OnShardUp(0);
  ASSERT_EQ(driver.verdicts.size(), 1U);
  EXPECT_EQ(driver.verdicts[0].bytes.substr(driver.verdicts[0].header.receipt),
            std::string(4096, 'a'));
}

TEST_F(DeviceStagesTest, SizesAreToldFromTheMemoryOfTheHost) {
  Operation operation;
  operation.id = 1;
  operation.name = "w";
  operation.spec = {wire::Op::kAllgather, DataType::kUint8, 0, {}};
  operation.rows = sizeof(output);
  operation.input = output;
  operation.memory = Memory::kDevice;
  ASSERT_TRUE(worker->Submit(operation).ok());
  worker->OnDeclared({"w", 0, 0, 7, {0, 1}});
  EXPECT_EQ(paths->asked, std::vector<Memory>{Memory::kHost});
}

}  // namespace
}  // namespace byteps::protocol
