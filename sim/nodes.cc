#include "sim/nodes.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <variant>

namespace byteps::sim {
namespace {

constexpr const char* kVersion = "simulated";
constexpr uint32_t kPrefixBytes = 8;

uint32_t HeaderBytes(const wire::DataHeader& header, size_t payload_bytes) {
  std::byte bytes[wire::kDataHeaderBytesMax];
  return static_cast<uint32_t>(wire::EncodeDataHeader(header, payload_bytes, bytes));
}

Frame DataFrame(Network& network, FrameType type, const wire::DataHeader& header,
                ConstByteSpan payload) {
  Frame frame;
  frame.type = type;
  frame.urgency = header.priority;
  frame.header = header;
  frame.payload_bytes = static_cast<uint32_t>(payload.size());
  frame.wire_bytes = kPrefixBytes + frame.payload_bytes;
  if (network.carries_bytes()) {
    frame.wire_bytes += HeaderBytes(header, payload.size());
    frame.payload.assign(payload.begin(), payload.end());
  } else {
    frame.wire_bytes += wire::kDataHeaderBytes;
  }
  return frame;
}

// The header as the other side would decode it.
wire::DataHeader OverTheWire(const Frame& frame) {
  std::byte bytes[wire::kDataHeaderBytesMax];
  size_t length = wire::EncodeDataHeader(frame.header, frame.payload_bytes, bytes);
  return wire::DecodeDataHeader(ConstByteSpan(bytes, length), frame.payload_bytes).value();
}

protocol::CoordinatorOptions CoordinatorOptionsOf(const ClusterOptions& options) {
  protocol::CoordinatorOptions made;
  made.worker_machines = static_cast<uint32_t>(options.worker_hosts.size());
  made.server_count = static_cast<uint32_t>(options.servers.size());
  made.piece_bytes_max = options.piece_bytes_max;
  made.version = kVersion;
  made.silence_max = Duration::zero();
  return made;
}

protocol::ShardOptions ShardOptionsOf(const ClusterOptions& options) {
  protocol::ShardOptions made;
  made.mistake = options.mistake;
  return made;
}

protocol::WorkerOptions WorkerOptionsOf(const ClusterOptions& options) {
  protocol::WorkerOptions made;
  made.credit.fixed_bytes = options.credit_bytes;
  return made;
}

}  // namespace

Frame ControlFrame(const wire::Message& message) {
  Frame frame;
  frame.type = FrameType::kControl;
  frame.control = wire::EncodeControl(message);
  frame.wire_bytes = kPrefixBytes + static_cast<uint32_t>(frame.control.size());
  return frame;
}

std::string Describe(const Frame& frame) {
  const wire::PieceRef& ref = frame.header.ref;
  std::string piece = "tensor " + std::to_string(ref.tensor) + " piece " +
                      std::to_string(ref.piece) + " round " + std::to_string(ref.round) + ", " +
                      std::to_string(frame.payload_bytes) + " bytes";
  switch (frame.type) {
    case FrameType::kControl: {
      static constexpr const char* kNames[] = {"join",    "refused",  "waiting",        "view",
                                               "declare", "declared", "declare failed", "leave",
                                               "alive",   "suspect",  "job over",       "left"};
      static_assert(std::size(kNames) == std::variant_size_v<wire::Message>);
      return kNames[wire::DecodeControl(frame.control).value().index()];
    }
    case FrameType::kPush: return "push of " + piece;
    case FrameType::kAnswer:
      return "answer " + std::to_string(frame.header.count) + " for " + piece +
             (frame.header.status == StatusCode::kOk ? "" : ", an error");
    case FrameType::kWant: return "want of " + std::to_string(frame.pieces.size()) + " pieces";
    case FrameType::kAck: return "acknowledgement up to " + std::to_string(frame.count);
  }
  return "";
}

void Ticker::Arm() {
  if (stopped_) return;
  std::optional<Time> next = next_();
  if (!next.has_value() || (armed_.has_value() && *armed_ <= *next)) return;
  armed_ = *next;
  network_.At(*next, [this, when = *next] {
    if (armed_ != when) return;
    armed_.reset();
    Time now = network_.now();
    if (stopped_) return;
    if (network_.Frozen(owner_)) {
      armed_ = now + milliseconds(1);
      return network_.At(*armed_, [this] {
        armed_.reset();
        Arm();
      });
    }
    std::optional<Time> due = next_();
    if (due.has_value() && *due <= now) tick_(now);
    Arm();
  });
}

CoordinatorNode::CoordinatorNode(Cluster& cluster)
    : cluster_(cluster),
      machine_(CoordinatorOptionsOf(cluster.options_), *this, cluster.network_.now()),
      ticker_(
          cluster.network_, this, [this] { return machine_.NextTick(); },
          [this](Time now) { machine_.OnTick(now); }) {
  ticker_.Arm();
}

void CoordinatorNode::OnFrame(ConnectionId connection, Frame& frame) {
  if (cluster_.logs()) cluster_.Log("coordinator: " + Describe(frame));
  Result<wire::Message> message = wire::DecodeControl(frame.control);
  machine_.OnMessage(connection, message.value(), cluster_.network_.now());
  ticker_.Arm();
}

void CoordinatorNode::OnLost(ConnectionId connection) {
  machine_.OnLost(connection, "the connection was closed");
  ticker_.Arm();
}

void CoordinatorNode::Send(protocol::ConnectionId to, const wire::Message& message) {
  cluster_.network_.Send(static_cast<ConnectionId>(to), this, ControlFrame(message));
}

void CoordinatorNode::Disconnect(protocol::ConnectionId id) {
  cluster_.network_.At(cluster_.network_.now() + seconds(1),
                       [this, id] { cluster_.network_.Close(static_cast<ConnectionId>(id)); });
}

void CoordinatorNode::Report(const std::string& text) { cluster_.Log("coordinator: " + text); }

void CoordinatorNode::Finish(const Status& how) {
  outcome = how;
  ticker_.Stop();
  cluster_.Log("coordinator: finished: " + how.ToString());
}

ShardNode::ShardNode(Cluster& cluster, uint32_t index)
    : cluster_(cluster),
      name_("shard " + std::to_string(index)),
      machine_(ShardOptionsOf(cluster.options_), pool_, *cluster.options_.arithmetic, *this),
      ticker_(
          cluster.network_, this, [this] { return machine_.NextTick(); },
          [this](Time now) { machine_.OnTick(now); }) {}

void ShardNode::Bind(ConnectionId connection, Slot slot) {
  slots_[connection] = slot;
  connections_[slot] = connection;
}

void ShardNode::OnView(const wire::View& view) {
  machine_.OnView(view);
  has_view_ = true;
  std::vector<std::pair<ConnectionId, Frame>> early = std::move(early_);
  early_.clear();
  for (auto& [connection, frame] : early) OnFrame(connection, frame);
}

void ShardNode::OnHead(ConnectionId connection, const Frame& frame) {
  if (frame.type != FrameType::kPush || !has_view_) return;
  Slot slot = slots_.at(connection);
  Result<ByteSpan> place =
      machine_.OnPushHeader(slot, OverTheWire(frame), frame.payload_bytes, cluster_.network_.now());
  if (place.ok()) {
    places_[connection] = place.value();
    return;
  }
  cluster_.violations_.push_back(name_ + ": " + place.status().ToString());
  cluster_.network_.Close(connection);
}

void ShardNode::OnFrame(ConnectionId connection, Frame& frame) {
  if (!has_view_) {
    early_.emplace_back(connection, std::move(frame));
    return;
  }
  Slot slot = slots_.at(connection);
  if (cluster_.logs()) {
    cluster_.Log(name_ + ": from worker " + std::to_string(slot) + ": " + Describe(frame));
  }
  if (frame.type == FrameType::kAck) machine_.OnAck(slot, frame.count);
  if (frame.type == FrameType::kPush) {
    if (!places_.contains(connection)) {
      OnHead(connection, frame);
      if (!places_.contains(connection)) return;
    }
    ByteSpan place = places_[connection];
    places_.erase(connection);
    if (cluster_.network_.carries_bytes() && !place.empty()) {
      std::memcpy(place.data(), frame.payload.data(), place.size());
    }
    machine_.OnPush(slot);
  }
  ticker_.Arm();
}

void ShardNode::OnLost(ConnectionId connection) {
  places_.erase(connection);
  machine_.OnLost(slots_.at(connection));
}

void ShardNode::SendAnswer(Slot to, const wire::DataHeader& header, ConstByteSpan payload,
                           BufferRef) {
  auto found = connections_.find(to);
  if (found == connections_.end()) return;
  cluster_.network_.Send(found->second, this,
                         DataFrame(cluster_.network_, FrameType::kAnswer, header, payload));
}

void ShardNode::SendWant(Slot to, const std::vector<wire::PieceRef>& pieces) {
  auto found = connections_.find(to);
  if (found == connections_.end()) return;
  Frame frame;
  frame.type = FrameType::kWant;
  frame.urgency = INT64_MAX;
  frame.pieces = pieces;
  frame.wire_bytes = kPrefixBytes + static_cast<uint32_t>(pieces.size() * wire::kPieceRefBytes);
  cluster_.network_.Send(found->second, this, std::move(frame));
}

ServerNode::ServerNode(Cluster& cluster, uint32_t index, ShardId first_shard)
    : cluster_(cluster), index_(index) {
  for (uint32_t i = 0; i < cluster.options_.servers[index].shards; ++i) {
    shards.push_back(std::make_unique<ShardNode>(cluster, first_shard + i));
  }
}

void ServerNode::Start() {
  const ServerPlace& place = cluster_.options_.servers[index_];
  control_ = cluster_.network_.Connect(place.host, this, cluster_.options_.coordinator_host,
                                       cluster_.coordinator_.get());
  wire::Join join;
  join.role = Role::kServer;
  join.rank = static_cast<int32_t>(index_);
  join.incarnation = 1000 + index_;
  join.host = "host-" + std::to_string(place.host);
  join.address = "server-" + std::to_string(index_);
  join.shards = place.shards;
  join.worker_count = cluster_.worker_count();
  join.server_count = static_cast<uint32_t>(cluster_.options_.servers.size());
  join.piece_bytes_max = cluster_.options_.piece_bytes_max;
  join.version = kVersion;
  cluster_.network_.Send(control_, this, ControlFrame(join));
}

void ServerNode::OnFrame(ConnectionId, Frame& frame) {
  wire::Message message = wire::DecodeControl(frame.control).value();
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

void ServerNode::OnLost(ConnectionId) { Stop(); }

void ServerNode::Stop() {
  for (auto& shard : shards) {
    shard->Stop();
    cluster_.network_.Kill(shard.get());
  }
  cluster_.network_.Kill(this);
}

WorkerNode::WorkerNode(Cluster& cluster, uint32_t rank)
    : cluster_(cluster),
      rank_(rank),
      machine_(WorkerOptionsOf(cluster.options_), *cluster.options_.arithmetic, *this),
      ticker_(
          cluster.network_, this, [this] { return machine_.NextTick(); },
          [this](Time now) { machine_.OnTick(now); }) {}

void WorkerNode::Start() {
  HostId host = cluster_.options_.worker_hosts[rank_];
  control_ = cluster_.network_.Connect(host, this, cluster_.options_.coordinator_host,
                                       cluster_.coordinator_.get());
  wire::Join join;
  join.role = Role::kWorker;
  join.rank = static_cast<int32_t>(rank_);
  join.incarnation = 1 + rank_;
  join.host = "host-" + std::to_string(host);
  join.worker_count = cluster_.worker_count();
  join.server_count = static_cast<uint32_t>(cluster_.options_.servers.size());
  join.piece_bytes_max = cluster_.options_.piece_bytes_max;
  join.version = kVersion;
  cluster_.network_.Send(control_, this, ControlFrame(join));
}

void WorkerNode::Submit(protocol::Operation operation) {
  if (!alive) return;
  if (!ready_) {
    early_.push_back(std::move(operation));
    return;
  }
  protocol::OperationId id = operation.id;
  Completion& completion = completions[id];
  Status accepted = machine_.Submit(std::move(operation));
  if (!accepted.ok()) {
    if (completion.completions == 0) completions.erase(id);
    refusals[id] = accepted;
  }
  ticker_.Arm();
}

void WorkerNode::Leave() {
  if (!alive || left_) return;
  left_ = true;
  bool clean = machine_.open_operations() == 0;
  for (ConnectionId connection : data) cluster_.network_.Close(connection);
  machine_.Stop(Status(StatusCode::kShutdown, "shut down"));
  cluster_.network_.Send(control_, this, ControlFrame(wire::Leave{clean}));
}

void WorkerNode::Stop(const Status& why) {
  for (ConnectionId connection : data) cluster_.network_.Close(connection);
  places_.clear();
  machine_.Stop(why);
}

void WorkerNode::OnView(const wire::View& view) {
  for (const wire::ServerInfo& server : view.servers) {
    for (size_t i = 0; i < server.shard_weights.size(); ++i) {
      ShardNode* shard = cluster_.servers_[server.index]->shards[i].get();
      ConnectionId connection =
          cluster_.network_.Connect(cluster_.options_.worker_hosts[rank_], this,
                                    cluster_.options_.servers[server.index].host, shard);
      shard->Bind(connection, view.slot);
      shard_of_[connection] = static_cast<ShardId>(data.size());
      data.push_back(connection);
    }
  }
  machine_.OnView(view);
  ready_ = true;
  std::vector<protocol::Operation> early = std::move(early_);
  early_.clear();
  for (protocol::Operation& operation : early) Submit(std::move(operation));
}

void WorkerNode::OnControl(const wire::Message& message) {
  if (const auto* view = std::get_if<wire::View>(&message)) OnView(*view);
  if (const auto* declared = std::get_if<wire::Declared>(&message)) machine_.OnDeclared(*declared);
  if (const auto* failed = std::get_if<wire::DeclareFailed>(&message)) {
    machine_.OnDeclareFailed(*failed);
  }
  if (const auto* over = std::get_if<wire::JobOver>(&message)) {
    Stop(Status(over->code, over->text));
  }
  if (std::holds_alternative<wire::Leave>(message)) cluster_.network_.Close(control_);
}

void WorkerNode::OnHead(ConnectionId connection, const Frame& frame) {
  if (frame.type != FrameType::kAnswer) return;
  Result<ByteSpan> place =
      machine_.OnAnswerHeader(shard_of_.at(connection), OverTheWire(frame), frame.payload_bytes);
  if (place.ok()) {
    places_[connection] = place.value();
    return;
  }
  cluster_.violations_.push_back("worker " + std::to_string(rank_) + ": " +
                                 place.status().ToString());
  cluster_.network_.Close(connection);
}

void WorkerNode::OnFrame(ConnectionId connection, Frame& frame) {
  if (cluster_.logs()) cluster_.Log("worker " + std::to_string(rank_) + ": " + Describe(frame));
  switch (frame.type) {
    case FrameType::kControl: OnControl(wire::DecodeControl(frame.control).value()); break;
    case FrameType::kWant: machine_.OnWant(shard_of_.at(connection), frame.pieces); break;
    case FrameType::kAnswer: {
      if (!places_.contains(connection)) OnHead(connection, frame);
      if (!places_.contains(connection)) return;
      ByteSpan place = places_[connection];
      places_.erase(connection);
      if (cluster_.network_.carries_bytes() && !place.empty()) {
        std::memcpy(place.data(), frame.payload.data(), place.size());
      }
      machine_.OnAnswer(shard_of_.at(connection), cluster_.network_.now());
      break;
    }
    case FrameType::kPush:
    case FrameType::kAck: break;
  }
  ticker_.Arm();
}

void WorkerNode::OnLost(ConnectionId connection) {
  if (!alive || left_) return;
  if (connection == control_) {
    return Stop(Status(StatusCode::kPeerLost, "the coordinator was lost"));
  }
  ShardId shard = shard_of_.at(connection);
  uint32_t server = 0;
  for (uint32_t first = 0; server < cluster_.options_.servers.size(); ++server) {
    first += cluster_.options_.servers[server].shards;
    if (shard < first) break;
  }
  SendControl(wire::Suspect{Role::kServer, server,
                            "its connection to worker " + std::to_string(rank_) + " was closed"});
}

void WorkerNode::SendControl(const wire::Message& message) {
  cluster_.network_.Send(control_, this, ControlFrame(message));
}

void WorkerNode::SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload) {
  cluster_.pushed_bytes_by_shard_[to] += payload.size();
  cluster_.network_.Send(data[to], this,
                         DataFrame(cluster_.network_, FrameType::kPush, header, payload));
}

void WorkerNode::SendAck(ShardId to, uint64_t count) {
  Frame frame;
  frame.type = FrameType::kAck;
  frame.urgency = INT64_MAX;
  frame.count = count;
  frame.wire_bytes = kPrefixBytes + wire::kAckHeaderBytes;
  cluster_.network_.Send(data[to], this, std::move(frame));
}

void WorkerNode::Complete(protocol::OperationId id, protocol::Outcome outcome) {
  Completion& completion = completions[id];
  ++completion.completions;
  completion.outcome = std::move(outcome);
  completion.at = cluster_.network_.now();
  if (cluster_.logs()) {
    cluster_.Log("worker " + std::to_string(rank_) + ": operation " + std::to_string(id) +
                 " ends: " + completion.outcome.status.ToString());
  }
  cluster_.last_completion_ = completion.at;
  if (cluster_.on_complete) {
    // Users submit from their own thread, never from inside a completion.
    cluster_.network_.At(cluster_.network_.now(), [this, id] { cluster_.on_complete(rank_, id); });
  }
}

}  // namespace byteps::sim
