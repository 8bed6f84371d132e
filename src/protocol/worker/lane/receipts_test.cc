#include "src/protocol/worker/lane/receipts.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

Receipt Everybody(const std::vector<Slot>& slots) {
  auto receipt = std::make_shared<SlotSet>();
  for (Slot slot : slots) receipt->Insert(slot);
  return receipt;
}

TEST(ReceiptsTest, OfEachViewAndEachProcessSetThereIsOneObject) {
  Receipts receipts;
  receipts.AddView(1, Everybody({0, 1, 2}));
  receipts.AddView(2, Everybody({0, 2}));
  receipts.AddProcessSet(4, *Everybody({1, 2, 9}));
  EXPECT_EQ(receipts.Of(0, 1)->List(), (std::vector<Slot>{0, 1, 2}));
  EXPECT_EQ(receipts.Of(0, 2)->List(), (std::vector<Slot>{0, 2}));
  EXPECT_EQ(receipts.Of(4, 1)->List(), (std::vector<Slot>{1, 2}));
  EXPECT_EQ(receipts.Of(4, 2)->List(), (std::vector<Slot>{2}));
  EXPECT_EQ(receipts.Of(4, 1), receipts.Of(4, 1)) << "comparing them need not look inside";
}

TEST(ReceiptsTest, AGenerationForgetsViewsAndKeepsProcessSets) {
  Receipts receipts;
  receipts.AddView(1, Everybody({0, 1}));
  receipts.AddProcessSet(4, *Everybody({1, 2}));
  EXPECT_EQ(receipts.Of(4, 1)->List(), (std::vector<Slot>{1}));
  receipts.Clear();
  EXPECT_FALSE(receipts.Knows(1));
  receipts.AddView(1, Everybody({0, 1, 2}));
  EXPECT_TRUE(receipts.Knows(1));
  EXPECT_EQ(receipts.Of(4, 1)->List(), (std::vector<Slot>{1, 2}));
  receipts.RemoveProcessSet(4);
  EXPECT_EQ(receipts.Of(4, 1)->List(), (std::vector<Slot>{0, 1, 2})) << "as if of all";
}

}  // namespace
}  // namespace byteps::protocol
