#include "src/protocol/worker/lane/lane_moves.h"

#include <algorithm>
#include <utility>

#include "src/protocol/worker/lane/kept_verdicts.h"

namespace byteps::protocol {
namespace {

std::vector<std::byte> BitmapOf(const SlotSet& ranks) {
  std::vector<std::byte> bitmap(ranks.bitmap_bytes());
  ranks.ToBitmap(bitmap);
  return bitmap;
}

}  // namespace

void LaneMoves::Begin() {
  process_sets_.clear();
  joined_ = to_lane::Joined();
  concerned_.clear();
  connected_.clear();
}

void LaneMoves::OnView(uint64_t old_epoch) {
  old_epoch_ = old_epoch;
  concerned_.assign(lane_.links.size(), false);
  connected_.clear();
  to_front::HandOver hand_over;
  hand_over.lane = lane_.options.lane;
  hand_over.epoch = lane_.epoch;
  hand_over.pieces.resize(lane_.options.lanes);
  for (const auto& [id, tensor] : lane_.pieces.all()) {
    for (uint32_t number = 0; number < tensor->pieces.size(); ++number) {
      if (tensor->pieces[number].step != PieceStep::kAway) Review(*tensor, number, hand_over);
    }
  }
  lane_.pieces.EraseEmpty();
  lane_.awaits_take_over = true;
  lane_.driver.ToFront(std::move(hand_over));
  if (lane_.rules.WaitsForTakeOver()) return;
  lane_.readable_epoch = lane_.epoch;
  RepeatAll();
}

// Handles a piece that may have another owner, or the same owner anew.
void LaneMoves::Review(LaneTensor& tensor, uint32_t number, to_front::HandOver& hand_over) {
  LanePiece& piece = tensor.pieces[number];
  ShardId before = piece.owner;
  lane_.pieces.FindOwner(tensor.facts.id, number, piece);
  if (!lane_.rules.HasMoved(before, piece.owner, piece.since, old_epoch_)) return;
  if (before != kNoShard && tensor.AtExchange(piece)) lane_.meter.OnMoved(before);
  piece.held.number = 0;
  piece.held.told = false;
  uint32_t lane = lane_.pieces.LaneOf(piece);
  if (lane != lane_.options.lane && lane_.rules.LetsGo()) {
    hand_over.pieces[lane].push_back(walk_.LetGo(tensor, number));
    return;
  }
  walk_.StopTouching(tensor, number);
  if (piece.owner != kNoShard) concerned_[piece.owner] = true;
}

void LaneMoves::TakeOver(const to_lane::TakeOver& take_over) {
  if (take_over.epoch != lane_.epoch) return;
  for (const MovedPiece& moved : take_over.pieces) {
    walk_.TakeIn(moved);
    const LanePiece& piece = lane_.pieces.Find(moved.tensor.id)->pieces[moved.number];
    if (piece.owner != kNoShard) concerned_[piece.owner] = true;
  }
  lane_.awaits_take_over = false;
  lane_.readable_epoch = lane_.epoch;
  RepeatAll();
  sender_.SendDelayed();
  // A shard may have asked for a piece before it was here.
  for (const MovedPiece& moved : take_over.pieces) walk_.ApplyEarlyWants(moved.tensor.id);
}

void LaneMoves::RepeatAll() {
  ForEachUp([this](ShardId shard) {
    if (connected_.contains(shard)) return Repeat(shard, 0);
    if (concerned_[shard]) return Repeat(shard, old_epoch_);
    // The shard may wait for this message because of tensors that only others know yet.
    lane_.driver.Send(shard, wire::Resync{lane_.epoch});
  });
  connected_.clear();
}

void LaneMoves::OnShardUp(ShardId shard) {
  if (lane_.awaits_take_over && lane_.rules.WaitsForTakeOver()) {
    connected_.insert(shard);
  } else {
    Repeat(shard, 0);
  }
}

void LaneMoves::Repeat(ShardId shard, uint64_t since_after) {
  bool reconnect = since_after == 0;
  if (reconnect) {  // must precede all messages whose meaning depends on it
    for (const auto& [number, ranks] : process_sets_) {
      TellProcessSet(shard, number, ranks);
    }
    TellJoined(shard);
  }
  std::vector<wire::HeldPiece> stable;
  for (const auto& [id, tensor] : lane_.pieces.all()) {
    for (uint32_t number = 0; number < tensor->pieces.size(); ++number) {
      const LanePiece& piece = tensor->pieces[number];
      bool concerned = piece.step != PieceStep::kAway && piece.owner == shard;
      if (concerned && piece.since > since_after) {
        RepeatPiece(*tensor, number, reconnect, stable);
      }
    }
  }
  if (!lane_.rules.TellsWhatIsStable(reconnect)) stable.clear();
  for (size_t at = 0; at < stable.size(); at += wire::kWantCountMax) {
    auto first = stable.begin() + static_cast<ptrdiff_t>(at);
    size_t count = std::min(wire::kWantCountMax, stable.size() - at);
    lane_.driver.Send(shard,
                      wire::Have{lane_.epoch, {first, first + static_cast<ptrdiff_t>(count)}});
  }
  lane_.driver.Send(shard, wire::Resync{lane_.epoch});
}

void LaneMoves::RepeatPiece(LaneTensor& tensor, uint32_t number, bool reconnect,
                            std::vector<wire::HeldPiece>& stable) {
  LanePiece& piece = tensor.pieces[number];
  bool present = piece.held.round == piece.round;
  if (piece.held.round != 0 && !piece.held.stable) {
    if (lane_.rules.TellsVerdict(present, reconnect)) TellVerdict(lane_, tensor, number);
  } else if (piece.held.round != 0) {
    stable.push_back({{tensor.facts.id, number, piece.held.round}, piece.home});
  }
  walk_.PushAgain(tensor, number);
}

void LaneMoves::AddProcessSet(uint32_t number, const SlotSet& ranks) {
  process_sets_[number] = ranks;
  ForEachUp([&](ShardId shard) { TellProcessSet(shard, number, ranks); });
}

void LaneMoves::RemoveProcessSet(uint32_t number) {
  if (process_sets_.erase(number) == 0) return;  // the shards were told nothing of it
  ForEachUp([&](ShardId shard) { TellProcessSet(shard, number, SlotSet()); });
}

void LaneMoves::TellProcessSet(ShardId shard, uint32_t number, const SlotSet& ranks) {
  lane_.driver.Send(shard, wire::ProcessSet{number, lane_.epoch, BitmapOf(ranks)});
}

void LaneMoves::SetJoined(const to_lane::Joined& joined) {
  joined_ = joined;
  ForEachUp([this](ShardId shard) { TellJoined(shard); });
}

void LaneMoves::TellJoined(ShardId shard) {
  if (joined_.number == 0) return;
  lane_.driver.Send(shard, wire::Joined{joined_.number, lane_.epoch, BitmapOf(joined_.ranks)});
}

}  // namespace byteps::protocol
