// A simulated coordinator process: a thin driver of the production state machine. Only the
// cluster's own files include this; cluster.h is the interface.
#pragma once

#include <optional>
#include <string>

#include "sim/clock.h"
#include "sim/cluster.h"
#include "src/protocol/control/coordinator.h"

namespace byteps::sim {

class CoordinatorNode final : public Endpoint, public protocol::CoordinatorDriver {
 public:
  // `process`: the number of coordinators before this one.
  CoordinatorNode(Cluster& cluster, uint64_t process);

  void OnHead(ConnectionId, uint32_t, const Frame&) override {}
  void OnFrame(ConnectionId connection, uint32_t tag, Frame& frame) override;
  void OnLost(ConnectionId connection, uint32_t tag) override;

  void Send(protocol::ConnectionId to, const wire::Message& message) override;
  void Disconnect(protocol::ConnectionId id) override;
  void Report(const std::string& text) override;
  void Finish(const Status& how) override;

  void OnExit(Role role, uint32_t index, uint64_t incarnation);
  void Stop();
  void StepClock(Duration by);

  std::optional<Status> outcome;
  bool dead = false;

 private:
  Cluster& cluster_;
  NodeClock clock_;
  protocol::Coordinator machine_;
  Ticker ticker_;
};

}  // namespace byteps::sim
