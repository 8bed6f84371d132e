// One job with faults, and the oracle that watches it. faults.cc plays, fault_checks.cc judges.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/faults.h"
#include "src/protocol/kernel_arithmetic.h"

namespace byteps::sim {

// One operation of one worker.
struct Played {
  uint32_t worker = 0;
  uint32_t tensor = 0;
  uint32_t round = 0;
  std::vector<uint64_t> input;
  std::vector<uint64_t> output;
  Time begun{};
  bool done = false;
  Status status;
  std::vector<uint64_t> result;
  std::vector<uint32_t> members;  // processes
  bool mixed = false;
};

class Play {
 public:
  explicit Play(const FaultOptions& options);

  FaultResult Run();

 private:
  void Violation(const std::string& text) {
    if (!result_.violation.has_value()) result_.violation = text;
  }
  uint32_t workers() const { return cluster_->worker_count(); }
  const Processes& processes() const { return cluster_->processes(); }
  // Returns the process of worker `a` that the event hits.
  uint32_t ProcessOf(const FaultEvent& event) const {
    return event.a < workers() ? event.process % processes().SizeOf(event.a) : 0;
  }
  // Returns whether the results of this worker count.
  bool Counts(uint32_t worker) const {
    return started_[worker] && cluster_->alive(worker) && !cluster_->evicted(worker) &&
           !ended_[worker];
  }
  bool Agrees(uint32_t worker) const { return Counts(worker) && cluster_->agrees(worker); }
  void Begin();
  void Finish();
  void SubmitRound(uint32_t worker, uint32_t round);
  protocol::Operation OperationOf(Played& played, protocol::OperationId id) const;
  void OnComplete(uint32_t worker, protocol::OperationId id);
  bool HasJoin() const {
    return !script_.tensors.empty() && script_.tensors.back().op == wire::Op::kJoin;
  }
  bool Disagrees(const Played& played) const {
    const std::optional<Disagreement>& one = script_.disagreement;
    return one.has_value() && one->tensor == played.tensor && one->round == played.round;
  }
  uint32_t RoundAfter(uint32_t worker, uint32_t round) const;
  uint32_t AllRounds() const;
  std::vector<uint32_t> RanksOf(const FaultTensor& tensor) const;
  uint64_t ValueOf(const Played& played) const;
  std::vector<uint32_t> MembersOf(const Played& played, const protocol::Outcome& outcome);
  bool TakesPart(uint32_t worker, uint32_t round, const FaultTensor& tensor) const;
  static uint64_t RowsFrom(uint32_t worker, uint32_t to, uint32_t round, wire::Op op);
  std::pair<size_t, size_t> ShareOf(const Played& played) const;
  void CompleteOperation(Played& played, uint64_t value, protocol::Operation& operation) const;
  void TakeResult(Played& played, const protocol::Outcome& outcome) const;
  void CheckAverage(const Played& played, uint64_t sum);
  void OnError(const Played& played);
  void AfterRound(uint32_t worker);
  void GoOn(uint32_t worker, uint32_t generation);
  uint32_t RoundOfOthers() const;
  void OnMoment(Moment moment, uint32_t worker, uint32_t server);
  FaultEvent Aimed(FaultEvent event, uint32_t worker, uint32_t server) const;
  void Schedule(const FaultEvent& event);
  void Inject(const FaultEvent& event);
  void InjectAtProcess(const FaultEvent& event);
  void InjectAtNetwork(const FaultEvent& event);
  void Heal(const FaultEvent& event);
  void NoteHit(const FaultEvent& event);
  void Later(Duration after, std::function<void()> work) {
    cluster_->network().At(cluster_->network().now() + after, nullptr, std::move(work));
  }
  bool AllDone() const;
  // Returns whether one process of some contributor may have left, and another one not yet.
  bool AnyPartLeaves() const;
  static bool Reduces(wire::Op op) {
    return op == wire::Op::kSum || op == wire::Op::kAverage || op == wire::Op::kReducescatter;
  }
  bool TooMuchLost() const;
  void CheckResult(const Played& played);
  void CheckReduction(const Played& played);
  void CheckBroadcast(const Played& played);
  void CheckGathered(const Played& played);
  void CheckAgreement(const Played& played);
  void CheckAllAgreements();
  void CheckLosses();
  void CheckRest();
  void CheckSiblings();
  std::string NameOf(const Played& played) const {
    return "worker " + std::to_string(played.worker) + ", tensor " + std::to_string(played.tensor) +
           ", round " + std::to_string(played.round);
  }
  static uint64_t Tag(uint32_t tensor, uint32_t round) { return round * 8 + tensor + 1; }

  // Returns whether users soon say that they can only wait. In such a job no rank may get a
  // mismatch.
  bool Sticks() const { return options_.seed % 4 == 0; }

  static constexpr Duration kOverdueAfter = milliseconds(2);
  static constexpr uint64_t kTagUnit = uint64_t{1} << 20;

  FaultOptions options_;
  FaultScript script_;
  protocol::KernelArithmetic arithmetic_;
  std::unique_ptr<Cluster> cluster_;
  std::map<protocol::OperationId, Played> played_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<const Played*>> done_;  // tensor, round
  std::vector<uint32_t> open_;          // by worker: operations of its present round
  std::vector<uint32_t> round_;         // by worker
  std::vector<bool> started_;           // by worker: it is in the job
  std::vector<bool> finished_;          // by worker: all rounds, or it left
  std::vector<bool> ended_;             // by worker: the job ended for it with an error
  std::vector<bool> leaves_;            // by worker: when its round has ended
  std::vector<uint32_t> leaves_first_;  // by worker: the process that leaves first
  std::vector<bool> syncs_;             // by worker: it waits at a sync point
  std::vector<uint32_t> sync_next_;     // by worker: the round after its last sync point
  std::map<uint32_t, uint32_t> generation_rounds_;  // the round with which each began
  std::vector<FaultEvent> waiting_;                 // events that wait for their moment
  std::array<uint32_t, kMomentCount> moments_{};
  std::map<std::pair<Moment, uint32_t>, uint32_t> moments_of_;  // of a worker
  std::vector<bool> hit_;  // workers and servers that somebody may take for dead
  bool coordinator_hit_ = false;
  bool coordinator_slow_ = false;  // an answer takes it longer than the grace
  bool aborts_ = false;
  bool came_ = false;  // the late worker
  Time last_{};        // by then all has healed
  FaultResult result_;
};

}  // namespace byteps::sim
