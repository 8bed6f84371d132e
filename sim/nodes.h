// The processes of a simulated job: thin drivers of the production state machines. cluster.h is the
// interface; nothing else includes this.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster.h"

namespace byteps::sim {

inline constexpr uint32_t kControlTag = UINT32_MAX;

// The clock of one process: its own start, and it may jump.
class NodeClock {
 public:
  explicit NodeClock(const Network& network) : network_(network) {}

  Time now() const { return network_.now() + ahead_; }
  Time InNetwork(Time local) const { return local - ahead_; }
  void Step(Duration by) { ahead_ += by; }

 private:
  const Network& network_;
  Duration ahead_{};
};

// Runs `tick` when the machine's NextTick says so; not while the process is frozen, nor when it is
// gone.
class Ticker {
 public:
  Ticker(Network& network, const NodeClock& clock, const Endpoint* owner,
         std::function<std::optional<Time>()> next, std::function<void(Time)> tick)
      : network_(network),
        clock_(clock),
        owner_(owner),
        next_(std::move(next)),
        tick_(std::move(tick)) {}

  // To be called after every event, and when the clock has jumped.
  void Arm();
  void Stop() { stopped_ = true; }

 private:
  void Ring(Time when);

  Network& network_;
  const NodeClock& clock_;
  const Endpoint* owner_;
  std::function<std::optional<Time>()> next_;
  std::function<void(Time)> tick_;
  std::optional<Time> armed_;  // the network's time
  bool stopped_ = false;
};

class CoordinatorNode final : public Endpoint, public protocol::CoordinatorDriver {
 public:
  explicit CoordinatorNode(Cluster& cluster);

  void OnHead(ConnectionId, uint32_t, const Frame&) override {}
  void OnFrame(ConnectionId connection, uint32_t tag, Frame& frame) override;
  void OnLost(ConnectionId connection, uint32_t tag) override;

  void Send(protocol::ConnectionId to, const wire::Message& message) override;
  void Disconnect(protocol::ConnectionId id) override;
  void Report(const std::string& text) override;
  void Finish(const Status& how) override;

  void Stop();
  void StepClock(Duration by);

  std::optional<Status> outcome;

 private:
  Cluster& cluster_;
  NodeClock clock_;
  protocol::Coordinator machine_;
  Ticker ticker_;
};

// One thread of a server.
class ShardNode final : public Endpoint, public protocol::ShardDriver {
 public:
  ShardNode(Cluster& cluster, const NodeClock& clock, uint32_t index);

  void OnHead(ConnectionId connection, uint32_t slot, const Frame& frame) override;
  void OnFrame(ConnectionId connection, uint32_t slot, Frame& frame) override;
  void OnLost(ConnectionId connection, uint32_t slot) override;

  void SendAnswer(Slot to, const wire::DataHeader& header, ConstByteSpan payload,
                  BufferRef keep) override;
  void SendWant(Slot to, const std::vector<wire::PieceRef>& pieces) override;

  void OnView(const wire::View& view);
  // The connection on which `slot` pushes and is answered.
  void Bind(ConnectionId connection, Slot slot);
  protocol::Shard& machine() { return machine_; }
  void AfterEvent() { ticker_.Arm(); }
  void Stop() { ticker_.Stop(); }

 private:
  struct Early {
    ConnectionId connection = 0;
    Slot slot = 0;
    Frame frame;
  };
  std::optional<ByteSpan> Begin(ConnectionId connection, Slot slot, const Frame& frame);

  Cluster& cluster_;
  const NodeClock& clock_;
  std::string name_;
  BufferPool pool_;
  protocol::Shard machine_;
  Ticker ticker_;
  bool has_view_ = false;
  std::vector<std::optional<ConnectionId>> connections_;  // by slot
  std::map<Slot, ByteSpan> places_;                       // of payloads that have begun to arrive
  // What came before the view is known waits, as a handshake does in the product.
  std::vector<Early> early_;
};

class ServerNode final : public Endpoint {
 public:
  ServerNode(Cluster& cluster, uint32_t index, ShardId first_shard, uint64_t incarnation);

  void Start();
  void OnHead(ConnectionId, uint32_t, const Frame&) override {}
  void OnFrame(ConnectionId connection, uint32_t tag, Frame& frame) override;
  void OnLost(ConnectionId connection, uint32_t tag) override;
  void Stop();
  void StepClock(Duration by);
  ConnectionId control() const { return control_; }

 private:
  Cluster& cluster_;
  uint32_t index_;
  uint64_t incarnation_;
  NodeClock clock_;
  ConnectionId control_ = 0;

 public:
  std::vector<std::unique_ptr<ShardNode>> shards;
};

class WorkerNode final : public Endpoint, public protocol::WorkerDriver {
 public:
  WorkerNode(Cluster& cluster, uint32_t rank, uint64_t incarnation);

  void Start();
  void Submit(protocol::Operation operation);
  void Leave();
  void Stop(const Status& why);
  void StepClock(Duration by);
  ConnectionId control() const { return control_; }

  void OnHead(ConnectionId connection, uint32_t tag, const Frame& frame) override;
  void OnFrame(ConnectionId connection, uint32_t tag, Frame& frame) override;
  void OnLost(ConnectionId connection, uint32_t tag) override;

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
  void OnAnswer(ConnectionId connection, ShardId shard, const Frame& frame);
  std::optional<ByteSpan> Begin(ConnectionId connection, ShardId shard, const Frame& frame);

  Cluster& cluster_;
  uint32_t rank_;
  uint64_t incarnation_;
  NodeClock clock_;
  protocol::Worker machine_;
  Ticker ticker_;
  ConnectionId control_ = 0;
  bool ready_ = false;
  bool left_ = false;
  std::vector<protocol::Operation> early_;
  std::map<ShardId, ByteSpan> places_;  // of payloads that have begun to arrive
};

inline constexpr const char* kVersion = "simulated";

}  // namespace byteps::sim
