#include "src/protocol/worker/front/front.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "src/protocol/codec_for_test.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/protocol_for_test.h"
#include "src/protocol/worker/worker_mistakes_for_test.h"
#include "src/wire/join_word.h"

namespace byteps::protocol {
namespace {

class RecordingFrontDriver final : public FrontDriver {
 public:
  void SendControl(const wire::Message& message) override { control.push_back(message); }
  void ToLane(uint32_t lane, LaneMail mail) override { mails.emplace_back(lane, std::move(mail)); }
  void Complete(OperationId id, Outcome outcome) override {
    ++completions[id];
    outcomes[id] = std::move(outcome);
  }
  void OnSettled() override { ++settled; }

  template <typename Mail>
  std::vector<Mail> To(uint32_t lane) const {
    std::vector<Mail> found;
    for (const auto& [to, mail] : mails) {
      const Mail* one = std::get_if<Mail>(&mail);
      if (to == lane && one != nullptr) found.push_back(*one);
    }
    return found;
  }

  std::vector<wire::Message> control;
  std::vector<std::pair<uint32_t, LaneMail>> mails;
  std::map<OperationId, int> completions;
  std::map<OperationId, Outcome> outcomes;
  int settled = 0;
};

// A front with two lanes whose mail the test answers.
class FrontTest : public testing::Test {
 protected:
  Front& Start() {
    options.lanes = 2;
    front.emplace(options, arithmetic, driver);
    front->OnView(view, 0, 0);
    return *front;
  }
  Status Submit(OperationId id, wire::Op op = wire::Op::kSum, const std::string& name = "w") {
    Operation operation;
    operation.id = id;
    operation.name = name;
    operation.spec = {op, DataType::kUint8, 0, {8}};
    if (op == wire::Op::kJoin) operation.spec.shape.clear();
    operation.input = operation.output = memory;
    return front->Submit(operation);
  }
  // Submits the operation and answers for the coordinator, so that the lanes are told of an
  // exchange.
  const Exchange& Begin(OperationId id, wire::Op op = wire::Op::kSum) {
    EXPECT_TRUE(Submit(id, op).ok());
    front->OnDeclared({"w", 0, 0, 7, {0, 0, 2}});
    return *driver.To<to_lane::Begin>(0).back().exchange;
  }
  // Submits a broadcast with this rank as its root. The front copies its input to the result.
  Status SubmitOutOfPlace(OperationId id) {
    Operation operation;
    operation.id = id;
    operation.name = "w";
    operation.spec = {wire::Op::kBroadcast, DataType::kUint8, 0, {8}};
    operation.input = memory;
    operation.output = output;
    Status accepted = front->Submit(operation);
    front->OnDeclared({"w", 0, 0, 7, {0, 0, 2}});
    return accepted;
  }
  bool HasBegun() const { return !driver.To<to_lane::Begin>(0).empty(); }
  void PartDone(uint32_t lane, uint32_t pieces, const Status& status = Status::Ok()) {
    to_front::PartDone part;
    part.lane = lane;
    part.serial = driver.To<to_lane::Begin>(0).back().exchange->serial;
    part.pieces = pieces;
    part.status = status;
    if (!status.ok()) part.failed_piece = 0;
    auto receipt = std::make_shared<SlotSet>();
    receipt->Insert(0);
    receipt->Insert(1);
    if (pieces > 0 && status.ok()) part.receipt = receipt;
    front->OnMail(part);
  }
  void HandOver(uint32_t lane) { front->OnMail(to_front::HandOver{lane, view.epoch, {{}, {}}}); }
  static wire::DeclareFailed Failure(uint64_t round) {
    return {"w", {0, 0, round}, {7}, StatusCode::kMismatch, "ranks disagree", {}};
  }

