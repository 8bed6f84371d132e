#include "src/protocol/worker/lane/verdicts.h"

#include <gtest/gtest.h>

#include "src/protocol/worker/lane/lane_for_test.h"
#include "src/protocol/worker/worker_mistakes_for_test.h"
#include "src/wire/error_row.h"

namespace byteps::protocol {
namespace {

using Landing = AnswerReader::Landing;

class VerdictsTest : public LaneForTest {
 protected:
  // Begins the exchange and pushes its pieces.
  void Start() {
    LaneContext& lane = MakeContext();
    for (ShardId shard = 0; shard < homes.size(); ++shard) lane.links.OnUp(shard);
    sender.emplace(lane);
    walk.emplace(lane, reader, *sender);
    verdicts.emplace(lane, *walk);
    walk->Begin(exchange);
  }

  // Returns the answer of the piece's owner to the last push.
  wire::DataHeader AnswerTo(uint32_t number) {
    wire::DataHeader header = driver.pushes.at(number).header;
    header.count = ++answers;
    header.unstable = 1;
    return header;
  }
  Landing LandingOf(const wire::DataHeader& header, size_t bytes = 4, ShardId from = 0) {
    return verdicts->PlaceFor(from, header, bytes)->landing;
  }
  StatusCode Refusal(const wire::DataHeader& header, size_t bytes = 4) {
    return verdicts->PlaceFor(0, header, bytes).status().code();
  }
  // Reads the answer and puts its payload into its place.
  void Receive(const wire::DataHeader& header, const std::string& bytes, ShardId from = 0) {
    auto place = verdicts->PlaceFor(from, header, bytes.size());
    ASSERT_TRUE(place.ok()) << place.status().message();
    AnswerReader::Answer answer{header, bytes.size(), place->landing, {}};
    ByteSpan to = place->bytes;
    if (answer.landing == Landing::kStaged) {
      answer.staged = pool.Take(bytes.size());
      to = {answer.staged.data(), bytes.size()};
    }
    if (answer.landing == Landing::kInPlace || answer.landing == Landing::kStaged) {
      std::ranges::copy(std::as_bytes(std::span(bytes)), to.begin());
    }
    verdicts->Take(from, answer, Time());
  }
  LanePiece& Piece(uint32_t number) { return made->pieces.Find(7)->pieces[number]; }
  std::string Memory(uint32_t number) {
    return {reinterpret_cast<const char*>(memory) + size_t{4} * number, 4};
  }

