#include "src/protocol/worker/lane/piece_walk.h"

#include <gtest/gtest.h>

#include <cstring>

#include "src/protocol/worker/lane/lane_for_test.h"

namespace byteps::protocol {
namespace {

// Takes every answer, in place. The tests decide themselves what a verdict does.
class InPlaceTarget final : public AnswerReader::Target {
 public:
  Result<AnswerReader::Place> PlaceFor(ShardId, const wire::DataHeader&, size_t) override {
    return AnswerReader::Place{AnswerReader::Landing::kInPlace, ByteSpan(memory, 4)};
  }
  void Take(ShardId, const AnswerReader::Answer&, Time) override {}
  std::byte memory[4];
};

class PieceWalkTest : public LaneForTest {
 protected:
  void Start() {
    LaneContext& lane = MakeContext();
    for (ShardId shard = 0; shard < homes.size(); ++shard) lane.links.OnUp(shard);
    reader.Begin(homes.size());
    sender.emplace(lane);
    walk.emplace(lane, reader, *sender);
  }

  LaneTensor& tensor() { return *made->pieces.Find(7); }

  // Lets the verdict of the piece arrive.
  void Decide(uint32_t number, const Receipt& receipt = nullptr) {
    LanePiece& piece = tensor().pieces[number];
    piece.held.round = piece.round;
    piece.held.receipt = receipt != nullptr ? receipt : WorkersOf(view);
    piece.held.piece_bytes = 4;
    tensor().part.TakeBytes();
    made->send_queue.Answered(piece.spans, Time());
    walk->GoOn(tensor(), number);
  }

  std::vector<uint32_t> Pushed() const {
    std::vector<uint32_t> numbers;
    for (const auto& push : driver.pushes) numbers.push_back(push.header.ref.piece);
    return numbers;
  }

