#include "src/protocol/shard/state/shard_rules.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/room_for_test.h"
#include "src/protocol/shard/state/told_verdict.h"

namespace byteps::protocol {
namespace {

const ShardRules& kRules = ShardRules::Default();

TEST(ShardRulesTest, WhatNamesANewerViewWaits) {
  EXPECT_TRUE(kRules.MustWait(3, 2));
  EXPECT_FALSE(kRules.MustWait(2, 2));
  EXPECT_FALSE(kRules.MustWait(1, 2));
}

TEST(ShardRulesTest, WhoIsNotInTheViewIsCutOff) {
  EXPECT_TRUE(kRules.IsCutOff(false));
  EXPECT_FALSE(kRules.IsCutOff(true));
}

TEST(ShardRulesTest, WhatIsSaidToTheOwnerCountsFromTheEpochOnInWhichItBecameThat) {
  plan::Owner owner{1, 5};
  EXPECT_TRUE(kRules.Counts(owner, 1, 5));
  EXPECT_TRUE(kRules.Counts(owner, 1, 6));
  EXPECT_FALSE(kRules.Counts(owner, 1, 4));
  EXPECT_FALSE(kRules.Counts(owner, 2, 5));
}

TEST(ShardRulesTest, WhatItKnewStaysIfItHasOwnedThePieceEverSince) {
  plan::Owner owner{1, 5};
  EXPECT_TRUE(kRules.Stays(owner, 1, 5));
  EXPECT_TRUE(kRules.Stays(owner, 1, 6));
  EXPECT_FALSE(kRules.Stays(owner, 1, 4)) << "another one owned it in between";
  EXPECT_FALSE(kRules.Stays(owner, 2, 6));
}

TEST(ShardRulesTest, ARoundIsCompleteWhenOnlyExemptMembersAreMissing) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1);
  for (Slot slot : {0u, 1u}) room.Arrive(piece, slot, "a", 1);
  EXPECT_FALSE(kRules.IsComplete(room.attendance, piece));
  room.members.NoteJoin(2, 1);
  EXPECT_TRUE(kRules.IsComplete(room.attendance, piece));
  Piece& all = room.Open({8, 0, 1}, 1);
  for (Slot slot : {0u, 1u, 2u}) room.Arrive(all, slot, "a", 1);
  EXPECT_TRUE(kRules.IsComplete(room.attendance, all));
}

TEST(ShardRulesTest, OnlyALaterVerdictIsAdopted) {
  Room room;
  Piece& piece = room.Decide(7);
  wire::DataHeader header = PushOf({7, 0, 1}, 4);
  BufferRef payload;
  EXPECT_FALSE(kRules.Adopts(piece, 0, ToldVerdict{header, payload, 0}));
  header.ref.round = 2;
  EXPECT_TRUE(kRules.Adopts(piece, 0, ToldVerdict{header, payload, 0}));
  EXPECT_TRUE(kRules.KeepsContributions(2, 1));
  EXPECT_FALSE(kRules.KeepsContributions(1, 1));
}

TEST(ShardRulesTest, AnErrorFollowsWhatEverybodyHasOrAnotherError) {
  Room room;
  Piece& piece = room.Decide(7);
  EXPECT_FALSE(kRules.ErrorMayFollow(piece.verdict));
  piece.verdict.BecomeStable();
  EXPECT_TRUE(kRules.ErrorMayFollow(piece.verdict));
  piece.verdict.AddError({.round = 2}, room.members.everybody(), room.members,
                         {StatusCode::kPeerLost, "gone"});
  EXPECT_FALSE(piece.verdict.stable());
  EXPECT_TRUE(kRules.ErrorMayFollow(piece.verdict));
}

TEST(ShardRulesTest, WhoseWordIsMissingMayHoldASum) {
  Room room(ViewFor(2, 1));
  EXPECT_TRUE(kRules.NobodyHoldsASum(room.attendance, 1));
  room.members.NoteResync(0, 3);
  EXPECT_FALSE(kRules.NobodyHoldsASum(room.attendance, 3));
  room.members.NoteResync(1, 3);
  EXPECT_TRUE(kRules.NobodyHoldsASum(room.attendance, 3));
}

}  // namespace
}  // namespace byteps::protocol
