#include "src/protocol/worker/lane/lane_moves.h"

#include <gtest/gtest.h>

#include "src/protocol/worker/lane/lane_for_test.h"
#include "src/protocol/worker/worker_mistakes_for_test.h"

namespace byteps::protocol {
namespace {

// The lane is lane 0 of two. It has shards 0 and 2 of three; each shard has its own server.
class LaneMovesTest : public LaneForTest {
 protected:
  LaneMovesTest() : LaneForTest(0, 2, 3) {
    view.servers.assign(3, view.servers[0]);
    for (uint32_t i = 0; i < 3; ++i) {
      view.servers[i].index = view.servers[i].first_shard = i;
      view.servers[i].shard_weights = {1};
    }
    reader.Begin(3);
  }

  void Start() {
    LaneContext& lane = MakeContext();
    sender.emplace(lane);
    walk.emplace(lane, reader, *sender);
    moves.emplace(lane, *walk, *sender);
    moves->Begin();
    Connect(0);
    Connect(2);
    walk->Begin(exchange);
    driver.resyncs.clear();
    driver.order.clear();
  }
  void Connect(ShardId shard) {
    made->links.OnUp(shard);
    moves->OnShardUp(shard);
  }
  // Makes the next view, in which this server has died or has come back.
  void ChangeServer(uint32_t server, bool alive) {
    uint64_t old_epoch = view.epoch++;
    view.servers[server].alive = alive;
    view.servers[server].since = view.epoch;
    made->epoch = view.epoch;
    made->pieces.SetOwnership(OwnershipOf(view));
    made->receipts.AddView(view.epoch, WorkersOf(view));
    moves->OnView(old_epoch);
  }
  to_front::HandOver HandedOver() { return driver.Told<to_front::HandOver>().back(); }
  void TakeOver(std::vector<MovedPiece> pieces = {}) {
    moves->TakeOver({view.epoch, std::move(pieces)});
  }

  // Holds a verdict of an earlier round. If `stable`, all members have it, otherwise others may
  // lack it.
  void Hold(uint32_t number, bool stable) {
    LanePiece& piece = made->pieces.Find(7)->pieces[number];
    piece.held.round = 256;
    piece.held.stable = stable;
    piece.held.receipt = WorkersOf(view);
    piece.copy = pool.Take(4);
    piece.copy_bytes = 4;
  }

  AnswerReader reader{pool, arithmetic};
  std::optional<PieceSender> sender;
  std::optional<PieceWalk> walk;
  std::optional<LaneMoves> moves;
};

TEST_F(LaneMovesTest, WhatGoesToAShardOfAnotherLaneIsHandedOver) {
  Start();
  EXPECT_EQ(driver.pushes.size(), 2U);
  ChangeServer(0, false);
  ChangeServer(2, false);  // only shard 1, of the other lane, lives
  to_front::HandOver hand_over = HandedOver();
  EXPECT_EQ(hand_over.epoch, view.epoch);
  size_t pieces = 0;
  for (const auto& mail : driver.Told<to_front::HandOver>()) {
    EXPECT_TRUE(mail.pieces[0].empty());
    pieces += mail.pieces[1].size();
  }
  EXPECT_EQ(pieces, 2U);
  EXPECT_EQ(made->pieces.Find(7)->exchange, nullptr) << "its part has ended here";
}

// Until all lanes have handed over, a shard hears nothing, because it might decide without the
// pieces that come.
TEST_F(LaneMovesTest, ALaneRepeatsWhenItHasTakenOver) {
  Start();
  driver.pushes.clear();
  ChangeServer(1, false);
  EXPECT_TRUE(made->awaits_take_over);
  Connect(2);
  EXPECT_TRUE(driver.resyncs.empty());
  MovedPiece moved;
  moved.tensor = exchange.tensor;
  moved.number = moved.home = 1;
  moved.exchange = &exchange;
  moved.round = wire::RoundOf(1, 0);
  moved.set_out = true;
  TakeOver({moved});
  EXPECT_EQ(driver.resyncs, (std::vector<ShardId>{0, 2}));
  walk->SetOut();
  ASSERT_EQ(driver.pushes.size(), 2U);
  EXPECT_EQ(driver.pushes[0].header.ref.piece, 2U) << "shard 2 was connected anew";
  EXPECT_EQ(driver.pushes[1].header.ref.piece, 1U);
}

TEST_F(LaneMovesTest, ToRepeatBeforeItHasTakenOverIsAMistakeThatShows) {
  options.rules = &LaneRulesWith(WorkerMistake::kResyncBeforeTakeOver);
  Start();
  ChangeServer(1, false);
  EXPECT_EQ(driver.resyncs.size(), 2U);
}

// The take-over left for a view that is no longer the lane's.
TEST_F(LaneMovesTest, ATakeOverOfAnEarlierViewIsNoNews) {
  Start();
  ChangeServer(1, false);
  moves->TakeOver({view.epoch - 1, {}});
  EXPECT_TRUE(made->awaits_take_over);
  TakeOver();
  EXPECT_FALSE(made->awaits_take_over);
}

TEST_F(LaneMovesTest, AConnectionIsToldSetsJoinVerdictsAndWhatAllHaveAndThatThisIsAll) {
  Start();
  SlotSet ranks;
  ranks.Insert(0);
  moves->AddProcessSet(4, ranks);
  moves->SetJoined({1, {}});
  EXPECT_EQ(driver.order, "set 4 set 4 joined 1 joined 1 ");
  Hold(0, false);
  driver.order.clear();
  driver.pushes.clear();
  Connect(0);
  EXPECT_EQ(driver.order, "set 4 joined 1 verdict resync ");
  EXPECT_EQ(driver.pushes.size(), 1U) << "what has no answer is pushed again";
  Hold(0, true);
  driver.order.clear();
  Connect(0);
  EXPECT_EQ(driver.order, "set 4 joined 1 have resync ");
  EXPECT_EQ(driver.haves.at(0).second.at(0).ref, (wire::PieceRef{7, 0, 256}));
  moves->RemoveProcessSet(4);
  moves->RemoveProcessSet(5);  // the shards were told nothing of it
  moves->SetJoined({});
  driver.order.clear();
  Connect(0);
  EXPECT_EQ(driver.order, "have resync ");
}

TEST_F(LaneMovesTest, AShardThatOwnsNothingAnewHearsOnlyThatThisIsAll) {
  Start();
  driver.pushes.clear();
  Hold(0, false);
  ChangeServer(1, false);
  TakeOver();
  EXPECT_EQ(driver.order, "resync resync ");
  EXPECT_TRUE(driver.pushes.empty());
}

TEST_F(LaneMovesTest, AGenerationForgetsSetsAndJoins) {
  Start();
  SlotSet ranks;
  ranks.Insert(0);
  moves->AddProcessSet(4, ranks);
  moves->SetJoined({1, {}});
  moves->Begin();
  driver.order.clear();
  Connect(0);
  EXPECT_EQ(driver.order, "resync ");
}

}  // namespace
}  // namespace byteps::protocol
