// Coordinator: joining, ranks, declarations, placement, liveness and views. Off the data path.
//
// The life of a job: gather until all expected members have joined, bring a view into force, then
// declare tensors and watch over the members. A member that is lost leaves the view, or ends the
// job for everybody, with its name. When all workers have left in order it gathers again (a new
// generation) as long as one of them may come back; when none can, the job is over.
//
// It keeps nothing on disk. One that was restarted learns from the members' reports what was
// decided, and goes on (docs/membership.md).
//
// No I/O, no clock, no thread: one driver calls it, from one thread. Time in which it was not
// called although it had asked for it is held against nobody (listening_clock.h). The parts:
// roster.h (who is connected), refusals.h (who was not let in), view_change.h, recovery.h,
// suspicions.h, declarations.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/protocol/control/control_mistakes.h"
#include "src/protocol/control/declarations.h"
#include "src/protocol/control/listening_clock.h"
#include "src/protocol/control/quorum.h"
#include "src/protocol/control/recovery.h"
#include "src/protocol/control/refusals.h"
#include "src/protocol/control/roster.h"
#include "src/protocol/control/suspicions.h"
#include "src/protocol/control/view_change.h"
#include "src/wire/control.h"

namespace byteps::protocol {

// What a coordinator asks of its driver. No call comes back into the coordinator.
class CoordinatorDriver {
 public:
  virtual ~CoordinatorDriver() = default;
  virtual void Send(ConnectionId to, const wire::Message& message) = 0;
  // Closes once what was sent is out. OnLost for this connection may follow or not.
  virtual void Disconnect(ConnectionId id) = 0;
  // A line for people: who is missing, who was lost.
  virtual void Report(const std::string& text) = 0;
  // The job is over; comes once. Everybody has been told before.
  virtual void Finish(const Status& how) = 0;
};

struct CoordinatorOptions {
  // What this process was told; the workers' own word on the number of ranks per machine completes
  // it: worker_count is a multiple of worker_machines.
  uint32_t worker_machines = 1;
  uint32_t server_count = 1;
  std::string version;
  // The job goes on while it has this many workers; 0 = all: losing one ends it, and workers are
  // not let in while it runs.
  uint32_t min_workers = 0;
  // Two coordinators may be alive at once: nobody vouches that a restart is the only one.
  bool strict = false;
  // It was started in place of one that has ended: before it makes a first view, members of an
  // earlier one have recovery_patience to report.
  bool restarted = false;
  // Tells two coordinators of one term apart: random, different for each process. Needed if strict.
  uint32_t nonce = 0;

  Duration start_timeout = seconds(120);
  Duration report_every = seconds(5);
  // How long one closed connection may take to come back.
  Duration grace = milliseconds(100);
  // A member that has said nothing for this long is lost; 0 = never. The second one holds where
  // losing it ends the job or leaves it without servers: nothing is gained by hurry.
  Duration silence_evict = milliseconds(900);
  Duration silence_end = seconds(5);
  // How long the job waits for a server when none is left, for promises, and for reports.
  Duration server_patience = seconds(10);
  Duration quorum_patience = seconds(10);
  Duration recovery_patience = seconds(10);
  // From the first word that ranks may be stuck in a circle to the verdict, which so has them all.
  Duration judge_after = milliseconds(500);

  CoordinatorMistake mistake = CoordinatorMistake::kNone;
};

// A process that a launcher has started and seen end.
struct EndedProcess {
  std::string host;
  uint32_t process = 0;
  std::optional<uint32_t> rank;  // of a worker; nobody starts it again
};

class Coordinator {
 public:
  Coordinator(const CoordinatorOptions& options, CoordinatorDriver& driver, Time now);

  // A message from a connection whose handshake is done. The first one is what Membership::Greeting
  // made (a worker's Known may come before it), or a launcher's Suspect{kExited}; a connection that
  // begins with anything else is closed.
  void OnMessage(ConnectionId from, const wire::Message& message, Time now);
  void OnLost(ConnectionId id, const std::string& why, Time now);
  // As OnLost, of a connection over which nothing came through any more: its process may live.
  void OnCutOff(ConnectionId id, const std::string& why, Time now);
  // The handshake refused somebody: at `address` ("10.0.0.3:4711"), in this role by its own word if
  // that could be read.
  void OnRefused(const std::string& address, std::optional<Role> role, const std::string& why,
                 Time now);
  // It may come before the process has joined, and name one that never does.
  void OnProcessEnded(const EndedProcess& ended, Time now);

