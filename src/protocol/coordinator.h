// Coordinator: joining, ranks, declarations, placement, liveness and views. Off the data path.
//
// The life of a job: gather until all expected members have joined, hand out a view, then declare
// tensors and watch over the members. When all workers have left in order it gathers again (a new
// generation) as long as one of them may come back; when none can, the job is over. A member that
// is lost ends the job for everybody, with its name.
//
// No I/O, no clock, no thread: one driver calls it, from one thread. A member is known by its
// connection's number.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/plan/piece_assigner.h"
#include "src/wire/control.h"

namespace byteps::protocol {

using ConnectionId = uint64_t;

// What a coordinator asks of its driver. No call comes back into the coordinator.
class CoordinatorDriver {
 public:
  virtual ~CoordinatorDriver() = default;
  virtual void Send(ConnectionId to, const wire::Message& message) = 0;
  // Closes once what was sent is out.
  virtual void Disconnect(ConnectionId id) = 0;
  // A line for people: who is missing.
  virtual void Report(const std::string& text) = 0;
  // The job is over; comes once. Everybody has been told before.
  virtual void Finish(const Status& how) = 0;
};

struct CoordinatorOptions {
  // What this process was told; the workers' own word on the number of ranks per machine completes
  // it: worker_count is a multiple of worker_machines.
  uint32_t worker_machines = 1;
  uint32_t server_count = 1;
  uint32_t piece_bytes_max = 32768;
  std::string version;
  Duration start_timeout = seconds(120);
  Duration report_every = seconds(5);
  // A member that has said nothing for this long is lost; 0 = never. The last fifth of it must
  // pass after the silence was first noticed, so that a coordinator that stood still itself hears
  // what has come in meanwhile before it judges.
  Duration silence_max = seconds(5);
};

class Coordinator {
 public:
  Coordinator(const CoordinatorOptions& options, CoordinatorDriver& driver, Time now);

  // A message from a connection whose handshake is done. The first one must be Join.
  void OnMessage(ConnectionId from, const wire::Message& message, Time now);
  void OnLost(ConnectionId id, const std::string& why);

  // REQUIRES: now >= NextTick().
  void OnTick(Time now);
  std::optional<Time> NextTick() const;

  // Ends the job for everybody, as if a member had been lost.
  void End(const Status& why);

  uint64_t epoch() const { return view_.epoch; }

 private:
  enum class Phase : uint8_t { kGathering, kRunning, kOver };
  struct Member {
    wire::Join join;
    uint32_t index = kNoSlot;  // rank of a worker, index of a server
    bool in_view = false;
    bool left = false;  // in order; may come back over a new connection
    Time heard{};
    std::optional<Time> doubted;  // since when its silence is suspicious
  };
  struct Decision {
    bool failed = false;
    TensorId tensor = UINT32_MAX;
    wire::TensorSpec spec;
    uint32_t by = 0;  // rank that spoke first
    uint64_t round = 1;
    std::string text;
    StatusCode code = StatusCode::kMismatch;
    std::vector<uint64_t> placement;
    std::vector<ConnectionId> told;
  };
  // Of one name: attempt 0, 1, ...
  using Decisions = std::vector<Decision>;

  void OnJoin(ConnectionId from, const wire::Join& join, Time now);
  std::optional<std::string> ReasonToRefuse(const wire::Join& join) const;
  void Refuse(ConnectionId id, const std::string& text);
  bool AllHere() const;
  void GiveIndices();
  void StartIfComplete();
  void BuildView();
  void Weigh();
  void OnDeclare(ConnectionId from, const Member& member, const wire::Declare& declare);
  Decision Decide(const Member& member, const wire::Declare& declare);
  void Mismatch(const Member& member, const wire::Declare& declare, Decision& decision);
  void OnLeave(ConnectionId from, Member& member, const wire::Leave& leave, Time now);
  void OnSuspect(const wire::Suspect& suspect);
  void GatherAgainIfAllLeft(Time now);
  bool Waits() const;
  void TickWhileGathering(Time now);
  Time SilenceDue(const Member& member) const;
  void EndIfNobodyComesBack();
  void TellAll(const wire::Message& message);
  std::string Missing(Time now) const;
  uint32_t Count(Role role, bool in_view_only) const;
  static std::string NameOf(const Member& member);

  const CoordinatorOptions options_;
  CoordinatorDriver& driver_;
  Phase phase_ = Phase::kGathering;
  Time gathering_since_;
  Time next_report_;
  std::map<ConnectionId, Member> members_;
  std::optional<uint32_t> worker_count_;  // once a worker has said how many ranks there are
  wire::View view_;
  std::optional<plan::PieceAssigner> dealer_;
  TensorId next_tensor_ = 1;
  std::unordered_map<std::string, Decisions> names_;
};

}  // namespace byteps::protocol
