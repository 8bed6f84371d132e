#include "src/protocol/shard/state/verdict.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

class VerdictTest : public testing::Test {
 protected:
  VerdictTest() { members.SetView(ViewFor(3, 1), true); }
  void SetBytes(uint64_t round) {
    verdict.SetBytes({round, Combine::kSum, DataType::kUint8, 8, 0, 0}, members.everybody(),
                     members, pool.Take(8), 8);
  }
  void AddError(uint64_t round, const std::string& why) {
    verdict.AddError({round, Combine::kSum, DataType::kUint8, 8, 0, 0}, members.everybody(),
                     members, {StatusCode::kPeerLost, why});
  }
  BufferPool pool;
  Members members;
  Verdict verdict;
};

TEST_F(VerdictTest, IsKeptUntilAllWhoNeedItHoldIt) {
  EXPECT_TRUE(verdict.stable()) << "there is none";
  SetBytes(4);
  EXPECT_EQ(verdict.lacking(), 3u);
  EXPECT_TRUE(verdict.AddHolder(0, members));
  EXPECT_FALSE(verdict.AddHolder(0, members)) << "a repeat was answered too";
  EXPECT_TRUE(verdict.AddHolder(1, members));
  EXPECT_TRUE(verdict.AddHolder(2, members));
  EXPECT_EQ(verdict.lacking(), 0u);
  verdict.BecomeStable();
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  EXPECT_EQ(verdict.round(), 4u);
}

TEST_F(VerdictTest, WhoIsLostOrHasLeftOrJoinedDoesNotNeedIt) {
  SetBytes(4);
  wire::View view = ViewFor(3, 1);
  view.workers[1].left = true;
  Lose(view, 2);
  members.SetView(view, false);
  verdict.Recount(members);
  EXPECT_EQ(verdict.lacking(), 1u);
  members.NoteJoin(0, 1);
  verdict.Recount(members);
  EXPECT_EQ(verdict.lacking(), 0u) << "a join needs that nothing is open";
}

// If the owner forgot the verdict, and the server died before the machine had its answer, the
// machine would push again and no shard would answer.
TEST_F(VerdictTest, AMachineNeedsItUntilAllOfItsRanksHaveJoined) {
  members.SetView(ViewOfContributors({2, 1}), true);
  SetBytes(4);
  members.NoteJoin(0, 1, RankSet::FromBitmap(BitmapOf({0})));
  verdict.Recount(members);
  EXPECT_EQ(verdict.lacking(), 2u) << "rank 1 works on";
  members.NoteJoin(0, 1, RankSet::FromBitmap(BitmapOf({0, 1})));
  verdict.Recount(members);
  EXPECT_EQ(verdict.lacking(), 1u);
}

TEST_F(VerdictTest, OfErrorsInARowEachRoundKeepsItsOwn) {
  AddError(4, "first");
  AddError(6, "second");
  EXPECT_TRUE(verdict.Covers(4));
  EXPECT_TRUE(verdict.Covers(6));
  EXPECT_FALSE(verdict.Covers(3)) << "before the row";
  EXPECT_FALSE(verdict.Covers(7));
  EXPECT_EQ(verdict.errors().Of(4)->message(), "first");
  EXPECT_EQ(verdict.errors().Of(6)->message(), "second");
  SetBytes(7);
  EXPECT_FALSE(verdict.IsError());
  EXPECT_FALSE(verdict.Covers(6)) << "who pushed the sum has seen it";
}

TEST_F(VerdictTest, OfErrorsInARowItIsKnownWhoHoldsWhich) {
  AddError(4, "first");
  verdict.AddHolder(0, members);
  AddError(6, "second");
  EXPECT_FALSE(verdict.IsHeldBy(0)) << "not the last one";
  EXPECT_EQ(verdict.lacking(), 3u);
  verdict.AddHolder(1, members);
  EXPECT_FALSE(verdict.IsWithAll(4, members));
  verdict.AddErrorHolder(2, 4);
  EXPECT_TRUE(verdict.IsWithAll(4, members)) << "one has had it, one has the last, one came late";
  EXPECT_FALSE(verdict.IsWithAll(6, members));
  AddError(7, "third");
  EXPECT_TRUE(verdict.IsWithAll(4, members));
  EXPECT_FALSE(verdict.IsWithAll(6, members));
  for (Slot slot : {0u, 2u}) verdict.AddErrorHolder(slot, 6);
  EXPECT_TRUE(verdict.IsWithAll(6, members));
  EXPECT_FALSE(verdict.stable()) << "nobody has the third";
}

TEST_F(VerdictTest, WhoHeldEarlierErrorsIsNothingToALaterRow) {
  AddError(4, "first");
  for (Slot slot : {0u, 1u, 2u}) verdict.AddHolder(slot, members);
  verdict.BecomeStable();
  EXPECT_TRUE(verdict.IsWithAll(4, members));
  AddError(5, "another row");
  EXPECT_FALSE(verdict.IsWithAll(5, members));
  AddError(6, "its second");
  EXPECT_FALSE(verdict.IsWithAll(5, members));
  SetBytes(7);
  EXPECT_FALSE(verdict.IsWithAll(7, members));
}

TEST_F(VerdictTest, OneThatIsNoErrorIsWithAllWhenItIsStable) {
  SetBytes(4);
  for (Slot slot : {0u, 1u, 2u}) verdict.AddHolder(slot, members);
  EXPECT_FALSE(verdict.IsWithAll(4, members));
  verdict.BecomeStable();
  EXPECT_TRUE(verdict.IsWithAll(4, members));
}

