#include "src/protocol/shard/contributions.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/said_for_test.h"

namespace byteps::protocol {
namespace {

using ContributionsTest = SaidTest;

TEST_F(ContributionsTest, APushOfAnEarlierStayIsDropped) {
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

// A report about a tensor that all ranks have let go of is late.
TEST_F(ContributionsTest, OfAForgottenTensorNothingCounts) {
  room.pieces.Forget({7});
  EXPECT_TRUE(Push(0, Header(1), "\x01").ok());
  EXPECT_EQ(fate, Fate::kDropped);
  EXPECT_TRUE(Abort(1, Header(1), "too late").ok());
  TakeHave(room.state, 0, 2, {{{7, 0, 3}, 0}});
  EXPECT_EQ(room.pieces.Find({7, 0, 1}), nullptr);
  EXPECT_TRUE(room.driver.answers.empty());
}

TEST_F(ContributionsTest, AnErrorWaitsForResyncAndNamesWhoIsMissing) {
  EXPECT_TRUE(Push(0, Header(1), "\x01").ok());
  EXPECT_TRUE(Abort(0, Header(1), "too late").ok());
  EXPECT_TRUE(room.driver.answers.empty());
  for (Slot slot : {0u, 1u, 2u}) TakeResync(room.state, slot, 2);
  ASSERT_EQ(room.driver.answers.size(), 1u);
  EXPECT_EQ(ErrorIn(room.driver.answers[0]).message(),
            "too late; the tensor has nothing from rank 1, 2");
}

TEST_F(ContributionsTest, AnAbortOpensTheRoundAndIsAnswered) {
  for (Slot slot : {0u, 1u, 2u}) TakeResync(room.state, slot, 2);
  EXPECT_TRUE(Abort(1, Header(1), "too late").ok());
  ASSERT_EQ(room.Answered(), (std::vector<Slot>{1}));
  EXPECT_EQ(ErrorIn(room.driver.answers[0]).message(),
            "too late; the tensor has nothing from rank 0, 2");
  EXPECT_TRUE(Abort(1, Header(1), "again").ok());
  EXPECT_EQ(room.Answered().size(), 1u) << "it has its answer";
  EXPECT_TRUE(Abort(2, Header(1), "also").ok());
  EXPECT_TRUE(Push(0, Header(1), "\x01").ok());
  ASSERT_EQ(room.Answered(), (std::vector<Slot>{1, 2, 0}));
  for (const SentAnswer& answer : room.driver.answers) {
    EXPECT_EQ(ErrorIn(answer).message(), "too late; the tensor has nothing from rank 0, 2")
        << "one verdict";
  }
}

TEST_F(ContributionsTest, AnAbortSaysWhichErrorItAsksFor) {
  for (Slot slot : {0u, 1u, 2u}) TakeResync(room.state, slot, 2);
  EXPECT_TRUE(Abort(1, Header(1), "the root has joined", StatusCode::kInvalidArgument).ok());
  ASSERT_EQ(room.Answered(), (std::vector<Slot>{1}));
  Status error = ErrorIn(room.driver.answers[0]);
  EXPECT_EQ(error.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(error.message(), "the root has joined") << "it did not wait for anybody";
}

// The error has to wait. Meanwhile all others push, and one part will never come.
TEST_F(ContributionsTest, WhoHasAbortedInsteadOfPushingIsInNoSum) {
  EXPECT_TRUE(Abort(1, Header(1), "too late").ok());
  for (Slot slot : {0u, 2u}) EXPECT_TRUE(Push(slot, Header(1), "\x01").ok());
  EXPECT_TRUE(Push(1, Header(1), "\x01").ok());
  EXPECT_EQ(fate, Fate::kRepeat) << "it has decided otherwise";
  EXPECT_TRUE(room.driver.answers.empty());
  for (Slot slot : {0u, 1u, 2u}) TakeResync(room.state, slot, 2);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 1, 2}));
  EXPECT_TRUE(piece().verdict.IsError());
}

TEST_F(ContributionsTest, WhoHasPushedAndAbortsMayStillGetTheSum) {
  EXPECT_TRUE(Push(1, Header(1), "\x01").ok());
  EXPECT_TRUE(Abort(1, Header(1), "too late").ok());
  for (Slot slot : {0u, 2u}) EXPECT_TRUE(Push(slot, Header(1), "\x01").ok());
  EXPECT_EQ(room.Answered().size(), 3u);
  EXPECT_EQ(room.driver.answers[0].bytes, "\x03");
}

TEST_F(ContributionsTest, AnAbortSaysWhatAPushWouldSay) {
  EXPECT_TRUE(Push(0, Header(1), "\x01").ok());
  EXPECT_EQ(Abort(1, Header(2), "late").code(), StatusCode::kProtocol);
  wire::DataHeader header = Header(1);
  header.process_set = 3;
  EXPECT_EQ(Abort(1, header, "late").code(), StatusCode::kProtocol);
  EXPECT_EQ(Abort(1, Header(1), "late", StatusCode::kOk).code(), StatusCode::kProtocol);
  header = Header(1);
  header.epoch = 1;
  EXPECT_TRUE(Abort(1, header, "late").ok()) << "it does not count";
  EXPECT_FALSE(piece().round->failure().has_value());
}

// Each of these differs in one thing from a push that is taken.
TEST_F(ContributionsTest, WhatNoCorrectWorkerSendsIsRefusedAndLeavesNothing) {
  struct Case {
    const char* what;
    void (*change)(wire::DataHeader&);
  };
  const Case cases[] = {
      {"another generation", [](wire::DataHeader& header) { header.generation = 2; }},
      {"no push", [](wire::DataHeader& header) { header.status = StatusCode::kPeerLost; }},
      {"has no codec",
       [](wire::DataHeader& header) {
         header.codec = 9;
         header.combine = Combine::kOverlay;
       }},
      {"a part of what is encoded",
       [](wire::DataHeader& header) {
         header.codec = 9;
         header.want_bytes = 2;
       }},
      {"a part of the piece", [](wire::DataHeader& header) { header.offset = 1; }},
      {"a part of the piece", [](wire::DataHeader& header) { header.piece_bytes = 8; }},
      {"a part of the piece", [](wire::DataHeader& header) { header.dtype = DataType::kFloat64; }},
      {"not told of process set 5", [](wire::DataHeader& header) { header.process_set = 5; }},
  };
  for (const Case& one : cases) {
    wire::DataHeader header = Header(1, 4);
    one.change(header);
    Status status = Push(0, header, "abcd");
    EXPECT_EQ(status.code(), StatusCode::kProtocol) << one.what;
    EXPECT_NE(status.message().find(one.what), std::string::npos) << status.message();
  }
  EXPECT_EQ(room.rounds.open_count(), 0u);
  EXPECT_EQ(room.pool.bytes_in_use(), 0u);
  EXPECT_TRUE(Push(0, Header(1, 4), "abcd").ok());
}

// Each of these differs in one thing from the push that opened the round.
TEST_F(ContributionsTest, OfTwoWhoContradictEachOtherBothAreNamed) {
  for (Slot slot : {0u, 1u}) ASSERT_TRUE(room.sets.Tell(slot, 5, BitmapOf({0, 1})).ok());
  EXPECT_TRUE(Push(0, Header(1, 4), "abcd").ok());
  struct Case {
    const char* what;
    void (*change)(wire::DataHeader&);
  };
  const Case cases[] = {
      {"round 2 where worker 0 pushed round 1", [](auto& header) { header.ref.round = 2; }},
      {"for process set 5 where worker 0 pushed for process set 0",
       [](auto& header) { header.process_set = 5; }},
      {"4 bytes of uint8 where", [](auto& header) { header.combine = Combine::kMax; }},
      {"4 bytes of int32 where worker 0 pushed 4 bytes of uint8",
       [](auto& header) { header.dtype = DataType::kInt32; }},
      {"with codec 9 where worker 0 pushed with codec 0", [](auto& header) { header.codec = 9; }},
  };
  for (const Case& one : cases) {
    wire::DataHeader header = Header(1, 4);
    one.change(header);
    Status status = Push(1, header, "abcd");
    EXPECT_EQ(status.code(), StatusCode::kProtocol) << one.what;
    EXPECT_NE(status.message().find("worker 1 pushed " + std::string(one.what)), std::string::npos)
        << status.message();
  }
  EXPECT_EQ(piece().round->missing(), 2u);
}

// No member has what the lost member pushed, and no remaining member can go on with its round.
TEST_F(ContributionsTest, ARoundOfWhoIsGoneGivesWayToTheOthers) {
  EXPECT_TRUE(Push(2, Header(5), "a").ok());
  wire::View view = SinceTwo();
  Lose(view, 2);
  room.SetView(view);
  EXPECT_TRUE(Push(0, Header(4), "\x01").ok());
  EXPECT_EQ(piece().round->ref().round, 4u);
  EXPECT_FALSE(piece().round->HasArrived(2));
}

TEST_F(ContributionsTest, APushOfTheNextRoundSaysThatTheSumBeforeIsHeld) {
  for (Slot slot : {0u, 1u, 2u}) EXPECT_TRUE(Push(slot, Header(1), "\x01").ok());
  EXPECT_TRUE(Push(0, Header(2), "\x01").ok());
  EXPECT_TRUE(piece().verdict.IsHeldBy(0));
  EXPECT_TRUE(Abort(1, Header(2), "late").ok());
  EXPECT_TRUE(piece().verdict.IsHeldBy(1)) << "as does what stands for one";
  EXPECT_FALSE(piece().verdict.IsHeldBy(2));
}

TEST_F(ContributionsTest, ARepeatMustBeOfWhatWasDecided) {
  for (Slot slot : {0u, 1u, 2u}) EXPECT_TRUE(Push(slot, Header(2, 2), "ab").ok());
  EXPECT_TRUE(Push(0, Header(2, 2), "ab").ok());
  EXPECT_EQ(room.driver.answers.size(), 4u) << "it is answered again";
  EXPECT_EQ(Push(0, Header(2, 4), "abcd").code(), StatusCode::kProtocol);
  for (Slot slot : {0u, 1u, 2u}) room.rounds.NoteHolder(*room.pieces.Find({7, 0, 2}), slot);
  EXPECT_TRUE(Push(0, Header(2, 2), "ab").ok());
  EXPECT_EQ(room.driver.answers.size(), 4u) << "all are known to have it";
}

TEST_F(ContributionsTest, APushOfAnEarlierRoundThanTheDecidedOneNeedsNoAnswer) {
  for (Slot slot : {0u, 1u, 2u}) EXPECT_TRUE(Push(slot, Header(2, 2), "ab").ok());
  ASSERT_FALSE(piece().verdict.stable());
  EXPECT_TRUE(Push(0, Header(1, 2), "cd").ok());
  EXPECT_EQ(piece().verdict.round(), 2u);
  EXPECT_EQ(piece().round, nullptr);
  EXPECT_EQ(room.driver.answers.size(), 3u);
}

TEST_F(ContributionsTest, NobodyWantsBytesOfWhatAllWhoWantedItHave) {
  wire::DataHeader empty = Header(1, 4);
  empty.want_bytes = empty.encoded_bytes = 0;
  EXPECT_TRUE(Tell(0, empty, "").ok());
  EXPECT_EQ(Push(1, Header(1, 4), "abcd").code(), StatusCode::kProtocol);
  wire::DataHeader nothing = Header(1, 4);
  nothing.want_bytes = 0;
  EXPECT_TRUE(Push(1, nothing, "abcd").ok());
}

TEST_F(ContributionsTest, APayloadWhoseRoundIsAnotherNowIsForgotten) {
  Incoming incoming;
  incoming.header = Header(1);
  incoming.payload_bytes = 1;
  ASSERT_TRUE(PlacePush(room.state, 0, incoming).ok());
  room.rounds.Drop(*room.pieces.Find({7, 0, 1}));
  EXPECT_TRUE(Push(1, Header(1), "\x01").ok());
  TakePush(room.state, 0, incoming);
  EXPECT_FALSE(piece().round->HasArrived(0)) << "it pushes again";
}

TEST_F(ContributionsTest, APayloadOfARoundThatIsDecidedMeanwhileIsAnswered) {
  Incoming incoming;
  incoming.header = Header(1);
  incoming.payload_bytes = 1;
  ASSERT_TRUE(PlacePush(room.state, 0, incoming).ok());
  EXPECT_TRUE(Tell(1, Header(1), "\x09").ok());
  TakePush(room.state, 0, incoming);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{1, 0}));
  EXPECT_EQ(room.driver.answers.back().bytes, "\x09");
}

}  // namespace
}  // namespace byteps::protocol
