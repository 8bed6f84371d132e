#include "src/protocol/worker/exchange/operation.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

TEST(OutcomeTest, ItsReceiptIsOfThoseWhoAreInEveryPart) {
  auto all = std::make_shared<SlotSet>();
  for (Slot slot : {0, 1, 2}) all->Insert(slot);
  auto some = std::make_shared<SlotSet>();
  some->Insert(1);
  Outcome outcome;
  outcome.Add(all, false);
  EXPECT_EQ(outcome.receipt, Receipt(all)) << "the same object";
  EXPECT_FALSE(outcome.mixed);
  outcome.Add(some, false);
  EXPECT_EQ(outcome.receipt->List(), (std::vector<Slot>{1}));
  EXPECT_TRUE(outcome.mixed);
  outcome.Add(some, false);
  EXPECT_TRUE(outcome.mixed) << "it stays so";
  Outcome other;
  other.Add(all, true);
  EXPECT_TRUE(other.mixed) << "some pieces of that part have more";
}

}  // namespace
}  // namespace byteps::protocol