  AnswerReader reader{pool, arithmetic};
  std::optional<PieceSender> sender;
  std::optional<PieceWalk> walk;
  std::optional<Verdicts> verdicts;
  uint64_t answers = 0;
};

TEST_F(VerdictsTest, AVerdictInPlaceIsStagedSinceItsInputMayBePushedAgain) {
  Start();
  EXPECT_EQ(LandingOf(AnswerTo(0)), Landing::kStaged);
  Receive(AnswerTo(0), "sums");
  EXPECT_EQ(Memory(0), "sums");
  EXPECT_EQ(Piece(0).step, PieceStep::kDone);
  EXPECT_FALSE(Piece(0).held.stable);
  EXPECT_TRUE(Piece(0).copy) << "what was staged is kept";
  EXPECT_EQ(Piece(0).held.receipt->List(), (std::vector<Slot>{0, 1}));
}

TEST_F(VerdictsTest, WithItsResultElsewhereAVerdictLandsThere) {
  class Apart final : public SpanSource {
   public:
    Spans SpansOf(uint32_t number) const override {
      Spans spans{4, 0, {}, 0, {}};
      spans.push = ConstByteSpan(input + size_t{4} * number, 4);
      spans.want = ByteSpan(output + size_t{4} * number, 4);
      return spans;
    }
    std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  Apart apart;
  apart.input = memory;
  apart.output = memory + 8;
  exchange.spans = &apart;
  Start();
  auto place = verdicts->PlaceFor(0, AnswerTo(0), 4);
  EXPECT_EQ(place->landing, Landing::kInPlace);
  EXPECT_EQ(place->bytes.data(), memory + 8);
}

TEST_F(VerdictsTest, OnlyThePresentOwnerCounts) {
  Start();
  wire::DataHeader header = AnswerTo(0);
  EXPECT_EQ(LandingOf(header, 4, 1), Landing::kNowhere) << "of a former owner";
  Piece(0).since = 2;
  EXPECT_EQ(LandingOf(header), Landing::kNowhere) << "of the owner before it became that anew";
  header.epoch = 2;
  made->receipts.AddView(2, WorkersOf(view));
  EXPECT_EQ(LandingOf(header), Landing::kStaged);
}

TEST_F(VerdictsTest, ToTakeItFromAFormerOwnerIsAMistakeThatShows) {
  options.rules = &LaneRulesWith(WorkerMistake::kAcceptFromAFormerOwner);
  Start();
  EXPECT_EQ(LandingOf(AnswerTo(0), 4, 1), Landing::kStaged);
}

// The mail comes late: the piece has gone to another lane, or its operation has ended.
TEST_F(VerdictsTest, WhatConcernsNobodyHereIsReadAndForgotten) {
  Start();
  wire::DataHeader header = AnswerTo(0);
  walk->LetGo(*made->pieces.Find(7), 0);
  EXPECT_EQ(LandingOf(header), Landing::kNowhere);
  Receive(header, "late");
  EXPECT_EQ(Memory(0), "aaaa");
  EXPECT_EQ(made->links.Received(0), answers) << "it counts as read";
  header = AnswerTo(1);
  walk->Withdraw(exchange);
  EXPECT_EQ(LandingOf(header, 4, 1), Landing::kNowhere);
  header.ref.tensor = 8;
  EXPECT_EQ(LandingOf(header, 4, 1), Landing::kNowhere) << "a tensor that nobody knows any more";
}

TEST_F(VerdictsTest, APieceThatMovesWhileItsAnswerComesInTakesNothing) {
  Start();
  wire::DataHeader header = AnswerTo(0);
  auto place = verdicts->PlaceFor(0, header, 4);
  AnswerReader::Answer answer{header, 4, place->landing, pool.Take(4)};
  Piece(0).owner = 1;
  verdicts->Take(0, answer, Time());
  EXPECT_EQ(Memory(0), "aaaa");
  EXPECT_EQ(Piece(0).step, PieceStep::kUnderWay);
}

TEST_F(VerdictsTest, WhatNoCorrectShardSendsIsRefused) {
  Start();
  wire::DataHeader header = AnswerTo(0);
  EXPECT_EQ(Refusal(header, 3), StatusCode::kProtocol) << "another size";
  wire::DataHeader wrong = header;
  wrong.ref.piece = 9;
  EXPECT_EQ(Refusal(wrong), StatusCode::kProtocol);
  wrong = header;
  wrong.ref.round = wire::RoundOf(2, 0);
  EXPECT_EQ(Refusal(wrong), StatusCode::kProtocol);
  wrong = header;
  wrong.receipt = 5;
  EXPECT_EQ(Refusal(wrong), StatusCode::kProtocol) << "a receipt longer than the payload";
  wrong = header;
  wrong.codec = 1;
  EXPECT_EQ(Refusal(wrong), StatusCode::kProtocol) << "a codec that the tensor has not";
  wrong = header;
  wrong.epoch = 9;
  EXPECT_EQ(Refusal(wrong), StatusCode::kProtocol) << "everybody of a view that nobody knows";
}

TEST_F(VerdictsTest, AnErrorEndsThePieceWithTheReasonOfItsRow) {
  Start();
  wire::DataHeader header = AnswerTo(0);
  header.status = StatusCode::kPeerLost;
  wire::ErrorRow row;
  row.Add(header.ref.round, {StatusCode::kPeerLost, "rank 1 is gone"});
  std::vector<std::byte> bytes = row.Encode(header.ref.round);
  Receive(header, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  EXPECT_EQ(Memory(0), "aaaa");
  header = AnswerTo(1);
  header.status = StatusCode::kPeerLost;
  Receive(header, "nonsense", 1);
  auto told = driver.Told<to_front::PartDone>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].status.message(), "rank 1 is gone");
  EXPECT_EQ(told[0].failed_piece, 0U);
}

TEST_F(VerdictsTest, AReceiptOfItsOwnTravelsInFrontOfTheBytes) {
  Start();
  wire::DataHeader header = AnswerTo(0);
  header.receipt = 8;
  Receive(header, std::string("\x01\0\0\0\0\0\0\0sums", 12));
  EXPECT_EQ(Memory(0), "sums");
  EXPECT_EQ(Piece(0).held.receipt->List(), (std::vector<Slot>{0}));
  EXPECT_TRUE(Piece(0).held.stable) << "nobody else must come to hold it";
}

// The bytes are undefined. The front sees this in the receipt.
TEST_F(VerdictsTest, WithoutItsRootAVerdictChangesNoMemory) {
  exchange.root = Slot{1};
  Start();
  wire::DataHeader header = AnswerTo(0);
  header.receipt = 8;
  Receive(header, std::string("\x01\0\0\0\0\0\0\0none", 12));
  EXPECT_EQ(Memory(0), "aaaa");
  EXPECT_EQ(Piece(0).step, PieceStep::kDone);
}

TEST_F(VerdictsTest, WhatIsStableIsKeptNoLongerIfThePieceIsStillWhereItWas) {
  Start();
  Receive(AnswerTo(0), "sums");
  Receive(AnswerTo(1), "more", 1);
  Piece(1).owner = 0;  // it has moved: its new owner will have another number for it
  for (ShardId shard : {0U, 1U}) {
    made->links.OnStable(shard, {answers, 1}, 1);
    verdicts->ReleaseStable(shard);
  }
  EXPECT_TRUE(Piece(0).held.stable);
  EXPECT_FALSE(Piece(0).copy);
  EXPECT_FALSE(Piece(1).held.stable);
}

TEST_F(VerdictsTest, WhatWasToldIsAnsweredWithANumberAlone) {
  Start();
  Receive(AnswerTo(0), "sums");
  Piece(0).held.number = 0;
  Piece(0).held.told = true;
  wire::DataHeader header = AnswerTo(0);
  EXPECT_EQ(LandingOf(header), Landing::kNowhere) << "with its bytes it is a repetition";
  EXPECT_EQ(LandingOf(header, 0), Landing::kNumberOnly);
  Receive(header, "");
  EXPECT_EQ(Piece(0).held.number, header.count);
  EXPECT_FALSE(Piece(0).held.told);
  EXPECT_EQ(LandingOf(AnswerTo(0)), Landing::kNowhere);
  EXPECT_EQ(verdicts->repeated(), 2U) << "it has that verdict";
}

TEST_F(VerdictsTest, WhereOthersWaitForTheNewsItGoesOutWithTheLastBytes) {
  exchange.others_wait = true;
  Start();
  Receive(AnswerTo(0), "sums");
  EXPECT_TRUE(driver.acks.empty());
  Receive(AnswerTo(1), "more", 1);
  EXPECT_EQ(driver.acks.size(), 2U);
}

}  // namespace
}  // namespace byteps::protocol