  AnswerReader reader{pool, arithmetic};
  std::optional<PieceSender> sender;
  std::optional<PieceWalk> walk;
};

TEST_F(PieceWalkTest, PiecesSetOutAndTheFrontIsToldWhenAllAreDone) {
  Start();
  walk->Begin(exchange);
  EXPECT_EQ(Pushed(), (std::vector<uint32_t>{0, 1}));
  Decide(1);
  EXPECT_TRUE(driver.to_front.empty());
  Decide(0);
  ASSERT_EQ(driver.Told<to_front::PartDone>().size(), 1U);
  EXPECT_EQ(driver.Told<to_front::PartDone>()[0].pieces, 2U);
  EXPECT_EQ(driver.Told<to_front::PartDone>()[0].serial, 5U);
  EXPECT_EQ(tensor().exchange, nullptr);
  EXPECT_EQ(made->send_queue.bytes_in_flight(), 0U);
}

TEST_F(PieceWalkTest, WantedPiecesPassTheCreditAlsoWhenTheyWereWantedBeforeTheyBegan) {
  options.credit.fixed_bytes = 1;
  Start();
  walk->Want({7, 1, wire::RoundOf(1, 0)});
  walk->Begin(exchange);
  EXPECT_EQ(driver.pushes.size(), 2U);
  EXPECT_TRUE(made->wants.Take(7).empty());
}

TEST_F(PieceWalkTest, AnAttemptRepeatsThePiecesWhoseReceiptIsAnother) {
  exchange.atomic = true;
  Start();
  walk->Begin(exchange);
  auto common = std::make_shared<SlotSet>();
  common->Insert(0);
  Decide(0);
  Decide(1, common);
  driver.pushes.clear();
  walk->Repeat({&exchange, 1, common});
  ASSERT_EQ(Pushed(), (std::vector<uint32_t>{0}));
  EXPECT_EQ(driver.pushes[0].header.ref.round, wire::RoundOf(1, 1));
  Decide(0, common);
  ASSERT_EQ(driver.Told<to_front::PartDone>().size(), 2U);
  EXPECT_EQ(driver.Told<to_front::PartDone>()[1].pieces, 2U);
  EXPECT_FALSE(driver.Told<to_front::PartDone>()[1].mixed);
}

// The memory belongs to the user once the front has been told.
TEST_F(PieceWalkTest, WhatIsWithdrawnIsForgottenBeforeTheFrontIsTold) {
  options.credit.fixed_bytes = 1;  // the second piece waits
  Start();
  walk->Begin(exchange);
  ASSERT_EQ(driver.pushes.size(), 1U);
  wire::DataHeader header = driver.pushes[0].header;
  InPlaceTarget target;
  ASSERT_TRUE(reader.OnHeader(0, header, 4, 1, target).ok());
  walk->Withdraw(exchange);
  EXPECT_EQ(driver.forgotten, (std::vector<const std::byte*>{memory, memory}))
      << "what leaves, and what comes in";
  ASSERT_EQ(driver.Told<to_front::Released>().size(), 1U);
  EXPECT_EQ(driver.Told<to_front::Released>()[0].serial, 5U);
  EXPECT_EQ(made->send_queue.bytes_in_flight(), 0U);
  EXPECT_EQ(driver.pushes.size(), 1U) << "the second one never leaves";
  walk->Withdraw(exchange);
  EXPECT_EQ(driver.Told<to_front::Released>().size(), 2U) << "a lane always says so";
}

// The tensor may be idle from now on, for as long as the job lives.
TEST_F(PieceWalkTest, WhatIsWithdrawnHoldsNoBuffersOfItsStages) {
  Start();
  walk->Begin(exchange);
  const size_t before = pool.bytes_in_use();
  tensor().pieces[0].contribution = {true, pool.Take(64), 0, 4};
  tensor().pieces[1].answer = {true, pool.Take(64), 0, 4};
  walk->Withdraw(exchange);
  EXPECT_EQ(pool.bytes_in_use(), before);
}

// Others may lack the verdict, and its bytes lie in memory that goes back to the user.
TEST_F(PieceWalkTest, WhatIsWithdrawnInAStageBehindTheExchangeIsKept) {
  class Waits final : public PiecePaths, private PieceStage {
    const PiecePath& PathOf(const Exchange&) override { return path_; }
    StageVerdict Enter(PieceInHand&) override { return StageVerdict::kPending; }
    const PiecePath path_{{}, {this}};
  };
  options.paths = [](const StageTools&) { return std::make_unique<Waits>(); };
  Start();
  walk->Begin(exchange);
  tensor().pieces[0].held.stable = false;
  Decide(0);
  EXPECT_EQ(tensor().pieces[0].step, PieceStep::kUnderWay);
  walk->Withdraw(exchange);
  const LanePiece& piece = tensor().pieces[0];
  ASSERT_TRUE(piece.copy);
  EXPECT_EQ(std::memcmp(piece.copy.data(), "aaaa", 4), 0);
}

TEST_F(PieceWalkTest, WithoutInputAnErrorIsAskedForInPlaceOfEveryPiece) {
  options.credit.fixed_bytes = 1;
  const Status why(StatusCode::kUnavailable, "rank 0 has no input");
  exchange.no_input = &why;
  Start();
  walk->Begin(exchange);
  EXPECT_TRUE(driver.pushes.empty());
  ASSERT_EQ(driver.aborts.size(), 2U) << "no credit is needed";
  for (uint32_t number = 0; number < 2; ++number) {
    EXPECT_EQ(driver.aborts[number].header.ref.piece, number);
    EXPECT_EQ(driver.aborts[number].header.status, StatusCode::kUnavailable);
    EXPECT_EQ(driver.aborts[number].bytes, "rank 0 has no input");
  }
}

TEST_F(PieceWalkTest, AnAbortAsksForAnErrorOfWhatIsNotDecided) {
  Start();
  walk->Begin(exchange);
  Decide(0);
  walk->Abort({7, 5, {StatusCode::kDeadlineExceeded, "too late"}});
  ASSERT_EQ(driver.aborts.size(), 1U);
  EXPECT_EQ(driver.aborts[0].header.ref.piece, 1U);
  walk->Abort({7, 4, {StatusCode::kDeadlineExceeded, "of another exchange"}});
  walk->Abort({8, 5, {StatusCode::kDeadlineExceeded, "of another tensor"}});
  EXPECT_EQ(driver.aborts.size(), 1U);
}

TEST_F(PieceWalkTest, APieceThatGoesAwayIsLetGoAndItsPartEndsWithoutIt) {
  Start();
  walk->Begin(exchange);
  Decide(0);
  MovedPiece moved = walk->LetGo(tensor(), 1);
  EXPECT_EQ(driver.forgotten, (std::vector<const std::byte*>{memory + 4}));
  EXPECT_EQ(moved.exchange, &exchange);
  EXPECT_TRUE(moved.set_out);
  EXPECT_EQ(moved.round, wire::RoundOf(1, 0));
  ASSERT_EQ(driver.Told<to_front::PartDone>().size(), 1U);
  EXPECT_EQ(driver.Told<to_front::PartDone>()[0].pieces, 1U);
  EXPECT_EQ(made->send_queue.bytes_in_flight(), 0U);
}

TEST_F(PieceWalkTest, APieceThatComesIsPushedHereAndPassesTheCreditIfItHadSome) {
  options.credit.fixed_bytes = 1;
  Start();
  MovedPiece moved;
  moved.tensor = exchange.tensor;
  moved.exchange = &exchange;
  moved.round = wire::RoundOf(1, 0);
  for (uint32_t number : {0U, 1U}) {
    moved.number = moved.home = number;
    moved.set_out = number == 1;
    walk->TakeIn(moved);
  }
  walk->SetOut();
  EXPECT_EQ(Pushed(), (std::vector<uint32_t>{0, 1}));
  Decide(0);
  Decide(1);
  EXPECT_EQ(driver.Told<to_front::PartDone>()[0].pieces, 2U);
}

TEST_F(PieceWalkTest, APieceThatComesWithItsVerdictGoesOnBehindTheExchange) {
  Start();
  MovedPiece moved;
  moved.tensor = exchange.tensor;
  moved.exchange = &exchange;
  moved.round = moved.held.round = wire::RoundOf(1, 0);
  moved.held.receipt = WorkersOf(view);
  moved.set_out = true;
  moved.at = 1;
  walk->TakeIn(moved);
  EXPECT_TRUE(driver.pushes.empty());
  ASSERT_EQ(driver.Told<to_front::PartDone>().size(), 1U);
  EXPECT_EQ(driver.Told<to_front::PartDone>()[0].pieces, 1U);
}

TEST_F(PieceWalkTest, APieceThatIsDoneIsOnlyKept) {
  Start();
  MovedPiece moved;
  moved.tensor = exchange.tensor;
  moved.number = 1;
  moved.home = 1;
  moved.held.round = 256;
  moved.held.stable = false;
  moved.copy.resize(4);
  walk->TakeIn(moved);
  EXPECT_EQ(tensor().pieces[1].step, PieceStep::kDone);
  EXPECT_EQ(tensor().pieces[1].owner, 1U);
  EXPECT_TRUE(tensor().pieces[1].copy);
  EXPECT_TRUE(driver.to_front.empty());
}

TEST_F(PieceWalkTest, AStoppedLaneSendsNothingNew) {
  Start();
  made->stopped = true;
  walk->Begin(exchange);
  EXPECT_TRUE(driver.pushes.empty());
  walk->Withdraw(exchange);
  EXPECT_EQ(driver.Told<to_front::Released>().size(), 1U);
}

}  // namespace
}  // namespace byteps::protocol