  // REQUIRES: now >= NextTick().
  void OnTick(Time now);
  // Changes with every call.
  std::optional<Time> NextTick() const { return clock_.NextCall(); }

  // Ends the job for everybody, as if a member had been lost.
  void End(const Status& why);

  // The view in force; epoch 0 before the first.
  const wire::View& view() const { return view_; }
  uint64_t epoch() const { return view_.epoch; }
  uint64_t term() const { return term_; }
  // It asks members what was decided; view() may be older than what is in force.
  bool recovering() const { return recovery_.has_value(); }

 private:
  enum class Phase : uint8_t { kGathering, kRunning, kOver };
  // How many sync points of a generation everybody has passed, as far as it is known.
  struct SyncPoints {
    uint32_t generation = 0;
    uint32_t count = 0;
    auto operator<=>(const SyncPoints&) const = default;
  };
  // What a worker told of declarations before its report.
  struct HeldKnown {
    uint32_t generation = 0;
    std::vector<wire::Known> parts;
  };

  // coordinator.cc: messages, time and the end.
  void BeginCall(Time now);
  void EndCall() { clock_.WaitFor(NextDue()); }
  std::optional<Time> NextDue() const;
  void Hear(ConnectionId from, const wire::Message& message);
  void Miss(ConnectionId id, const std::string& why, bool cut_off);
  void DoWhatIsDue();
  void OnMemberMessage(Member& member, const wire::Message& message);
  void OnDeclare(const Member& member, const wire::Declare& declare);
  void OnOverdue(const Member& member, const wire::Overdue& overdue);
  void OnUnbegun(const Member& member, const wire::Unbegun& answer);
  void OnLeave(Member& member, const wire::Leave& leave);
  void OnSync(const Member& member, const wire::Sync& sync);
  void HearOfSyncs(SyncPoints passed);
  bool AllSynced() const;
  void AnswerSync();
  void Deliver(const Declarations::Answers& answers);
  void ReleaseHeld();
  void EndIfNobodyComesBack();
  void EndIfAllEnded();
  void EndInOrder(const std::string& text);
  void TellIfLeftBehind(ConnectionId from, const wire::Report& report);
  bool AllServersHere() const;
  void TellAll(const wire::Message& message);
  bool Elastic() const { return options_.min_workers > 0; }
  uint64_t TermAfter(uint64_t term) const;
  bool CountsAlike(uint64_t term) const;

  // gathering.cc: joining, ranks and the first view of a generation.
  void OnJoin(ConnectionId from, const wire::Join& join);
  void Accept(ConnectionId from, const wire::Join& join);
  std::optional<std::string> ReasonInNumbers(const wire::Join& join) const;
  std::optional<std::string> ReasonInWorkerNumbers(const wire::Join& join) const;
  std::optional<uint32_t> PieceBytesMax() const;
  std::optional<std::string> ReasonInPlaces(const wire::Join& join) const;
  std::optional<std::string> ReasonInServerPlaces(const wire::Join& join) const;
  const wire::ServerInfo* PlaceFor(const wire::Join& join) const;
  static bool IsSuccessor(const wire::Join& join, const wire::ServerInfo& place);
  void Refuse(ConnectionId id, const std::string& text);
  void NoteRefusal(const Refusal& refusal);
  bool AllHere() const;
  uint32_t RanksEnded() const;
  void EndIfTooFewCome();
  void GiveIndices();
  static wire::WorkerInfo InfoOf(const Member& member, Slot slot, uint32_t rank);
  wire::View NextGeneration() const;
  void AddMissing(wire::View& next) const;
  Status Weigh(wire::View& view) const;
  void Gather();
  std::optional<Time> ListensUntil() const;
  bool Waits() const;
  std::string MissingMembers() const;
  void TickWhileGathering();
  void EndLate();