TEST_F(VerdictTest, AnErrorThatAnotherSaysIsStableIsWithAll) {
  AddError(4, "first");
  EXPECT_FALSE(verdict.IsWithAll(4, members));
  verdict.BecomeStable();
  EXPECT_TRUE(verdict.IsWithAll(4, members)) << "whoever holds it here";
}

TEST_F(VerdictTest, WhoIsGoneNeedsNoEarlierErrorEither) {
  AddError(4, "first");
  AddError(6, "second");
  for (Slot slot : {0u, 1u}) verdict.AddErrorHolder(slot, 4);
  EXPECT_FALSE(verdict.IsWithAll(4, members));
  wire::View view = ViewFor(3, 1);
  Lose(view, 2);
  members.SetView(view, false);
  EXPECT_TRUE(verdict.IsWithAll(4, members));
}

TEST_F(VerdictTest, AnEmptyOneHasASizeAndNoBytes) {
  verdict.SetEmpty({4, Combine::kSum, DataType::kUint8, 8, 0, std::nullopt}, members.everybody(),
                   members);
  EXPECT_TRUE(verdict.empty());
  EXPECT_EQ(verdict.terms().piece_bytes, 8u);
  EXPECT_TRUE(verdict.bytes().empty());
  SetBytes(5);
  EXPECT_FALSE(verdict.empty());
}

TEST_F(VerdictTest, AnotherMayKnowThatItIsStable) {
  SetBytes(4);
  verdict.SetStable(9);
  EXPECT_TRUE(verdict.stable());
  EXPECT_EQ(verdict.round(), 9u);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST_F(VerdictTest, IdleMembersBelongToOneVerdict) {
  SetBytes(4);
  EXPECT_EQ(verdict.idle(), nullptr);
  verdict.NeedIdle().Add({7, 0, 4}, 2, 5);
  verdict.NeedIdle().NoteHasAll(1);
  EXPECT_TRUE(verdict.idle()->IsSettled(1));
  EXPECT_TRUE(verdict.idle()->IsSettled(2));
  EXPECT_FALSE(verdict.idle()->IsSettled(0));
  EXPECT_EQ(verdict.idle()->waiting(), (std::vector<Slot>{2}));
  SetBytes(5);
  EXPECT_EQ(verdict.idle(), nullptr);
}

TEST_F(VerdictTest, NobodyIsKnownToHoldTheNextOne) {
  SetBytes(4);
  size_t bytes = pool.bytes_in_use();
  verdict.AddHolder(0, members);
  SetBytes(5);
  EXPECT_FALSE(verdict.IsHeldBy(0));
  EXPECT_EQ(verdict.lacking(), 3u);
  EXPECT_EQ(pool.bytes_in_use(), bytes) << "the bytes of the one before are given back";
}

TEST_F(VerdictTest, WhoIsNotInTheReceiptDoesNotNeedIt) {
  auto two = std::make_shared<SlotSet>();
  for (Slot slot : {0u, 2u}) two->Insert(slot);
  verdict.SetBytes({4, Combine::kSum, DataType::kUint8, 8, 0, 0}, two, members, pool.Take(8), 8);
  EXPECT_EQ(verdict.lacking(), 2u);
  EXPECT_FALSE(verdict.AddHolder(1, members));
  EXPECT_EQ(verdict.lacking(), 2u);
}

TEST_F(VerdictTest, AJoinsOwnRoundsAreNeededByWhoHasJoined) {
  members.NoteJoin(0, 1);
  SetBytes(4);
  EXPECT_EQ(verdict.lacking(), 2u);
  verdict.SetBytes({5, Combine::kLast, DataType::kUint8, 8, 0, 0}, members.everybody(), members,
                   pool.Take(8), 8);
  EXPECT_EQ(verdict.lacking(), 3u) << "what a join ends with";
}

// Members come to hold the verdict, leave, are lost or join, in any order.
RC_GTEST_FIXTURE_PROP(VerdictTest, LackingIsWhoNeedsItAndHasItNot, ()) {
  wire::View view = ViewFor(5, 1);
  members.SetView(view, true);
  SetBytes(4);
  const auto lacking = [&] {
    uint32_t count = 0;
    for (Slot slot = 0; slot < members.size(); ++slot) {
      count += verdict.Needs(slot, members) && !verdict.IsHeldBy(slot) ? 1 : 0;
    }
    return count;
  };
  const int steps = *rc::gen::inRange(1, 12);
  for (int step = 0; step < steps; ++step) {
    const auto slot = *rc::gen::inRange<Slot>(0, 5);
    const bool held = verdict.IsHeldBy(slot);
    const bool needs = verdict.Needs(slot, members);
    switch (*rc::gen::inRange(0, 4)) {
      case 0: RC_ASSERT(verdict.AddHolder(slot, members) == (needs && !held)); break;
      case 1:
        members.NoteJoin(slot, 1);
        verdict.Recount(members);
        break;
      case 2:
        Lose(view, slot);
        members.SetView(view, false);
        verdict.Recount(members);
        break;
      default:
        for (wire::WorkerInfo& worker : view.workers) worker.left |= worker.slot == slot;
        ++view.epoch;
        members.SetView(view, false);
        verdict.Recount(members);
    }
    RC_ASSERT(verdict.lacking() == lacking());
  }
}

}  // namespace
}  // namespace byteps::protocol
