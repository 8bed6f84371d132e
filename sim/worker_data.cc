// The messages between a worker and shards.
#include "sim/server_node.h"
#include "sim/worker_node.h"

namespace byteps::sim {

void WorkerNode::OnWelcome(ShardId shard, const Frame& frame) {
  Link& link = links_[shard];
  if (frame.header.status != StatusCode::kOk) return;  // the coordinator will say why
  link.bound = true;
  link.lost_since.reset();
  link.pause = Duration::zero();
  LaneOf(shard).machine.OnShardUp(shard);
}

// Takes an answer's header with the first part of its payload. Returns the place of the payload;
// nothing if it has closed the connection.
std::optional<ByteSpan> WorkerNode::Begin(ConnectionId connection, ShardId shard,
                                          const Frame& frame) {
  bool real = cluster_.network_.carries_bytes();
  Result<ByteSpan> place = LaneOf(shard).machine.OnAnswerHeader(
      shard, real ? HeaderOf(frame) : frame.header, frame.payload_bytes);
  if (place.ok()) {
    TakeFirstPart(frame, place.value());
    return place.value();
  }
  cluster_.violations_.push_back("worker " + std::to_string(rank_) + ": " +
                                 place.status().ToString());
  cluster_.network_.Close(connection);
  return std::nullopt;
}

void WorkerNode::OnHead(ConnectionId connection, uint32_t tag, const Frame& frame) {
  if (frame.kind != wire::FrameKind::kAnswer || stopped_) return;
  if (links_[tag].connection != connection || !links_[tag].bound) return;
  std::optional<ByteSpan> place = Begin(connection, tag, frame);
  if (place.has_value()) places_[tag] = *place;
}

// Forgets places of payloads that are coming in. Frames carry copies, so they need nothing.
void WorkerNode::Lane::Forget(ConstByteSpan memory) {
  for (auto& [shard, place] : node.places_) {
    if (&node.LaneOf(shard) == this && Overlap(memory, place)) place = ByteSpan();
  }
}

void WorkerNode::OnAnswer(ConnectionId connection, ShardId shard, const Frame& frame) {
  std::optional<ByteSpan> place;
  auto begun = places_.find(shard);
  if (begun != places_.end()) {
    place = begun->second;
    places_.erase(begun);
  } else {
    place = Begin(connection, shard, frame);
  }
  if (!place.has_value()) return;
  TakeRest(frame, *place);
  LaneOf(shard).machine.OnAnswer(shard, clock_.now());
}

void WorkerNode::OnFrame(ConnectionId connection, uint32_t tag, Frame& frame) {
  if (stopped_) return;
  if (cluster_.logs()) cluster_.Log("worker " + std::to_string(rank_) + ": " + Describe(frame));
  if (tag == kControlTag) {
    control_.OnFrame(connection, frame);
  } else if (links_[tag].connection == connection) {
    if (frame.kind == wire::FrameKind::kWelcome) {
      OnWelcome(tag, frame);
    } else if (links_[tag].bound && frame.kind == wire::FrameKind::kAnswer) {
      OnAnswer(connection, tag, frame);
    } else if (links_[tag].bound) {
      LaneOf(tag).machine.OnFrame(tag, Unpack(frame));
    }
    NoteFrame(tag, frame.kind);
  }
  ticker_.Arm();
}

void WorkerNode::NoteFrame(ShardId from, wire::FrameKind kind) {
  uint32_t index = TargetOf(from).server;
  if (kind == wire::FrameKind::kAnswer) cluster_.Note(Moment::kAnswerArrived, rank_, index);
  if (kind == wire::FrameKind::kStable) cluster_.Note(Moment::kStableArrived, rank_, index);
}

template <typename... Packed>
void WorkerNode::SendPacked(ShardId to, const Packed&... packed) {
  if (!links_[to].connection.has_value()) return;
  Frame& frame = cluster_.network_.NewFrame();
  Pack(frame, packed...);
  cluster_.network_.Send(*links_[to].connection, this, frame);
}

void WorkerNode::Lane::SendData(ShardId to, wire::DataFrame frame) {
  bool push = frame.kind == wire::FrameKind::kPush;
  if (push) node.cluster_.pushed_bytes_by_shard_[to] += frame.payload.size();
  node.SendPacked(to, frame, node.cluster_.network_.carries_bytes());
}

void WorkerNode::Lane::Send(ShardId to, const wire::Frame& frame) { node.SendPacked(to, frame); }

}  // namespace byteps::sim
