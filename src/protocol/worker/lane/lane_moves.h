// The work of a lane when members come and go. It finds the present owners of its pieces, hands
// over the pieces that go to other lanes, and takes over the pieces that come. Then it repeats to a
// shard what that shard may not know: process sets and the join, verdicts that others may lack,
// pushes without an answer, and the verdicts that all members hold. At last it says that this is
// all (docs/membership.md). One thread at a time.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "src/protocol/worker/lane/lane_context.h"
#include "src/protocol/worker/lane/piece_walk.h"

namespace byteps::protocol {

class LaneMoves {
 public:
  LaneMoves(LaneContext& lane, PieceWalk& walk, PieceSender& sender)
      : lane_(lane), walk_(walk), sender_(sender) {}

  // Forgets everything, because a generation begins.
  void Begin();
  // Hands over pieces, because the context has a newer view. `old_epoch`: the epoch of the view
  // before.
  void OnView(uint64_t old_epoch);
  void TakeOver(const to_lane::TakeOver& take_over);

  // Repeats to the shard what it may not know: at once, or after the lane has taken over. REQUIRES:
  // the context's links know the connection.
  void OnShardUp(ShardId shard);
  void OnShardDown(ShardId shard) { connected_.erase(shard); }

  // Tells the shards; connected shards hear it at once.
  void AddProcessSet(uint32_t number, const SlotSet& ranks);
  void RemoveProcessSet(uint32_t number);
  void SetJoined(const to_lane::Joined& joined);

 private:
  void Review(LaneTensor& tensor, uint32_t number, to_front::HandOver& hand_over);
  void RepeatAll();
  void Repeat(ShardId shard, uint64_t since_after);
  void TellProcessSet(ShardId shard, uint32_t number, const SlotSet& ranks);
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
  PieceWalk& walk_;
  PieceSender& sender_;
  std::map<uint32_t, SlotSet> process_sets_;  // ranks by the number of the set
  to_lane::Joined joined_;
  // These are about a view whose take-over is not here: the epoch before it, the shards that own
  // pieces anew, and the shards that were connected since.
  uint64_t old_epoch_ = 0;
  std::vector<bool> concerned_;
  std::set<ShardId> connected_;
};

}  // namespace byteps::protocol