  // views.cc: what the next view is, and how it comes into force.
  static bool IsVoter(const wire::View& view, uint64_t incarnation);
  static bool HasLeft(const wire::View& view, uint64_t incarnation);
  Incarnations Discounted() const;
  void Advance();
  std::optional<wire::View> NextView();
  uint32_t WorkersLeftOver(uint64_t without) const;
  void DropWorkers(wire::View& next) const;
  void PlaceServers(wire::View& next) const;
  bool MayAdmit() const;
  void AdmitWorkers(wire::View& next) const;
  void Propose(wire::View next, bool completes);
  void SendProposal(const Member& member, const wire::Propose& proposal);
  void Commit();
  void Enforce(const wire::View& before);
  std::vector<ConnectionId> Connections() const;
  void ForgetStale();
  void Greet(const wire::View& before);
  void BeginGeneration();
  void Settle(Member& member);
  void TakePlace(Member& member) const;
  void TellOut(const Member& member);
  void Withdraw(uint64_t incarnation);
  void TakeFromProposal(uint64_t incarnation);
  void GatherAgain();

  // restart.cc: reports, and what a coordinator without memory does.
  void OnReport(ConnectionId from, const wire::Report& report);
  void OnReportInRecovery(ConnectionId from, const wire::Report& report);
  void HoldKnown(ConnectionId from, const wire::Report& report);
  Member* Rebind(ConnectionId from, const wire::Report& report);
  void BringUpToDate(const Member& member, const wire::Report& report);
  void DropProposal(uint64_t heard_term);
  void Recover(uint64_t heard_term);
  bool AdvanceRecovery();
  void FinishRecovery();
  void JoinAgain();
  void RestoreDeclarations();
  void TakeKnown(uint64_t incarnation);
  void ReleaseDeclares();

  // losses.cc: who is lost, and what that means.
  void TakeEnds();
  void OnSuspect(const Member* from, const wire::Suspect& suspect);
  void OnClosed(const Member& from, uint64_t target, const std::string& text);
  void OnExited(const wire::Suspect& suspect, uint64_t target);
  void OnUnreachable(const Member& from, const wire::Suspect& suspect, uint64_t target);
  bool EndsTheJob(uint64_t worker) const;
  void Lose(uint64_t incarnation, const std::string& why, bool proven_dead);
  void Watch();
  void JudgeSilence();
  std::string NameInView(uint64_t incarnation) const;

  // A coordinator numbers tensors in a range of its own, so that none is used twice.
  static constexpr TensorId kTensorsOfTerm = TensorId{1} << 22;

  const CoordinatorOptions options_;
  CoordinatorDriver& driver_;
  ListeningClock clock_;
  Time now_;  // as that clock counts
  Phase phase_ = Phase::kGathering;
  wire::JobOver over_;  // once it is
  const Time started_;
  Time gathering_since_;
  Time next_report_;
  Roster roster_;
  std::optional<uint32_t> worker_count_;  // once a worker has said how many ranks there are
  bool late_ = false;                     // the time to gather is over
  Refusals refusals_;                     // since it gathers
  std::set<uint32_t> ended_ranks_;        // of processes that have ended
  std::vector<EndedProcess> ended_;       // not yet looked for in a view

  uint64_t term_;
  wire::View view_;  // in force
  Slot next_slot_ = 0;
  std::optional<ViewChange> change_;
  Time change_since_{};
  std::vector<wire::View> withdrawn_;  // first views that were proposed and not committed
  std::optional<Recovery> recovery_;
  Time recovery_since_{};
  // The view was found in reports: somebody may still have promised another one after it.
  bool inherited_ = false;
  bool found_ = false;  // while the view that was found in reports comes into force

  // Members of the view, by incarnation.
  std::map<uint64_t, std::string> lost_;  // why
  Incarnations dead_;                     // proven
  Incarnations leaving_;
  std::map<uint64_t, uint32_t> synced_;  // who waits at a sync point: at which one
  SyncPoints passed_;
  // Worker, server: when it said so. Also of servers that are gone since.
  std::map<std::pair<uint64_t, uint64_t>, Time> unreachable_;
  Suspicions suspicions_;
  std::optional<Time> no_server_since_;
  std::string last_server_loss_ = "all were lost";
  std::optional<Time> leases_due_;  // restarted: by when who may come back is connected again
  bool leavers_ = false;            // workers that left before may be among them

  Declarations declarations_;
  std::optional<Time> judge_at_;                            // ranks that are stuck
  bool rebuilding_ = false;                                 // declarations, from what workers know
  Incarnations awaited_;                                    // workers that have not told yet
  std::map<ConnectionId, std::vector<wire::Known>> known_;  // of connections that will report
  std::map<uint64_t, HeldKnown> held_known_;                // of members, until the view is known
  std::vector<std::pair<uint64_t, wire::Message>> held_;    // from members, until it is
};

}  // namespace byteps::protocol
