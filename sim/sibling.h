// A process of a contributor that is not its carrier: it registers, promises views, reaches sync
// points and leaves by itself, and has no operations.
#pragma once

#include <cstdint>
#include <string>

#include "sim/clock.h"
#include "sim/member.h"
#include "src/protocol/worker/front/leaving.h"

namespace byteps::sim {

// Returns the join of a worker's process; `process` 0 is the carrier.
wire::Join WorkerJoin(const ClusterOptions& options, const Processes& processes, uint32_t worker,
                      uint32_t process, uint64_t incarnation);

class SiblingNode final : public Endpoint {
 public:
  // `again`: it takes the place of a lost sibling, as a process without a rank.
  SiblingNode(Cluster& cluster, uint32_t worker, uint32_t process, uint64_t incarnation,
              bool again);

  void Start() { control_.Connect(); }
  // Reaches a sync point. The carrier may reach the next sync point before this process knows that
  // one is over.
  void Sync();
  void Leave();
  void Die();
  void CutControl(Time until) { control_.Cut(until); }
  void StepClock(Duration by) { clock_.Step(by); }

  void OnHead(ConnectionId, uint32_t, const Frame&) override {}
  void OnFrame(ConnectionId connection, uint32_t tag, Frame& frame) override;
  void OnLost(ConnectionId connection, uint32_t tag) override;

  uint64_t incarnation() const { return incarnation_; }
  const MemberControl& control() const { return control_; }
  bool said_leave() const { return leaving_.phase() == protocol::Leaving::Phase::kSaid; }
  // Returns whether its program knows that it is over.
  bool ended() const { return stopped_; }

  bool alive = true;
  bool evicted = false;

 private:
  static wire::Join MakeJoin(const Cluster& cluster, uint32_t worker, uint32_t process,
                             uint64_t incarnation, bool again);
  void OnView(const wire::View& view);
  void GoOn();
  void OnMessage(const wire::Message& message);
  void OnBack();
  void Stop(const std::string& why);

  Cluster& cluster_;
  std::string name_;
  uint64_t incarnation_;
  NodeClock clock_;
  MemberControl control_;
  protocol::Leaving leaving_;
  uint32_t syncs_ = 0;  // sync points that it has reached and that are not over
  uint32_t generation_ = 0;
  bool stopped_ = false;
};

}  // namespace byteps::sim
