#include <algorithm>
#include <cstring>

#include "sim/nodes.h"

namespace byteps::sim {
namespace {

protocol::ShardOptions OptionsOf(const ClusterOptions& options) {
  protocol::ShardOptions made;
  made.mistake = options.mistake;
  return made;
}

}  // namespace

ShardNode::ShardNode(Cluster& cluster, const NodeClock& clock, uint32_t index)
    : cluster_(cluster),
      clock_(clock),
      name_("shard " + std::to_string(index)),
      machine_(OptionsOf(cluster.options_), pool_, *cluster.options_.arithmetic, *this),
      ticker_(
          cluster.network_, clock, this, [this] { return machine_.NextTick(); },
          [this](Time now) { machine_.OnTick(now); }) {}

void ShardNode::Bind(ConnectionId connection, Slot slot) {
  if (slot >= connections_.size()) connections_.resize(slot + 1);
  connections_[slot] = connection;
}

void ShardNode::OnView(const wire::View& view) {
  machine_.OnView(view);
  has_view_ = true;
  std::vector<Early> early = std::exchange(early_, {});
  for (Early& one : early) OnFrame(one.connection, one.slot, one.frame);
}

// A push's header is here: where its payload goes, or nothing and the connection is closed.
std::optional<ByteSpan> ShardNode::Begin(ConnectionId connection, Slot slot, const Frame& frame) {
  bool real = cluster_.network_.carries_bytes();
  Result<ByteSpan> place = machine_.OnPushHeader(slot, real ? HeaderOf(frame) : frame.header,
                                                 frame.payload_bytes, clock_.now());
  if (place.ok()) return place.value();
  cluster_.violations_.push_back(name_ + ": " + place.status().ToString());
  cluster_.network_.Close(connection);
  return std::nullopt;
}

void ShardNode::OnHead(ConnectionId connection, uint32_t slot, const Frame& frame) {
  if (frame.type != FrameType::kPush || !has_view_) return;
  std::optional<ByteSpan> place = Begin(connection, slot, frame);
  if (place.has_value()) places_[slot] = *place;
}

void ShardNode::OnFrame(ConnectionId connection, uint32_t slot, Frame& frame) {
  if (!has_view_) {
    early_.push_back({connection, slot, std::move(frame)});
    return;
  }
  if (cluster_.logs()) {
    cluster_.Log(name_ + ": from worker " + std::to_string(slot) + ": " + Describe(frame));
  }
  if (frame.type == FrameType::kAck) machine_.OnAck(slot, frame.header.count);
  if (frame.type == FrameType::kPush) {
    std::optional<ByteSpan> place;
    auto begun = places_.find(slot);
    if (begun != places_.end()) {
      place = begun->second;
      places_.erase(begun);
    } else {
      place = Begin(connection, slot, frame);
    }
    if (!place.has_value()) return;
    if (cluster_.network_.carries_bytes() && !place->empty()) {
      std::memcpy(place->data(), frame.bytes.data(), place->size());
    }
    machine_.OnPush(slot);
  }
  ticker_.Arm();
}

void ShardNode::OnLost(ConnectionId connection, uint32_t slot) {
  if (connections_[slot] != connection) return;  // there is another one since
  places_.erase(slot);
  machine_.OnLost(slot);
}

void ShardNode::SendAnswer(Slot to, const wire::DataHeader& header, ConstByteSpan payload,
                           BufferRef) {
  if (to >= connections_.size() || !connections_[to].has_value()) return;
  Network& network = cluster_.network_;
  Frame& frame = network.NewFrame();
  MakeData(frame, FrameType::kAnswer, header, payload, network.carries_bytes());
  network.Send(*connections_[to], this, frame);
}

void ShardNode::SendWant(Slot to, const std::vector<wire::PieceRef>& pieces) {
  if (to >= connections_.size() || !connections_[to].has_value()) return;
  Frame& frame = cluster_.network_.NewFrame();
  MakeWant(frame, pieces);
  cluster_.network_.Send(*connections_[to], this, frame);
}

ServerNode::ServerNode(Cluster& cluster, uint32_t index, ShardId first_shard, uint64_t incarnation)
    : cluster_(cluster), index_(index), incarnation_(incarnation), clock_(cluster.network_) {
  for (uint32_t i = 0; i < cluster.options_.servers[index].shards; ++i) {
    shards.push_back(std::make_unique<ShardNode>(cluster, clock_, first_shard + i));
  }
}

void ServerNode::Start() {
  const ServerPlace& place = cluster_.options_.servers[index_];
  control_ =
      cluster_.network_.Connect(place.host, this, kControlTag, cluster_.options_.coordinator_host,
                                cluster_.coordinator_.get(), kControlTag);
  wire::Join join;
  join.role = Role::kServer;
  join.rank = static_cast<int32_t>(index_);
  join.incarnation = incarnation_;
  join.host = "host-" + std::to_string(place.host);
  join.address = "server-" + std::to_string(index_);
  join.shards = place.shards;
  join.worker_count = cluster_.worker_count();
  join.server_count = static_cast<uint32_t>(cluster_.options_.servers.size());
  join.piece_bytes_max = cluster_.options_.piece_bytes_max;
  join.version = kVersion;
  Frame& frame = cluster_.network_.NewFrame();
  MakeControl(frame, join);
  cluster_.network_.Send(control_, this, frame);
}

void ServerNode::OnFrame(ConnectionId, uint32_t, Frame& frame) {
  wire::Message message = MessageOf(frame);
  for (auto& shard : shards) {
    if (const auto* view = std::get_if<wire::View>(&message)) shard->OnView(*view);
    if (const auto* left = std::get_if<wire::Left>(&message)) {
      shard->machine().OnLeft(left->slot, Status(StatusCode::kPeerLost, left->text));
    }
    if (const auto* failed = std::get_if<wire::DeclareFailed>(&message)) {
      shard->machine().Retire(failed->tensor);
    }
    shard->AfterEvent();
  }
  if (std::holds_alternative<wire::JobOver>(message)) Stop();
}

void ServerNode::OnLost(ConnectionId, uint32_t) { Stop(); }

void ServerNode::Stop() {
  for (auto& shard : shards) {
    shard->Stop();
    cluster_.network_.Kill(shard.get());
  }
  cluster_.network_.Kill(this);
}

void ServerNode::StepClock(Duration by) {
  clock_.Step(by);
  for (auto& shard : shards) shard->AfterEvent();
}

}  // namespace byteps::sim
