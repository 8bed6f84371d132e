#include <algorithm>
#include <cstring>

#include "sim/nodes.h"

namespace byteps::sim {
namespace {

protocol::WorkerOptions OptionsOf(const ClusterOptions& options) {
  protocol::WorkerOptions made;
  made.credit.fixed_bytes = options.credit_bytes;
  return made;
}

}  // namespace

WorkerNode::WorkerNode(Cluster& cluster, uint32_t rank, uint64_t incarnation)
    : cluster_(cluster),
      rank_(rank),
      incarnation_(incarnation),
      clock_(cluster.network_),
      machine_(OptionsOf(cluster.options_), *cluster.options_.arithmetic, *this),
      ticker_(
          cluster.network_, clock_, this, [this] { return machine_.NextTick(); },
          [this](Time now) { machine_.OnTick(now); }) {}

void WorkerNode::Start() {
  HostId host = cluster_.options_.worker_hosts[rank_];
  control_ = cluster_.network_.Connect(host, this, kControlTag, cluster_.options_.coordinator_host,
                                       cluster_.coordinator_.get(), kControlTag);
  wire::Join join;
  join.role = Role::kWorker;
  join.rank = static_cast<int32_t>(rank_);
  join.incarnation = incarnation_;
  join.host = "host-" + std::to_string(host);
  join.worker_count = cluster_.worker_count();
  join.server_count = static_cast<uint32_t>(cluster_.options_.servers.size());
  join.piece_bytes_max = cluster_.options_.piece_bytes_max;
  join.version = kVersion;
  SendControl(join);
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
  SendControl(wire::Leave{clean});
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
      auto id = static_cast<ShardId>(data.size());
      ConnectionId connection =
          cluster_.network_.Connect(cluster_.options_.worker_hosts[rank_], this, id,
                                    cluster_.options_.servers[server.index].host, shard, view.slot);
      shard->Bind(connection, view.slot);
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

// An answer's header is here: where its payload goes, or nothing and the connection is closed.
std::optional<ByteSpan> WorkerNode::Begin(ConnectionId connection, ShardId shard,
                                          const Frame& frame) {
  bool real = cluster_.network_.carries_bytes();
  Result<ByteSpan> place =
      machine_.OnAnswerHeader(shard, real ? HeaderOf(frame) : frame.header, frame.payload_bytes);
  if (place.ok()) return place.value();
  cluster_.violations_.push_back("worker " + std::to_string(rank_) + ": " +
                                 place.status().ToString());
  cluster_.network_.Close(connection);
  return std::nullopt;
}

void WorkerNode::OnHead(ConnectionId connection, uint32_t tag, const Frame& frame) {
  if (frame.type != FrameType::kAnswer) return;
  std::optional<ByteSpan> place = Begin(connection, tag, frame);
  if (place.has_value()) places_[tag] = *place;
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
  if (cluster_.network_.carries_bytes() && !place->empty()) {
    std::memcpy(place->data(), frame.bytes.data(), place->size());
  }
  machine_.OnAnswer(shard, clock_.now());
}

void WorkerNode::OnFrame(ConnectionId connection, uint32_t tag, Frame& frame) {
  if (cluster_.logs()) cluster_.Log("worker " + std::to_string(rank_) + ": " + Describe(frame));
  switch (frame.type) {
    case FrameType::kControl: OnControl(MessageOf(frame)); break;
    case FrameType::kWant: machine_.OnWant(tag, PiecesOf(frame)); break;
    case FrameType::kAnswer: OnAnswer(connection, tag, frame); break;
    case FrameType::kPush:
    case FrameType::kAck: break;
  }
  ticker_.Arm();
}

void WorkerNode::OnLost(ConnectionId, uint32_t tag) {
  if (!alive || left_) return;
  if (tag == kControlTag) {
    return Stop(Status(StatusCode::kPeerLost, "the coordinator was lost"));
  }
  ShardId shard = tag;
  uint32_t server = 0;
  for (uint32_t first = 0; server < cluster_.options_.servers.size(); ++server) {
    first += cluster_.options_.servers[server].shards;
    if (shard < first) break;
  }
  SendControl(wire::Suspect{Role::kServer, server,
                            "its connection to worker " + std::to_string(rank_) + " was closed"});
}

void WorkerNode::SendControl(const wire::Message& message) {
  Frame& frame = cluster_.network_.NewFrame();
  MakeControl(frame, message);
  cluster_.network_.Send(control_, this, frame);
}

void WorkerNode::SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload) {
  Network& network = cluster_.network_;
  cluster_.pushed_bytes_by_shard_[to] += payload.size();
  Frame& frame = network.NewFrame();
  MakeData(frame, FrameType::kPush, header, payload, network.carries_bytes());
  network.Send(data[to], this, frame);
}

void WorkerNode::SendAck(ShardId to, uint64_t count) {
  Frame& frame = cluster_.network_.NewFrame();
  MakeAck(frame, count);
  cluster_.network_.Send(data[to], this, frame);
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
    cluster_.network_.At(cluster_.network_.now(), this,
                         [this, id] { cluster_.on_complete(rank_, id); });
  }
}

void WorkerNode::StepClock(Duration by) {
  clock_.Step(by);
  ticker_.Arm();
}

}  // namespace byteps::sim
