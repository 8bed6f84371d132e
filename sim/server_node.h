// A simulated server process and its shards: thin drivers of the production state machines. Only
// the cluster's own files include this; cluster.h is the interface.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/clock.h"
#include "sim/cluster.h"
#include "sim/member.h"
#include "src/protocol/shard/admission.h"
#include "src/protocol/shard/shard.h"

namespace byteps::sim {

// One thread of a server.
class ShardNode final : public Endpoint, public protocol::ShardDriver {
 public:
  ShardNode(Cluster& cluster, uint32_t server, const NodeClock& clock, ShardId id);

  void OnHead(ConnectionId connection, uint32_t slot, const Frame& frame) override;
  void OnFrame(ConnectionId connection, uint32_t slot, Frame& frame) override;
  void OnLost(ConnectionId connection, uint32_t slot) override;

  void SendData(Slot to, wire::DataFrame frame) override;
  void Send(Slot to, const wire::Frame& frame) override;

  void OnView(const wire::View& view);
  protocol::Shard& machine() { return machine_; }
  void AfterEvent() { ticker_.Arm(); }
  void Stop();

  // The shard calls it when the connection of a worker breaks.
  std::function<void(Slot, uint64_t incarnation)> on_worker_lost;
  bool dead = false;

 private:
  void Admit(ConnectionId connection, Slot slot, const wire::DataHeader& hello);
  void Close(Slot slot);
  bool InView(Slot slot, uint64_t incarnation) const;
  std::optional<ByteSpan> Begin(ConnectionId connection, Slot slot, const Frame& frame);
  void OnData(ConnectionId connection, Slot slot, const Frame& frame);
  void NoteFrame(Slot slot, wire::FrameKind kind);
  template <typename... Packed>
  void SendPacked(Slot to, const Packed&... packed);
  bool IsBound(ConnectionId connection, Slot slot) const;

  Cluster& cluster_;
  uint32_t server_;
  const NodeClock& clock_;
  ShardId id_;
  std::string name_;
  BufferPool pool_;
  protocol::MistakenShard mistaken_;
  protocol::Shard machine_;
  protocol::Admission admission_;
  protocol::WorkerLinks bound_;
  Ticker ticker_;
  wire::View view_;
  std::map<Slot, ConnectionId> connections_;  // of those that are bound
  std::map<Slot, ByteSpan> places_;           // of payloads that have begun to arrive
};

class ServerNode final : public Endpoint {
 public:
  ServerNode(Cluster& cluster, uint32_t index, ShardId first_shard, uint64_t incarnation);

  void Start() { control_.Connect(); }
  void CutControl(Time until) { control_.Cut(until); }
  void OnHead(ConnectionId, uint32_t, const Frame&) override {}
  void OnFrame(ConnectionId connection, uint32_t tag, Frame& frame) override;
  void OnLost(ConnectionId connection, uint32_t tag) override;
  void Stop();
  void StepClock(Duration by);
  const MemberControl& control() const { return control_; }
  uint64_t incarnation() const { return incarnation_; }

  bool dead = false;

 private:
  wire::Join MakeJoin() const;
  void OnView(const wire::View& view);
  void OnMessage(const wire::Message& message);
  void StopAndComeBack();

  Cluster& cluster_;
  uint32_t index_;
  uint64_t incarnation_;
  NodeClock clock_;
  MemberControl control_;

 public:
  std::vector<std::unique_ptr<ShardNode>> shards;
};

}  // namespace byteps::sim
