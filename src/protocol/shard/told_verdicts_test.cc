// Pushes, ToldVerdicts and MemberReports: what members say, and what becomes of it.
#include "src/protocol/shard/told_verdicts.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/member_reports.h"
#include "src/protocol/shard/pushes.h"
#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

wire::View SinceTwo() {
  wire::View view = ViewFor(3, 1);
  view.epoch = 2;
  view.servers[0].since = 2;
  return view;
}

// A shard that owns its pieces since epoch 2: another one may have decided before.
class SaidTest : public testing::Test {
 protected:
  Status Push(Slot from, wire::DataHeader header, const std::string& text) {
    Incoming incoming;
    incoming.header = header;
    incoming.payload_bytes = text.size();
    Status placed = pushes.Place(from, incoming, kStart);
    fate = incoming.fate;
    if (!placed.ok()) return placed;
    Fill(incoming, text);
    pushes.Take(from, incoming);
    return placed;
  }
  Status Tell(Slot from, wire::DataHeader header, const std::string& text) {
    Incoming incoming;
    incoming.header = header;
    incoming.payload_bytes = text.size();
    Status placed = told.Place(from, incoming);
    fate = incoming.fate;
    if (!placed.ok()) return placed;
    Fill(incoming, text);
    told.Take(from, incoming);
    return placed;
  }
  static void Fill(Incoming& incoming, const std::string& text) {
    auto bytes = std::as_bytes(std::span(text));
    if (!incoming.place.empty()) std::copy(bytes.begin(), bytes.end(), incoming.place.begin());
  }
  static wire::DataHeader Header(uint64_t round, uint32_t bytes = 1) {
    wire::DataHeader header = PushOf({7, 0, round}, bytes);
    header.epoch = 2;
    return header;
  }
  std::vector<Slot> Answered() const {
    std::vector<Slot> slots;
    for (const SentAnswer& answer : room.driver.answers) slots.push_back(answer.to);
    return slots;
  }
  const Piece& piece() { return *room.pieces.Find({7, 0, 1}); }

  Room room{SinceTwo()};
  const ShardRules& rules = ShardRules::Default();
  Pushes pushes{{room.pool, rules, room.view, room.members, room.attendance, room.sets, room.pieces,
                 room.answers, room.rounds, room.delivery}};
  ToldVerdicts told{{room.pool, room.arithmetic, rules, room.view, room.members, room.pieces,
                     room.answers, room.rounds, room.delivery},
                    4096};
  MemberReports reports{{room.view, room.members, room.pieces, room.answers, room.rounds, told}};
  Fate fate = Fate::kDropped;
};

TEST_F(SaidTest, APushOfAnEarlierStayIsDropped) {
  wire::DataHeader old = Header(1);
  old.epoch = 1;
  EXPECT_TRUE(Push(0, old, "\x01").ok());
  EXPECT_EQ(fate, Fate::kDropped);
  EXPECT_EQ(room.pieces.Find({7, 0, 1}), nullptr);
  EXPECT_TRUE(Push(0, Header(1), "\x01").ok());
  EXPECT_EQ(fate, Fate::kContribution);
  EXPECT_TRUE(Push(0, Header(1), "\x01").ok());
  EXPECT_EQ(fate, Fate::kRepeat);
}

TEST_F(SaidTest, AVerdictInHandWinsOverContributions) {
  EXPECT_TRUE(Push(0, Header(1), "\x01").ok());
  EXPECT_TRUE(Tell(1, Header(1), "\x09").ok());
  EXPECT_EQ(fate, Fate::kVerdict);
  ASSERT_EQ(Answered(), (std::vector<Slot>{0, 1})) << "who waits, and the word to who told";
  EXPECT_EQ(room.driver.answers[0].bytes, "\x09");
  EXPECT_EQ(room.rounds.open_count(), 0u);
  EXPECT_EQ(piece().verdict.lacking(), 2u);
  EXPECT_TRUE(Push(2, Header(1), "\x04").ok());
  EXPECT_EQ(room.driver.answers.back().bytes, "\x09");
}

TEST_F(SaidTest, ContributionsToTheNextRoundStay) {
  EXPECT_TRUE(Push(0, Header(2), "\x01").ok());
  EXPECT_TRUE(Tell(1, Header(1), "\x09").ok());
  ASSERT_NE(piece().round, nullptr);
  EXPECT_TRUE(piece().round->HasArrived(0));
  EXPECT_TRUE(piece().verdict.IsHeldBy(0)) << "who pushes the next round has this one";
  EXPECT_EQ(piece().verdict.lacking(), 1u);
}

