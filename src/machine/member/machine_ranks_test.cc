#include "src/machine/member/machine_ranks.h"

#include <gtest/gtest.h>

namespace byteps::machine {
namespace {

// Returns the workers of two machines, to which the ranks were dealt in turn.
std::vector<wire::WorkerInfo> DealtInTurn() {
  std::vector<wire::WorkerInfo> workers;
  for (uint32_t rank = 0; rank < 6; ++rank) {
    wire::WorkerInfo worker;
    worker.rank = rank;
    worker.slot = rank % 2;
    worker.local_rank = rank / 2;
    workers.push_back(worker);
  }
  return workers;
}

TEST(MachineRanksTest, HasTheRanksOfItsSlot) {
  MachineRanks ranks;
  ranks.Take(DealtInTurn(), 1);
  EXPECT_EQ(ranks.RankOf(2), 5u);
  EXPECT_EQ(ranks.LocalRankOf(3), 1u);
  EXPECT_EQ(ranks.LocalRankOf(2), std::nullopt) << "it is of the other machine";
  EXPECT_EQ(ranks.NameOf(2), "worker 5");
  EXPECT_EQ(ranks.NamesOf(0b101), "1, 5");
  EXPECT_EQ(ranks.Places(1), (std::vector<uint32_t>{1, 3, 5}));
  EXPECT_EQ(ranks.Places(3), (std::vector<uint32_t>{1, 4, 6}));
}

TEST(MachineRanksTest, BeforeAViewItKnowsLocalRanksOnly) {
  MachineRanks ranks;
  EXPECT_EQ(ranks.RankOf(1), kNoRank);
  EXPECT_EQ(ranks.LocalRankOf(0), std::nullopt);
  EXPECT_EQ(ranks.NameOf(1), "the worker with local rank 1");
}

// The others of the machine name the worker when it has left.
TEST(MachineRanksTest, WhoIsInALaterViewNoMoreKeepsItsRank) {
  std::vector<wire::WorkerInfo> workers = DealtInTurn();
  MachineRanks ranks;
  ranks.Take(workers, 0);
  workers.erase(workers.begin() + 2);
  ranks.Take(workers, 0);
  EXPECT_EQ(ranks.RankOf(1), 2u);
}

// A new generation may deal the ranks anew.
TEST(MachineRanksTest, ALaterViewMayGiveOtherRanks) {
  MachineRanks ranks;
  ranks.Take(DealtInTurn(), 0);
  std::vector<wire::WorkerInfo> workers = DealtInTurn();
  for (wire::WorkerInfo& worker : workers) worker.slot = 1 - worker.slot;
  ranks.Take(workers, 0);
  EXPECT_EQ(ranks.Places(1), (std::vector<uint32_t>{1, 3, 5}));
}

// Another process sends the view, so the view may be wrong.
TEST(MachineRanksTest, WhatNoMachineCanHaveIsPassedOver) {
  std::vector<wire::WorkerInfo> workers = DealtInTurn();
  workers[2].local_rank = UINT32_MAX;
  MachineRanks ranks;
  ranks.Take(workers, 0);
  EXPECT_EQ(ranks.LocalRankOf(2), std::nullopt);
  EXPECT_EQ(ranks.LocalRankOf(4), 2u);
}

}  // namespace
}  // namespace byteps::machine
