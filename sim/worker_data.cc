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
  machine_.OnShardUp(shard);
}

// Takes an answer's header with the first part of its payload. Returns the place of the payload;
// nothing if it has closed the connection.
std::optional<ByteSpan> WorkerNode::Begin(ConnectionId connection, ShardId shard,
                                          const Frame& frame) {
  bool real = cluster_.network_.carries_bytes();
  Result<ByteSpan> place =
      machine_.OnAnswerHeader(shard, real ? HeaderOf(frame) : frame.header, frame.payload_bytes);
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
  if (frame.type != FrameType::kAnswer || stopped_) return;
  if (links_[tag].connection != connection || !links_[tag].bound) return;
  std::optional<ByteSpan> place = Begin(connection, tag, frame);
  if (place.has_value()) places_[tag] = *place;
}

// Forgets places of payloads that are coming in. Frames carry copies, so they need nothing.
void WorkerNode::Forget(uint32_t lane, ConstByteSpan memory) {
  for (auto& [shard, place] : places_) {
    if (machine_.LaneOf(shard) == lane && Overlap(memory, place)) place = ByteSpan();
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
  machine_.OnAnswer(shard, clock_.now());
}

void WorkerNode::OnFrame(ConnectionId connection, uint32_t tag, Frame& frame) {
  if (stopped_) return;
  if (cluster_.logs()) cluster_.Log("worker " + std::to_string(rank_) + ": " + Describe(frame));
  if (tag == kControlTag) {
    control_.OnFrame(connection, frame);
  } else if (links_[tag].connection == connection) {
    bool bound = links_[tag].bound;
    if (frame.type == FrameType::kWelcome) OnWelcome(tag, frame);
    if (bound && frame.type == FrameType::kWant) machine_.OnWant(tag, PiecesOf(frame));
    if (bound && frame.type == FrameType::kAnswer) OnAnswer(connection, tag, frame);
    if (bound && frame.type == FrameType::kStable) {
      machine_.OnStable(tag, {frame.header.count, frame.header.epoch});
    }
    NoteFrame(tag, frame.type);
  }
  ticker_.Arm();
}

void WorkerNode::NoteFrame(ShardId from, FrameType type) {
  uint32_t index = TargetOf(from).server;
  if (type == FrameType::kAnswer) cluster_.Note(Moment::kAnswerArrived, rank_, index);
  if (type == FrameType::kStable) cluster_.Note(Moment::kStableArrived, rank_, index);
}

void WorkerNode::SendSmall(ShardId to, FrameType type, const wire::DataHeader& header) {
  if (!links_[to].connection.has_value()) return;
  Frame& frame = cluster_.network_.NewFrame();
  MakeSmall(frame, type, header);
  cluster_.network_.Send(*links_[to].connection, this, frame);
}

void WorkerNode::SendData(FrameType type, ShardId to, const wire::DataHeader& header,
                          ConstByteSpan payload) {
  Network& network = cluster_.network_;
  if (!links_[to].connection.has_value()) return;
  Frame& frame = network.NewFrame();
  MakeData(frame, type, header, payload, network.carries_bytes());
  network.Send(*links_[to].connection, this, frame);
}

void WorkerNode::SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                          BufferRef) {
  cluster_.pushed_bytes_by_shard_[to] += payload.size();
  SendData(FrameType::kPush, to, header, payload);
}

void WorkerNode::SendVerdict(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                             BufferRef) {
  SendData(FrameType::kVerdict, to, header, payload);
}

void WorkerNode::SendHave(ShardId to, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces) {
  if (!links_[to].connection.has_value()) return;
  Frame& frame = cluster_.network_.NewFrame();
  MakeHave(frame, epoch, pieces);
  cluster_.network_.Send(*links_[to].connection, this, frame);
}

void WorkerNode::SendResync(ShardId to, uint64_t epoch) {
  wire::DataHeader header;
  header.epoch = epoch;
  SendSmall(to, FrameType::kResync, header);
}

void WorkerNode::SendAbort(ShardId to, const wire::DataHeader& push, const std::string& why) {
  if (!links_[to].connection.has_value()) return;
  Frame& frame = cluster_.network_.NewFrame();
  MakeAbort(frame, push, why);
  cluster_.network_.Send(*links_[to].connection, this, frame);
}

void WorkerNode::SendAck(ShardId to, const wire::Progress& ack) {
  wire::DataHeader header;
  header.count = ack.count;
  header.epoch = ack.epoch;
  SendSmall(to, FrameType::kAck, header);
}

void WorkerNode::SendProcessSet(ShardId to, const wire::Progress& number, const SlotSet& ranks) {
  if (!links_[to].connection.has_value()) return;
  Frame& frame = cluster_.network_.NewFrame();
  MakeProcessSet(frame, number, ranks.List());
  cluster_.network_.Send(*links_[to].connection, this, frame);
}

// Ignores the ranks, because a contributor of the simulator joins as a whole.
void WorkerNode::SendJoined(ShardId to, const wire::Progress& number, const SlotSet&) {
  wire::DataHeader header;
  header.count = number.count;
  header.epoch = number.epoch;
  SendSmall(to, FrameType::kJoined, header);
}

}  // namespace byteps::sim
