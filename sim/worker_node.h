// A simulated worker process, the carrier of its contributor: a thin driver of the production state
// machines. Only the cluster's own files include this; cluster.h is the interface.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "sim/clock.h"
#include "sim/cluster.h"
#include "sim/member.h"
#include "src/protocol/worker/front/front.h"
#include "src/protocol/worker/front/leaving.h"
#include "src/protocol/worker/lane/lane.h"
#include "src/protocol/worker/lane/shard_targets.h"

namespace byteps::sim {

class WorkerNode final : public Endpoint, public protocol::FrontDriver {
 public:
  WorkerNode(Cluster& cluster, uint32_t rank, uint64_t incarnation);

  void Start() { control_.Connect(); }
  uint64_t incarnation() const { return incarnation_; }
  Slot slot() const { return slot_; }
  const std::vector<wire::WorkerInfo>& roster() const { return roster_; }
  bool said_leave() const { return leaving_.phase() == protocol::Leaving::Phase::kSaid; }
  void CutControl(Time until) { control_.Cut(until); }
  void Submit(protocol::Operation operation);
  void Stick();
  // Aborts all open operations again and again until they have ended, like the runtime.
  void AbortOpen();
  void Sync();
  void Die();
  void Leave();
  void Stop(const Status& why);
  void StepClock(Duration by);

  void OnHead(ConnectionId connection, uint32_t tag, const Frame& frame) override;
  void OnFrame(ConnectionId connection, uint32_t tag, Frame& frame) override;
  void OnLost(ConnectionId connection, uint32_t tag) override;

  void SendControl(const wire::Message& message) override { control_.Send(message); }
  void ToLane(uint32_t lane, protocol::LaneMail mail) override;
  void OnSettled() override { settled_ = true; }
  void Complete(protocol::OperationId id, protocol::Outcome outcome) override;

  const MemberControl& control() const { return control_; }
  uint64_t repeated_answers() const;
  std::optional<ConnectionId> data(ShardId shard) const;
  size_t pool_bytes() const { return pool_.bytes_in_use(); }

  std::map<protocol::OperationId, Completion> completions;
  std::map<protocol::OperationId, Status> refusals;
  bool alive = true;
  bool evicted = false;

 private:
  struct Link {  // to a shard
    std::optional<ConnectionId> connection;
    bool bound = false;
    std::optional<Time> lost_since;
    Duration pause{};
  };
  // A lane, its mailboxes and the view that it has.
  struct Lane final : protocol::LaneDriver {
    Lane(WorkerNode& owner, const protocol::LaneOptions& options);
    void ToFront(protocol::FrontMail mail) override;
    void SendData(ShardId to, wire::DataFrame frame) override;
    void Send(ShardId to, const wire::Frame& frame) override;
    void Forget(ConstByteSpan memory) override;

    WorkerNode& node;
    protocol::ShardTargets targets;
    wire::View view;
    Time to_lane{};  // when the last mail arrives
    Time to_front{};
    protocol::Lane machine;
  };
  std::optional<Time> NextTick();
  void OnTick(Time now);
  void OnMessage(const wire::Message& message);
  void OnView(const wire::View& view);
  void DropLink(ShardId shard);
  void ConnectShard(ShardId shard);
  void TryAgain(ShardId shard);
  void LeaveWhenSettled(Time give_up);
  template <typename Deliver>
  void Post(Time& last, Deliver deliver);
  void DeliverView(uint32_t lane, const protocol::to_lane::View& mail);
  Lane& LaneOf(ShardId shard) { return *lanes_[shard % lanes_.size()]; }
  void AbortAgain(std::vector<protocol::OperationId> open, Duration after);
  void OnBack();
  void GoOn();
  std::optional<ByteSpan> Begin(ConnectionId connection, ShardId shard, const Frame& frame);
  const protocol::ShardTargets::Target& TargetOf(ShardId shard) {
    return LaneOf(shard).targets.all()[shard];
  }
  void OnAnswer(ConnectionId connection, ShardId shard, const Frame& frame);
  void OnWelcome(ShardId shard, const Frame& frame);
  void NoteFrame(ShardId from, wire::FrameKind kind);
  template <typename... Packed>
  void SendPacked(ShardId to, const Packed&... packed);

  Cluster& cluster_;
  uint32_t rank_;
  uint64_t incarnation_;
  NodeClock clock_;
  BufferPool pool_;
  protocol::Front front_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Ticker ticker_;
  MemberControl control_;
  wire::View view_;
  std::vector<wire::WorkerInfo> roster_;  // of the generation
  Slot slot_ = kNoSlot;
  bool ready_ = false;
  protocol::Leaving leaving_;
  bool settled_ = false;
  bool syncing_ = false;
  bool stopped_ = false;
  std::vector<protocol::Operation> early_;
  bool sticks_ = false;
  std::map<protocol::OperationId, std::string> open_names_;
  std::vector<Link> links_;
  std::mt19937_64 random_;  // how late mail is
  std::map<ShardId, ByteSpan> places_;
};

}  // namespace byteps::sim
