// What a lane does when members come and go: finds who owns its pieces now, hands over those that
// go to other lanes, takes over what comes, and repeats to a shard what that may not know: process
// sets and the join, then verdicts that others may lack, then pushes without an answer, then what
// all members hold; at last, that this is all (docs/membership.md). One thread at a time.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "src/protocol/worker/lane/keeper.h"
#include "src/protocol/worker/lane/lane_context.h"
#include "src/protocol/worker/lane/piece_walk.h"

namespace byteps::protocol {

class LaneMoves {
 public:
  LaneMoves(LaneContext& lane, Keeper& keeper, PieceWalk& walk, Pushes& pushes)
      : lane_(lane), keeper_(keeper), walk_(walk), pushes_(pushes) {}

  // A generation begins: nothing is known any more.
  void Begin();
  // The context has a newer view; `old_epoch` is that of the view before. Hands over.
  void OnView(uint64_t old_epoch);
  void TakeOver(const to_lane::TakeOver& take_over);

  // The context's links know it. Says what must be repeated; at once, or when it has taken over.
  void OnShardUp(ShardId shard);
  void OnShardDown(ShardId shard) { connected_.erase(shard); }

  // Shards are told, those that are connected at once.
  void AddProcessSet(uint32_t number, const SlotSet& ranks);
  void RemoveProcessSet(uint32_t number);
  void SetJoined(const to_lane::Joined& joined);

 private:
  void Review(LaneTensor& tensor, uint32_t number, to_front::HandOver& hand_over);
  void RepeatAll();
  void Repeat(ShardId shard, uint64_t since_after);
  void TellJoined(ShardId shard);
  void RepeatPiece(LaneTensor& tensor, uint32_t number, bool reconnect,
                   std::vector<wire::HeldPiece>& stable);
  template <typename Tell>
  void ForEachUp(Tell tell) {
    for (ShardId shard = 0; shard < lane_.links.size(); ++shard) {
      if (lane_.links.IsUp(shard)) tell(shard);
    }
  }

  LaneContext& lane_;
  Keeper& keeper_;
  PieceWalk& walk_;
  Pushes& pushes_;
  std::map<uint32_t, SlotSet> process_sets_;  // by number: ranks
  to_lane::Joined joined_;
  // Of a view whose take-over is not here: the epoch before it, the shards that own pieces anew,
  // and those that were connected since.
  uint64_t old_epoch_ = 0;
  std::vector<bool> concerned_;
  std::set<ShardId> connected_;
};

}  // namespace byteps::protocol
