// The processes of a simulated job: thin drivers of the production state machines. cluster.h is the
// interface; nothing else includes this.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster.h"

namespace byteps::sim {

// Runs `tick` when the machine's NextTick says so; not while the process is frozen, nor when it is
// gone.
class Ticker {
 public:
  Ticker(Network& network, const Endpoint* owner, std::function<std::optional<Time>()> next,
         std::function<void(Time)> tick)
      : network_(network), owner_(owner), next_(std::move(next)), tick_(std::move(tick)) {}

  // To be called after every event.
  void Arm();
  void Stop() { stopped_ = true; }

 private:
  Network& network_;
  const Endpoint* owner_;
  std::function<std::optional<Time>()> next_;
  std::function<void(Time)> tick_;
  std::optional<Time> armed_;
  bool stopped_ = false;
};

class CoordinatorNode final : public Endpoint, public protocol::CoordinatorDriver {
 public:
  explicit CoordinatorNode(Cluster& cluster);

  void OnHead(ConnectionId, const Frame&) override {}
  void OnFrame(ConnectionId connection, Frame& frame) override;
  void OnLost(ConnectionId connection) override;

  void Send(protocol::ConnectionId to, const wire::Message& message) override;
  void Disconnect(protocol::ConnectionId id) override;
  void Report(const std::string& text) override;
  void Finish(const Status& how) override;

  std::optional<Status> outcome;

 private:
  Cluster& cluster_;
  protocol::Coordinator machine_;
  Ticker ticker_;
};

// One thread of a server.
class ShardNode final : public Endpoint, public protocol::ShardDriver {
 public:
  ShardNode(Cluster& cluster, uint32_t index);

  void OnHead(ConnectionId connection, const Frame& frame) override;
  void OnFrame(ConnectionId connection, Frame& frame) override;
  void OnLost(ConnectionId connection) override;

  void SendAnswer(Slot to, const wire::DataHeader& header, ConstByteSpan payload,
                  BufferRef keep) override;
  void SendWant(Slot to, const std::vector<wire::PieceRef>& pieces) override;

  void OnView(const wire::View& view);
  void Bind(ConnectionId connection, Slot slot);
  protocol::Shard& machine() { return machine_; }
  void AfterEvent() { ticker_.Arm(); }
  void Stop() { ticker_.Stop(); }

 private:
  Cluster& cluster_;
  std::string name_;
  BufferPool pool_;
  protocol::Shard machine_;
  Ticker ticker_;
  bool has_view_ = false;
  std::map<ConnectionId, Slot> slots_;
  std::map<Slot, ConnectionId> connections_;
  std::map<ConnectionId, ByteSpan> places_;
  // What came before the view is known waits, as a handshake does in the product.
  std::vector<std::pair<ConnectionId, Frame>> early_;
};

class ServerNode final : public Endpoint {
 public:
  ServerNode(Cluster& cluster, uint32_t index, ShardId first_shard);

  void Start();
  void OnHead(ConnectionId, const Frame&) override {}
  void OnFrame(ConnectionId connection, Frame& frame) override;
  void OnLost(ConnectionId connection) override;
  void Stop();
  ConnectionId control() const { return control_; }

  std::vector<std::unique_ptr<ShardNode>> shards;

 private:
  Cluster& cluster_;
  uint32_t index_;
  ConnectionId control_ = 0;
};

class WorkerNode final : public Endpoint, public protocol::WorkerDriver {
 public:
  WorkerNode(Cluster& cluster, uint32_t rank);

  void Start();
  void Submit(protocol::Operation operation);
  void Leave();
  void Stop(const Status& why);
  ConnectionId control() const { return control_; }

  void OnHead(ConnectionId connection, const Frame& frame) override;
  void OnFrame(ConnectionId connection, Frame& frame) override;
  void OnLost(ConnectionId connection) override;

  void SendControl(const wire::Message& message) override;
  void SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload) override;
  void SendAck(ShardId to, uint64_t count) override;
  void Forget(ConstByteSpan) override {}
  void Complete(protocol::OperationId id, protocol::Outcome outcome) override;

  std::map<protocol::OperationId, Completion> completions;
  std::map<protocol::OperationId, Status> refusals;
  bool alive = true;
  std::vector<ConnectionId> data;  // by shard

 private:
  void OnControl(const wire::Message& message);
  void OnView(const wire::View& view);

  Cluster& cluster_;
  uint32_t rank_;
  protocol::Worker machine_;
  Ticker ticker_;
  ConnectionId control_ = 0;
  bool ready_ = false;
  bool left_ = false;
  std::vector<protocol::Operation> early_;
  std::map<ConnectionId, ShardId> shard_of_;
  std::map<ConnectionId, ByteSpan> places_;
};

Frame ControlFrame(const wire::Message& message);
// For the event log.
std::string Describe(const Frame& frame);

}  // namespace byteps::sim
