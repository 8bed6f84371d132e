#include "sim/server_node.h"

#include <algorithm>
#include <utility>

#include "sim/worker_node.h"

namespace byteps::sim {
namespace {

bool IsData(const Frame& frame) {
  return frame.kind == wire::FrameKind::kPush || frame.kind == wire::FrameKind::kVerdict;
}

}  // namespace

ShardNode::ShardNode(Cluster& cluster, uint32_t server, const NodeClock& clock, ShardId id)
    : cluster_(cluster),
      server_(server),
      clock_(clock),
      id_(id),
      name_("shard " + std::to_string(id)),
      mistaken_(cluster.options_.mistakes.shard, *cluster.options_.arithmetic, *this),
      machine_(mistaken_.OptionsFrom({}), pool_, mistaken_.arithmetic(), mistaken_.driver()),
      bound_(machine_, mistaken_.rules(), [this](Slot slot) { Close(slot); }),
      ticker_(
          cluster.network_, clock_, this, [this] { return machine_.NextTick(); },
          [this](Time now) { machine_.OnTick(now); }) {}

void ShardNode::OnView(const wire::View& view) {
  view_ = view;
  bound_.OnView(view, id_);
  admission_.OnView(view);
}

bool ShardNode::InView(Slot slot, uint64_t incarnation) const {
  return std::any_of(view_.workers.begin(), view_.workers.end(), [&](const auto& worker) {
    return worker.slot == slot && worker.incarnation == incarnation;
  });
}

void ShardNode::Close(Slot slot) {
  places_.erase(slot);
  auto gone = connections_.extract(slot);
  cluster_.network_.Close(gone.mapped());
}

void ShardNode::Admit(ConnectionId connection, Slot slot, const wire::DataHeader& hello) {
  admission_.Ask(
      {slot, hello.count, hello.generation, [this, connection, slot, hello](const Status& status) {
         wire::DataHeader answer;
         answer.status = status.code();
         Frame& frame = cluster_.network_.NewFrame();
         MakeGreeting(frame, wire::FrameKind::kWelcome, answer);
         cluster_.network_.Send(connection, this, frame);
         if (!status.ok()) return;
         if (!bound_.Bind(slot, hello.count, hello.generation)) return;
         connections_[slot] = connection;
       }});
}

bool ShardNode::IsBound(ConnectionId connection, Slot slot) const {
  auto found = connections_.find(slot);
  return found != connections_.end() && found->second == connection;
}

// Takes a header with the first part of its payload. Returns the place of the payload; nothing if
// it has closed the connection.
std::optional<ByteSpan> ShardNode::Begin(ConnectionId connection, Slot slot, const Frame& frame) {
  bool real = cluster_.network_.carries_bytes();
  wire::DataHeader header = real ? HeaderOf(frame) : frame.header;
  Result<ByteSpan> place =
      machine_.OnDataHeader(slot, frame.kind, header, frame.payload_bytes, clock_.now());
  if (place.ok()) {
    TakeFirstPart(frame, place.value());
    return place.value();
  }
  cluster_.violations_.push_back(name_ + ": " + place.status().ToString());
  cluster_.network_.Close(connection);
  return std::nullopt;
}

void ShardNode::OnHead(ConnectionId connection, uint32_t slot, const Frame& frame) {
  if (!IsData(frame) || !IsBound(connection, slot)) return;
  std::optional<ByteSpan> place = Begin(connection, slot, frame);
  if (place.has_value()) places_[slot] = *place;
}

void ShardNode::OnData(ConnectionId connection, Slot slot, const Frame& frame) {
  std::optional<ByteSpan> place;
  auto begun = places_.find(slot);
  if (begun != places_.end()) {
    place = begun->second;
    places_.erase(begun);
  } else {
    place = Begin(connection, slot, frame);
  }
  if (!place.has_value()) return;
  TakeRest(frame, *place);
  machine_.OnPayload(slot);
}

void ShardNode::OnFrame(ConnectionId connection, uint32_t slot, Frame& frame) {
  if (cluster_.logs()) {
    cluster_.Log(name_ + ": from worker " + std::to_string(slot) + ": " + Describe(frame));
  }
  if (frame.kind == wire::FrameKind::kHello) {
    Admit(connection, slot, frame.header);
  } else if (IsBound(connection, slot)) {
    if (!InView(slot, bound_.IncarnationOf(slot))) {
      cluster_.violations_.push_back(name_ + " listens to worker " + std::to_string(slot) +
                                     ", which is not in its view");
    }
    NoteFrame(slot, frame.kind);
    if (IsData(frame)) {
      OnData(connection, slot, frame);
    } else {
      Status taken = machine_.OnFrame(slot, Unpack(frame), clock_.now());
      if (!taken.ok()) cluster_.violations_.push_back(name_ + ": " + taken.ToString());
    }
  }
  ticker_.Arm();
}

void ShardNode::NoteFrame(Slot slot, wire::FrameKind kind) {
  uint32_t worker = cluster_.WorkerOf(bound_.IncarnationOf(slot));
  auto note = [&](Moment moment) { cluster_.Note(moment, worker, server_); };
  switch (kind) {
    case wire::FrameKind::kPush: return note(Moment::kPushArrived);
    case wire::FrameKind::kVerdict: return note(Moment::kVerdictArrived);
    case wire::FrameKind::kResync: return note(Moment::kResyncArrived);
    case wire::FrameKind::kAbort: return note(Moment::kAbortArrived);
    default: return;
  }
}

void ShardNode::OnLost(ConnectionId connection, uint32_t slot) {
  if (!IsBound(connection, slot)) return;  // there is another one since
  connections_.erase(slot);
  places_.erase(slot);
  on_worker_lost(slot, bound_.OnClosed(slot));
}

template <typename... Packed>
void ShardNode::SendPacked(Slot to, const Packed&... packed) {
  if (!connections_.contains(to)) return;
  Frame& frame = cluster_.network_.NewFrame();
  Pack(frame, packed...);
  cluster_.network_.Send(connections_.at(to), this, frame);
}

void ShardNode::SendData(Slot to, wire::DataFrame frame) {
  SendPacked(to, frame, cluster_.network_.carries_bytes());
}

void ShardNode::Send(Slot to, const wire::Frame& frame) { SendPacked(to, frame); }

void ShardNode::Stop() {
  dead = true;
  ticker_.Stop();
  cluster_.network_.Kill(this);
}

ServerNode::ServerNode(Cluster& cluster, uint32_t index, ShardId first_shard, uint64_t incarnation)
    : cluster_(cluster),
      index_(index),
      incarnation_(incarnation),
      clock_(cluster.network_),
      control_(cluster, this, index, cluster.options_.servers[index].host, MakeJoin(),
               {[this](const wire::View& view) { OnView(view); },
                [this](const wire::Message& message) { OnMessage(message); },
                [] { return std::vector<wire::Known>(); }, [] {}, [] {},
                [this](const Status&) { Stop(); }}) {
  for (uint32_t i = 0; i < cluster.options_.servers[index].shards; ++i) {
    shards.push_back(std::make_unique<ShardNode>(cluster, index, clock_, first_shard + i));
    shards.back()->on_worker_lost = [this](Slot slot, uint64_t incarnation_lost) {
      control_.Send(wire::Suspect{Role::kWorker, slot, incarnation_lost, wire::Suspicion::kClosed,
                                  "its connection was closed",
                                  control_.membership().view().generation});
    };
  }
}

wire::Join ServerNode::MakeJoin() const {
  const ServerPlace& place = cluster_.options_.servers[index_];
  wire::Join join;
  join.role = Role::kServer;
  join.rank = static_cast<int32_t>(index_);
  join.incarnation = incarnation_;
  join.host = "host-" + std::to_string(place.host);
  join.address = "server-" + std::to_string(index_);
  join.shards = place.shards;
  join.worker_count = cluster_.first_workers();
  join.server_count = static_cast<uint32_t>(cluster_.options_.servers.size());
  join.piece_bytes_max = cluster_.options_.piece_bytes_max;
  join.version = kVersion;
  return join;
}

void ServerNode::OnView(const wire::View& view) {
  if (control_.membership().IsEvicted()) return StopAndComeBack();
  for (auto& shard : shards) {
    shard->OnView(view);
    shard->AfterEvent();
  }
}

void ServerNode::OnMessage(const wire::Message& message) {
  for (auto& shard : shards) {
    if (const auto* failed = std::get_if<wire::DeclareFailed>(&message)) {
      shard->machine().Retire(failed->tensors, failed->use.round);
    }
    if (const auto* forgotten = std::get_if<wire::Forgotten>(&message)) {
      shard->machine().OnForgotten(forgotten->tensors);
    }
    if (const auto* known = std::get_if<wire::StillKnown>(&message)) {
      shard->machine().OnStillKnown(*known);
    }
    shard->AfterEvent();
  }
  if (std::holds_alternative<wire::JobOver>(message)) Stop();
  if (std::holds_alternative<wire::Refused>(message)) StopAndComeBack();
}

// Joins again by itself, like a new process of a launcher.
void ServerNode::StopAndComeBack() {
  if (dead) return;
  Stop();
  cluster_.network_.At(
      cluster_.network_.now() + cluster_.options_.restart_pause, nullptr,
      [cluster = &cluster_, index = index_] { cluster->faults().RestartServer(index); });
}

void ServerNode::OnFrame(ConnectionId connection, uint32_t, Frame& frame) {
  if (cluster_.logs()) {
    cluster_.Log("server " + std::to_string(index_) + ": " + Describe(frame));
  }
  control_.OnFrame(connection, frame);
}

void ServerNode::OnLost(ConnectionId connection, uint32_t) { control_.OnLost(connection); }

void ServerNode::Stop() {
  if (std::exchange(dead, true)) return;
  for (auto& shard : shards) shard->Stop();
  control_.Stop();
  cluster_.network_.Kill(this);
}

void ServerNode::StepClock(Duration by) {
  clock_.Step(by);
  for (auto& shard : shards) shard->AfterEvent();
}

}  // namespace byteps::sim