TEST_F(SaidTest, AVerdictBringsItsReceiptAndItsErrors) {
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

TEST_F(SaidTest, AVerdictThatIsNotWholeIsRefused) {
  EXPECT_EQ(Tell(0, Header(1, 4), "ab").code(), StatusCode::kProtocol);
  wire::DataHeader header = Header(1, 4);
  header.receipt = 9;
  EXPECT_EQ(Tell(0, header, "abcd").code(), StatusCode::kProtocol);
  header = Header(1, 4);
  header.want_bytes = header.encoded_bytes = 0;
  EXPECT_TRUE(Tell(0, header, "").ok()) << "an empty one";
  EXPECT_TRUE(piece().verdict.empty());
}

TEST_F(SaidTest, WhatOneKnowsToBeStableIsSoForAll) {
  reports.TakeHave(0, 2, {{{7, 0, 3}, 0}});
  EXPECT_EQ(piece().verdict.round(), 3u);
  EXPECT_TRUE(piece().verdict.stable());
  EXPECT_TRUE(Push(1, Header(4), "\x01").ok());
  reports.TakeHave(0, 2, {{{7, 0, 4}, 0}});
  EXPECT_EQ(piece().verdict.round(), 3u) << "it waits for who brings that verdict";
}

TEST_F(SaidTest, AnAcknowledgementIsForTheRoundThatWasAnswered) {
  for (Slot slot : {0u, 1u, 2u}) EXPECT_TRUE(Push(slot, Header(1), "\x01").ok());
  reports.TakeAck(0, 99);
  EXPECT_TRUE(piece().verdict.IsHeldBy(0));
  reports.TakeAck(1, 0);
  EXPECT_FALSE(piece().verdict.IsHeldBy(1));
}

TEST_F(SaidTest, AnErrorWaitsForResyncAndNamesWhoIsMissing) {
  EXPECT_TRUE(Push(0, Header(1), "\x01").ok());
  EXPECT_TRUE(pushes.TakeAbort(0, Header(1), "too late", kStart).ok());
  EXPECT_TRUE(room.driver.answers.empty());
  for (Slot slot : {0u, 1u, 2u}) reports.TakeResync(slot, 2);
  ASSERT_EQ(room.driver.answers.size(), 1u);
  EXPECT_EQ(ErrorIn(room.driver.answers[0]).message(), "too late; it has no part of rank 1, 2");
}

TEST_F(SaidTest, AnAbortOpensTheRoundAndIsAnswered) {
  for (Slot slot : {0u, 1u, 2u}) reports.TakeResync(slot, 2);
  EXPECT_TRUE(pushes.TakeAbort(1, Header(1), "too late", kStart).ok());
  ASSERT_EQ(Answered(), (std::vector<Slot>{1}));
  EXPECT_EQ(ErrorIn(room.driver.answers[0]).message(), "too late; it has no part of rank 0, 2");
  EXPECT_TRUE(pushes.TakeAbort(1, Header(1), "again", kStart).ok());
  EXPECT_EQ(Answered().size(), 1u) << "it has its answer";
  EXPECT_TRUE(pushes.TakeAbort(2, Header(1), "also", kStart).ok());
  EXPECT_TRUE(Push(0, Header(1), "\x01").ok());
  ASSERT_EQ(Answered(), (std::vector<Slot>{1, 2, 0}));
  for (const SentAnswer& answer : room.driver.answers) {
    EXPECT_EQ(ErrorIn(answer).message(), "too late; it has no part of rank 0, 2") << "one verdict";
  }
}

// The error has to wait; meanwhile all others push, and one part will never come.
TEST_F(SaidTest, WhoHasAbortedInsteadOfPushingIsInNoSum) {
  EXPECT_TRUE(pushes.TakeAbort(1, Header(1), "too late", kStart).ok());
  for (Slot slot : {0u, 2u}) EXPECT_TRUE(Push(slot, Header(1), "\x01").ok());
  EXPECT_TRUE(Push(1, Header(1), "\x01").ok());
  EXPECT_EQ(fate, Fate::kRepeat) << "it has decided otherwise";
  EXPECT_TRUE(room.driver.answers.empty());
  for (Slot slot : {0u, 1u, 2u}) reports.TakeResync(slot, 2);
  EXPECT_EQ(Answered(), (std::vector<Slot>{0, 1, 2}));
  EXPECT_TRUE(piece().verdict.IsError());
}

TEST_F(SaidTest, WhoHasPushedAndAbortsMayStillGetTheSum) {
  EXPECT_TRUE(Push(1, Header(1), "\x01").ok());
  EXPECT_TRUE(pushes.TakeAbort(1, Header(1), "too late", kStart).ok());
  for (Slot slot : {0u, 2u}) EXPECT_TRUE(Push(slot, Header(1), "\x01").ok());
  EXPECT_EQ(Answered().size(), 3u);
  EXPECT_EQ(room.driver.answers[0].bytes, "\x03");
}

TEST_F(SaidTest, AnAbortSaysWhatAPushWouldSay) {
  EXPECT_TRUE(Push(0, Header(1), "\x01").ok());
  EXPECT_EQ(pushes.TakeAbort(1, Header(2), "late", kStart).code(), StatusCode::kProtocol);
  wire::DataHeader header = Header(1);
  header.process_set = 3;
  EXPECT_EQ(pushes.TakeAbort(1, header, "late", kStart).code(), StatusCode::kProtocol);
  header = Header(1);
  header.epoch = 1;
  EXPECT_TRUE(pushes.TakeAbort(1, header, "late", kStart).ok()) << "it does not count";
  EXPECT_FALSE(piece().round->failure().has_value());
}

TEST_F(SaidTest, WhoJoinsIsNotWaitedForWhenItHasSaidAll) {
  for (Slot slot : {0u, 1u}) EXPECT_TRUE(Push(slot, Header(1), "\x01").ok());
  reports.TakeJoined(2, 1);
  EXPECT_TRUE(room.driver.answers.empty()) << "it may hold the former owner's verdict";
  reports.TakeResync(2, 2);
  EXPECT_EQ(Answered(), (std::vector<Slot>{0, 1}));
}

}  // namespace
}  // namespace byteps::protocol
