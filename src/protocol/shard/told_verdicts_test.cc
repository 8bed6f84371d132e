#include "src/protocol/shard/told_verdicts.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/said_for_test.h"

namespace byteps::protocol {
namespace {

using ToldVerdictsTest = SaidTest;

TEST_F(ToldVerdictsTest, AVerdictInHandWinsOverContributions) {
  EXPECT_TRUE(Push(0, Header(1), "\x01").ok());
  EXPECT_TRUE(Tell(1, Header(1), "\x09").ok());
  EXPECT_EQ(fate, Fate::kVerdict);
  ASSERT_EQ(room.Answered(), (std::vector<Slot>{0, 1})) << "who waits, and the word to who told";
  EXPECT_EQ(room.driver.answers[0].bytes, "\x09");
  EXPECT_EQ(room.rounds.open_count(), 0u);
  EXPECT_EQ(piece().verdict.lacking(), 2u);
  EXPECT_TRUE(Push(2, Header(1), "\x04").ok());
  EXPECT_EQ(room.driver.answers.back().bytes, "\x09");
}

TEST_F(ToldVerdictsTest, ContributionsToTheNextRoundStay) {
  EXPECT_TRUE(Push(0, Header(2), "\x01").ok());
  EXPECT_TRUE(Tell(1, Header(1), "\x09").ok());
  ASSERT_NE(piece().round, nullptr);
  EXPECT_TRUE(piece().round->HasArrived(0));
  EXPECT_TRUE(piece().verdict.IsHeldBy(0)) << "who pushes the next round has this one";
  EXPECT_EQ(piece().verdict.lacking(), 1u);
}

TEST_F(ToldVerdictsTest, AVerdictBringsItsReceiptAndItsErrors) {
  wire::ErrorRow row;
  row.Add(1, {StatusCode::kPeerLost, "gone"});
  std::vector<std::byte> encoded = row.Encode(1);
  std::string text = "\x03";
  text.append(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  wire::DataHeader header = Header(1, static_cast<uint32_t>(encoded.size()));
  header.status = StatusCode::kPeerLost;
  header.receipt = 1;
  EXPECT_TRUE(Tell(0, header, text).ok());
  EXPECT_TRUE(piece().verdict.IsError());
  EXPECT_EQ(piece().verdict.receipt()->List(), (std::vector<Slot>{0, 1}));
  EXPECT_EQ(piece().verdict.errors().Of(1)->message(), "gone");
}

TEST_F(ToldVerdictsTest, AVerdictThatIsNotWholeIsRefused) {
  EXPECT_EQ(Tell(0, Header(1, 4), "ab").code(), StatusCode::kProtocol);
  wire::DataHeader header = Header(1, 4);
  header.receipt = 9;
  EXPECT_EQ(Tell(0, header, "abcd").code(), StatusCode::kProtocol);
  header = Header(1, 4);
  header.want_bytes = header.encoded_bytes = 0;
  EXPECT_TRUE(Tell(0, header, "").ok()) << "an empty one";
  EXPECT_TRUE(piece().verdict.empty());
}

TEST_F(ToldVerdictsTest, WhatWasDecidedHereIsNotTakenFromAnother) {
  EXPECT_TRUE(Tell(1, Header(3), "\x09").ok());
  EXPECT_TRUE(Tell(2, Header(2), "\x05").ok()) << "an older one";
  EXPECT_EQ(piece().verdict.round(), 3u);
  EXPECT_FALSE(piece().verdict.IsHeldBy(2)) << "it holds another";
  EXPECT_TRUE(Tell(2, Header(3), "\x05").ok());
  EXPECT_EQ(piece().verdict.bytes()[0], std::byte{9}) << "the first one stays";
  EXPECT_TRUE(piece().verdict.IsHeldBy(2));
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{1, 2, 2})) << "each is told its number";
}

TEST_F(ToldVerdictsTest, WhoToldAnEarlierVerdictHearsThatAllHaveIt) {
  EXPECT_TRUE(Tell(0, Header(1), "\x05").ok());
  EXPECT_FALSE(room.answers.due().has_value()) << "some lack it";
  EXPECT_TRUE(Tell(1, Header(2), "\x09").ok());
  ASSERT_TRUE(room.answers.due().has_value())
      << "who tells the second proves that all have the first";
  while (room.answers.due().has_value()) room.answers.Tick(*room.answers.due());
  EXPECT_EQ(room.driver.stable, (std::vector<std::pair<Slot, uint64_t>>{{0, 1}}));
}

TEST_F(ToldVerdictsTest, OfAPieceThatNobodyElseOwnedNobodyCanHoldMore) {
  Room first(ViewFor(3, 1));
  Incoming incoming;
  incoming.header = PushOf({7, 0, 1}, 1);
  incoming.payload_bytes = 1;
  Status placed = PlaceToldVerdict(first.state, 2, incoming);
  EXPECT_EQ(placed.code(), StatusCode::kProtocol);
  EXPECT_NE(placed.message().find("worker 2 tells the verdict of round 1, which nobody"),
            std::string::npos)
      << placed.message();
  first.pieces.Forget({7});
  EXPECT_TRUE(PlaceToldVerdict(first.state, 2, incoming).ok()) << "it is late, and wrong no more";
  EXPECT_EQ(incoming.fate, Fate::kDropped);
  EXPECT_EQ(first.pieces.Find({7, 0, 1}), nullptr);
}

TEST_F(ToldVerdictsTest, OfAnotherGenerationOrStayItDoesNotCount) {
  wire::DataHeader header = Header(1);
  header.generation = 2;
  EXPECT_EQ(Tell(0, header, "a").code(), StatusCode::kProtocol);
  header = Header(1);
  header.epoch = 1;
  EXPECT_TRUE(Tell(0, header, "a").ok());
  EXPECT_EQ(fate, Fate::kDropped) << "of before the piece came";
  EXPECT_EQ(room.pieces.Find({7, 0, 1}), nullptr);
  EXPECT_TRUE(room.driver.answers.empty());
}

TEST_F(ToldVerdictsTest, APayloadThatComesAfterItsPieceHasGoneIsForgotten) {
  Incoming incoming;
  incoming.header = Header(1);
  incoming.payload_bytes = 1;
  ASSERT_TRUE(PlaceToldVerdict(room.state, 0, incoming).ok());
  wire::View view = SinceTwo();
  view.epoch = view.servers[0].since = 5;  // away and back
  room.SetView(view);
  TakeToldVerdict(room.state, 0, incoming);
  EXPECT_EQ(room.pieces.Find({7, 0, 1}), nullptr);
  EXPECT_TRUE(room.driver.answers.empty());
}

TEST_F(ToldVerdictsTest, OneThatIsLargerThanAnyPieceIsRefused) {
  std::string large(4096 + wire::kCodecExtraBytesMax + wire::kMembersMax + 1, 'a');
  wire::DataHeader header = Header(1, static_cast<uint32_t>(large.size()));
  EXPECT_EQ(Tell(0, header, large).code(), StatusCode::kProtocol);
}

TEST_F(ToldVerdictsTest, AContributionToAnEarlierRoundThanTheVerdictIsNotAnswered) {
  EXPECT_TRUE(Push(0, Header(1), "\x01").ok());
  EXPECT_TRUE(Tell(1, Header(3), "\x09").ok());
  EXPECT_EQ(piece().round, nullptr);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{1})) << "a sum says nothing of rounds before it";
}

}  // namespace
}  // namespace byteps::protocol