  std::byte memory[64] = {};
  std::byte output[8] = {};
  wire::View view = ViewFor(2, 2);
  FrontOptions options;
  KernelArithmetic arithmetic;
  RecordingFrontDriver driver;
  std::optional<Front> front;
};

TEST_F(FrontTest, AnOperationEndsWhenItsLanesHaveAllSpoken) {
  Start();
  const Exchange& exchange = Begin(1);
  EXPECT_EQ(exchange.count, 1U);
  EXPECT_EQ(exchange.use, 1U);
  EXPECT_EQ(driver.To<to_lane::Begin>(1).size(), 1U) << "also a lane without pieces";
  PartDone(0, 1);
  EXPECT_TRUE(driver.completions.empty());
  PartDone(1, 0);
  EXPECT_EQ(driver.completions[1], 1);
  EXPECT_TRUE(driver.outcomes[1].status.ok());
  EXPECT_EQ(driver.outcomes[1].members, 2U);
  EXPECT_EQ(front->open_operations(), 0U);
}

// When the operation ends, its memory belongs to the user again, so no lane may still receive into
// it.
TEST_F(FrontTest, AnOperationThatFailsEndsWhenEveryLaneHasLetGoOfItsMemory) {
  Start();
  const uint64_t serial = Begin(1).serial;
  front->OnDeclareFailed(Failure(1));
  EXPECT_EQ(driver.To<to_lane::Withdraw>(0).size(), 1U);
  EXPECT_TRUE(driver.completions.empty());
  front->OnMail(to_front::Released{1, serial, 7});
  front->OnMail(to_front::Released{1, serial, 7});
  PartDone(0, 1);
  EXPECT_TRUE(driver.completions.empty()) << "lane 0 may still receive";
  EXPECT_EQ(Submit(2).code(), StatusCode::kDuplicateName);
  front->OnMail(to_front::Released{0, serial, 7});
  EXPECT_EQ(driver.completions[1], 1);
  EXPECT_EQ(driver.outcomes[1].status.code(), StatusCode::kMismatch);
  front->OnMail(to_front::Released{0, serial, 7});
  EXPECT_EQ(driver.completions[1], 1);
}

TEST_F(FrontTest, ToEndItBeforeThatIsAMistakeThatShows) {
  options.rules = &FrontRulesWith(WorkerMistake::kEndBeforeReleased);
  Start();
  Begin(1);
  front->OnDeclareFailed(Failure(1));
  EXPECT_EQ(driver.completions[1], 1);
}

TEST_F(FrontTest, StopEndsWhatIsAtTheLanesWhenTheyHaveLetGoAndTheRestAtOnce) {
  Start();
  const uint64_t serial = Begin(1).serial;
  ASSERT_TRUE(Submit(2, wire::Op::kSum, "waits for its declaration").ok());
  front->Stop({StatusCode::kShutdown, "the end"});
  EXPECT_EQ(driver.completions[2], 1);
  EXPECT_EQ(driver.completions[1], 0);
  for (uint32_t lane : {0U, 1U}) front->OnMail(to_front::Released{lane, serial, 7});
  EXPECT_EQ(driver.completions[1], 1);
  EXPECT_EQ(Submit(3).code(), StatusCode::kShutdown);
}

TEST_F(FrontTest, AnErrorOfTheExchangeNeedsNoRelease) {
  Start();
  Begin(1);
  PartDone(1, 0);
  PartDone(0, 1, {StatusCode::kPeerLost, "rank 1 is gone"});
  EXPECT_EQ(driver.completions[1], 1);
  EXPECT_EQ(driver.outcomes[1].status.message(), "rank 1 is gone");
  EXPECT_TRUE(driver.To<to_lane::Withdraw>(0).empty()) << "it was over";
}

// The late mail is about an exchange that is over, or from an earlier time of the lanes.
TEST_F(FrontTest, MailThatComesLateChangesNothing) {
  Start();
  const uint64_t first = Begin(1).serial;
  PartDone(0, 1);
  PartDone(1, 0);
  ASSERT_TRUE(Submit(2).ok());
  const Exchange& second = *driver.To<to_lane::Begin>(0).back().exchange;
  EXPECT_NE(second.serial, first);
  EXPECT_EQ(second.use, 2U);
  to_front::PartDone late;
  late.serial = first;
  late.pieces = 1;
  front->OnMail(late);
  front->OnMail(to_front::Released{0, first, 7});
  front->OnMail(to_front::HandOver{0, 9, {{}, {}}});
  front->OnMail(to_front::Settled{9});
  EXPECT_EQ(driver.completions[2], 0);
  EXPECT_EQ(driver.settled, 0);
}

TEST_F(FrontTest, WhileAViewMovesPiecesNothingBegins) {
  Start();
  ++view.epoch;
  front->OnView(view, 0, 0);
  ASSERT_TRUE(Submit(1).ok());
  front->OnDeclared({"w", 0, 0, 7, {0, 0, 2}});
  EXPECT_TRUE(driver.To<to_lane::Begin>(0).empty());
  HandOver(0);
  HandOver(1);
  EXPECT_EQ(driver.To<to_lane::TakeOver>(1).size(), 1U);
  EXPECT_EQ(driver.To<to_lane::Begin>(0).size(), 1U);
}

// Every rank that has the verdict tells it to the new owners.
TEST_F(FrontTest, AnOperationWhosePiecesMoveEndsWellIfTheNextOneFails) {
  Start();
  Begin(1);
  front->OnDeclareFailed(Failure(2));
  ++view.epoch;
  front->OnView(view, 0, 0);
  HandOver(0);
  HandOver(1);
  EXPECT_TRUE(driver.To<to_lane::Withdraw>(0).empty());
  PartDone(0, 1);
  PartDone(1, 0);
  EXPECT_TRUE(driver.outcomes[1].status.ok());
  ASSERT_TRUE(Submit(2).ok());
  EXPECT_EQ(driver.outcomes[2].status.code(), StatusCode::kMismatch);
  EXPECT_EQ(driver.To<to_lane::Retire>(0).size(), 1U);
}

TEST_F(FrontTest, TheLanesAreAskedAgainAfterEachView) {
  Start();
  front->Settle();
  uint64_t question = driver.To<to_lane::Settle>(0).back().question;
  front->OnMail(to_front::Settled{question});
  ++view.epoch;
  front->OnView(view, 0, 0);
  front->OnMail(to_front::Settled{question});
  EXPECT_EQ(driver.settled, 0) << "the view may have moved something to the lane that answered";
  question = driver.To<to_lane::Settle>(0).back().question;
  for (int lane = 0; lane < 2; ++lane) front->OnMail(to_front::Settled{question});
  EXPECT_EQ(driver.settled, 1);
}

TEST_F(FrontTest, AJoinIsToldToTheLanesAndTakenBackWhenAllHaveJoined) {
  Start();
  Begin(1, wire::Op::kJoin);
  ASSERT_EQ(driver.To<to_lane::Joined>(0).size(), 1U);
  EXPECT_EQ(driver.To<to_lane::Joined>(0)[0].number, 1U);
  EXPECT_EQ(Submit(2, wire::Op::kSum, "other").code(), StatusCode::kInvalidArgument);
  PartDone(0, 1);
  PartDone(1, 0);
  EXPECT_EQ(driver.To<to_lane::Joined>(1).back().number, 0U);
  EXPECT_TRUE(Submit(2, wire::Op::kSum, "other").ok());
}

TEST_F(FrontTest, AJoinSaysInHowManyOperationsThisRankHasTakenPart) {
  Start();
  Begin(1);
  PartDone(0, 1);
  PartDone(1, 0);
  ASSERT_TRUE(Submit(2, wire::Op::kJoin, "join").ok());
  front->OnDeclared({"join", 0, 0, 8, {0, 0, 2}});
  const Exchange& exchange = *driver.To<to_lane::Begin>(0).back().exchange;
  const Spans spans = exchange.spans->SpansOf(0);
  uint64_t word = 0;
  ASSERT_EQ(spans.push.size(), sizeof(word));
  std::memcpy(&word, spans.push.data(), sizeof(word));
  EXPECT_EQ(word, wire::JoinWordOf(1, 0));
  // The verdict carries the word of the rank that joined last.
  word = wire::JoinWordOf(2, 1);
  std::memcpy(spans.want.data(), &word, sizeof(word));
  PartDone(0, 1);
  PartDone(1, 0);
  EXPECT_EQ(driver.outcomes[2].rows, 1U);
}

TEST_F(FrontTest, AProcessSetIsToldToTheLanesAndKeptWhileAnOperationOfItIsOpen) {
  Start();
  ASSERT_TRUE(front->AddProcessSet(4, {0, 1}).ok());
  EXPECT_EQ(driver.To<to_lane::AddProcessSet>(1).back().ranks.List(),
            (std::vector<uint32_t>{0, 1}));
  ASSERT_TRUE(front->AddProcessSet(5, {1}).ok());
  EXPECT_TRUE(driver.To<to_lane::AddProcessSet>(0).back().ranks.empty()) << "it is not in it";
  Operation operation;
  operation.id = 1;
  operation.name = "w";
  operation.spec = {wire::Op::kSum, DataType::kUint8, 0, {8}, false, wire::Op::kSum, 4};
  operation.input = operation.output = memory;
  ASSERT_TRUE(front->Submit(operation).ok());
  EXPECT_EQ(front->RemoveProcessSet(4).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(front->RemoveProcessSet(5).ok());
  EXPECT_EQ(driver.To<to_lane::RemoveProcessSet>(0).size(), 1U);
}

// Copying gigabytes takes longer than a rank may be silent.
TEST_F(FrontTest, ALargeCopyIsDoneInSlicesBeforeTheExchange) {
  options.copy_slice_bytes = 3;
  Start();
  ASSERT_TRUE(SubmitOutOfPlace(1).ok());
  memory[7] = std::byte{5};
  EXPECT_FALSE(HasBegun());
  for (int slice = 0; slice < 3; ++slice) {
    EXPECT_FALSE(HasBegun());
    ASSERT_TRUE(front->NextTick().has_value());
    front->OnTick(*front->NextTick());
  }
  EXPECT_TRUE(HasBegun());
  EXPECT_EQ(output[7], std::byte{5});
  PartDone(0, 1);
  PartDone(1, 0);
  EXPECT_EQ(driver.completions[1], 1);
}

TEST_F(FrontTest, AnOperationThatFailsDuringItsCopyEndsAtOnce) {
  options.copy_slice_bytes = 3;
  Start();
  ASSERT_TRUE(SubmitOutOfPlace(1).ok());
  front->OnTick(*front->NextTick());
  front->OnDeclareFailed(Failure(1));
  EXPECT_EQ(driver.outcomes[1].status.code(), StatusCode::kMismatch);
  memory[7] = std::byte{5};
  while (front->NextTick().has_value()) front->OnTick(*front->NextTick());
  EXPECT_EQ(output[7], std::byte{0}) << "the memory is the user's again";
  EXPECT_FALSE(HasBegun());
}

// A codec that this rank does not have at all is an error on every rank, later.
TEST_F(FrontTest, ACodecRefusesTypesThatItDoesNotEncode) {
  CodecsForTest codecs;
  options.codecs = &codecs;
  Start();
  Operation operation;
  operation.name = "w";
  operation.spec = {wire::Op::kSum, DataType::kInt32, 0, {2}};
  operation.spec.codec = CodecsForTest::kBfloat16;
  operation.input = operation.output = memory;
  EXPECT_EQ(front->Submit(operation),
            Status(StatusCode::kInvalidArgument,
                   "tensor 'w': codec 9 does not encode int32; give the tensor another type, or "
                   "codec 0"));
  EXPECT_EQ(front->open_operations(), 0U);
  operation.spec.dtype = DataType::kFloat32;
  EXPECT_TRUE(front->Submit(operation).ok());
  operation.name = "x";
  operation.spec.codec = 3;
  EXPECT_TRUE(front->Submit(operation).ok());
}

TEST_F(FrontTest, ARankThatCannotGoOnSaysSo) {
  Start();
  front->OnMail(to_front::GivesUp{{StatusCode::kInternal, "no codec"}});
  EXPECT_EQ(std::get<wire::Suspect>(driver.control.back()).why, wire::Suspicion::kGaveUp);
  EXPECT_EQ(std::get<wire::Suspect>(driver.control.back()).text, "no codec");
}

TEST_F(FrontTest, AGenerationBeginsAllOver) {
  Start();
  Begin(1);
  PartDone(0, 1);
  PartDone(1, 0);
  ++view.generation;
  view.began = ++view.epoch;
  front->OnView(view, 0, 0);
  size_t asked = driver.control.size();
  ASSERT_TRUE(Submit(2).ok());
  EXPECT_EQ(driver.control.size(), asked + 1) << "it is declared anew";
}

}  // namespace
}  // namespace byteps::protocol
