#include "src/protocol/shard/intake.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

TEST(IntakeTest, WhatNobodyLooksAtHasAPlaceToo) {
  Intake intake;
  intake.SetSlots(2, true);
  Incoming& incoming = intake.Next(1);
  incoming.payload_bytes = 100;
  EXPECT_EQ(incoming.fate, Fate::kDropped);
  EXPECT_EQ(intake.Begin(1).size(), 100u);
  EXPECT_TRUE(intake.IsReceiving(1));
  EXPECT_FALSE(intake.IsReceiving(0));
  EXPECT_TRUE(intake.End(1).place.empty());
  EXPECT_FALSE(intake.IsReceiving(1));
}

TEST(IntakeTest, GivesTheMemoryBackWhenItIsForgotten) {
  BufferPool pool;
  Intake intake;
  intake.SetSlots(1, true);
  Incoming& incoming = intake.Next(0);
  incoming.fate = Fate::kVerdict;
  incoming.keep = pool.Take(8);
  incoming.place = ByteSpan(incoming.keep.data(), 8);
  EXPECT_EQ(intake.Begin(0).data(), incoming.keep.data());
  EXPECT_EQ(intake.End(0).fate, Fate::kVerdict);
  intake.Forget(0);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST(IntakeTest, WhatWasReceivedBeforeIsNothingToTheNextPayload) {
  Intake intake;
  intake.SetSlots(1, true);
  intake.Next(0).fate = Fate::kPostponed;
  intake.Begin(0);
  intake.End(0);
  EXPECT_EQ(intake.Next(0).fate, Fate::kDropped);
}

// A payload that is on its way when a view comes goes on. A payload of an earlier generation does
// not.
TEST(IntakeTest, AViewLeavesWhatIsBeingReceivedAndAGenerationDoesNot) {
  Intake intake;
  intake.SetSlots(1, true);
  intake.Next(0).payload_bytes = 5;
  intake.Begin(0);
  intake.SetSlots(1, false);
  EXPECT_TRUE(intake.IsReceiving(0));
  EXPECT_EQ(intake.End(0).payload_bytes, 5u);
  intake.Begin(0);
  intake.SetSlots(3, true);
  for (Slot slot : {0u, 1u, 2u}) EXPECT_FALSE(intake.IsReceiving(slot));
}

}  // namespace
}  // namespace byteps::protocol
