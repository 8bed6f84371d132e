#include "src/protocol/worker/front/placed_sets.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

// The contributors are ranks 0 and 1, rank 2, and ranks 3 and 4. The slot of a contributor is its
// lowest rank.
std::vector<wire::WorkerInfo> Roster() {
  std::vector<wire::WorkerInfo> roster;
  for (auto [slot, rank] : {std::pair{0u, 0u}, {0u, 1u}, {2u, 2u}, {3u, 3u}, {3u, 4u}}) {
    wire::WorkerInfo one;
    one.slot = slot;
    one.rank = rank;
    roster.push_back(one);
  }
  return roster;
}

Receipt ReceiptOf(const std::vector<Slot>& slots) {
  auto receipt = std::make_shared<SlotSet>();
  for (Slot slot : slots) receipt->Insert(slot);
  return receipt;
}

TEST(PlacedSetsTest, AReceiptOfContributorsNamesTheirRanksInTheSet) {
  PlacedSets sets;
  sets.Begin(Roster(), 0);
  ASSERT_TRUE(sets.Add(1, {0, 2, 4}).ok());
  EXPECT_EQ(sets.Of(0).RanksIn(ReceiptOf({0, 3}))->List(), (std::vector<uint32_t>{0, 1, 3, 4}));
  EXPECT_EQ(sets.Of(1).RanksIn(ReceiptOf({0, 3}))->List(), (std::vector<uint32_t>{0, 4}));
}

TEST(PlacedSetsTest, WhereSlotsAreRanksTheReceiptNamesThem) {
  PlacedSets sets;
  std::vector<wire::WorkerInfo> roster = Roster();
  for (wire::WorkerInfo& one : roster) one.slot = one.rank;
  sets.Begin(roster, 0);
  Receipt receipt = ReceiptOf({0, 3});
  EXPECT_EQ(sets.Of(0).RanksIn(receipt), receipt) << "the same object";
  sets.Begin(Roster(), 0);
  EXPECT_NE(sets.Of(0).RanksIn(receipt), receipt) << "another generation";
}

TEST(PlacedSetsTest, EachSetKnowsWhatBitsOfItsSumsDependOn) {
  PlacedSets sets;
  sets.Begin(Roster(), 0);
  ASSERT_TRUE(sets.Add(1, {0, 2, 3}).ok());
  ASSERT_TRUE(sets.Add(2, {0, 1, 2}).ok());
  EXPECT_EQ(sets.Of(0).sum_bits, plan::SumBits::kOnPlacement) << "ranks 3 and 4 are no block";
  EXPECT_EQ(sets.Of(1).sum_bits, plan::SumBits::kOnNothingElse) << "one of each contributor";
  EXPECT_EQ(sets.Of(2).sum_bits, plan::SumBits::kOnMachines);
  sets.Begin(Roster(), 0, {.group = 1, .own_nodes = true});
  EXPECT_EQ(sets.Of(2).sum_bits, plan::SumBits::kOnNothingElse);
  sets.Begin(Roster(), 0, {.group = 3});
  EXPECT_EQ(sets.Of(0).sum_bits, plan::SumBits::kOnMachines);
}

}  // namespace
}  // namespace byteps::protocol
