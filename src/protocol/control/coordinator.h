// The coordinator of a job: joining, ranks, declarations, placement, liveness and views. Off the
// data path.
//
// A job gathers until all expected members have joined, brings a view into force, and then declares
// tensors and watches over the members. A member that is lost leaves the view, or ends the job for
// everybody, with its name. When all workers have left in order, the job gathers again for a new
// generation, as long as one of them may come back. When no worker can come back, the job is over.
//
// The coordinator keeps nothing on disk. A restarted coordinator learns from the members' reports
// what was decided, and goes on (docs/membership.md).
//
// No I/O, no clock, no thread: one driver calls it, from one thread. Time in which the coordinator
// was not called, although it had asked for a call, is held against nobody
// (members/listening_clock.h).
//
// This class hands each message to the part that it concerns. The parts:
//   changes/joining.h         processes that ask to be members; changes/join_check.h checks them
//   changes/reporting.h       members that are connected again
//   changes/succession.h      the next view, when it is due and what follows
//   views/next_view.h         makes the next view
//   views/views.h             the view in force and the proposed one
//   changes/gathering.h       the missing members before a generation begins
//   changes/losses.h          lost members
//   members/departures.h      members on their way out
//   views/sync_points.h       where workers are let in
//   changes/member_notices.h  the words to members about the view
//   changes/latecomers.h      the words to workers that wait while the job runs
//   changes/comeback.h        workers that may still come back
//   names/name_desk.h         the meaning of names
//   views/link_watch.h        the measured links, and where pieces should be
//   seeing/accounts.h         the workers' accounts of themselves
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/protocol/control/changes/state.h"
#include "src/protocol/control/members/coordinator_driver.h"
#include "src/protocol/control/members/listening_clock.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/seeing/accounts.h"
#include "src/protocol/control/seeing/job_status.h"
#include "src/protocol/control/views/coordinator_options.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class Coordinator {
 public:
  Coordinator(const CoordinatorOptions& options, CoordinatorDriver& driver, Time now);

  // Takes a message from a connection whose handshake is done. The first message is the one that
  // Membership::Greeting made, or a launcher's Suspect{kExited}. A worker's Known may come before
  // its greeting. A connection that begins with anything else is closed.
  void OnMessage(ConnectionId from, const wire::Message& message, Time now);
  void OnLost(ConnectionId id, const std::string& why, Time now);
  // Does the same as OnLost, for a connection over which nothing came through any more. Its process
  // may live.
  void OnCutOff(ConnectionId id, const std::string& why, Time now);
  // The handshake refused a process at `address` ("10.0.0.3:4711"). `role`: its role by its own
  // word, if that could be read.
  void OnRefused(const std::string& address, std::optional<Role> role, const std::string& why,
                 Time now);
  // Takes the end of a process. It may come before the process has joined, and name a process that
  // never joins.
  void OnProcessEnded(const EndedProcess& ended, Time now);

  // REQUIRES: now >= NextTick().
  void OnTick(Time now);
  // The time of the next call of OnTick. It changes with every call.
  std::optional<Time> NextTick() const { return clock_.NextCall(); }

  // Ends the job for everybody, as if a member had been lost.
  void End(const Status& why);

  // Describes the job for people.
  JobStatus Describe(Time now) const;
  // The view in force; epoch 0 before the first.
  const wire::View& view() const { return state_.views.in_force(); }
  uint64_t epoch() const { return view().epoch; }
  uint64_t term() const { return state_.views.term(); }
  // Returns whether it asks members what was decided. A newer view than view() may be in force
  // then.
  bool recovering() const { return state_.views.IsRecovering(); }
  // Returns whether the job is over and a member whose connection is closed has still to hear so.
  // Such a member may be back in a moment.
  bool HasToTellAnyone() const {
    return state_.job_end.IsOver() && state_.members.suspicions.IsAnyAway();
  }

 private:
  void BeginCall(Time now) { clock_.Advance(now); }
  void EndCall() { clock_.WaitFor(NextDue()); }
  std::optional<Time> NextDue() const;
  void DoWhatIsDue();
  void Hear(ConnectionId from, const wire::Message& message);
  void OnFirstWord(ConnectionId from, const wire::Message& message);
  void OnMemberMessage(Member& member, const wire::Message& message);
  void OnWorkerMessage(const Member& worker, const wire::Message& message);
  void OnAlive(const Member& member, const wire::Alive& alive);
  void TellAccountsOfView();
  void ReportStalls();
  std::function<std::string(uint32_t)> WorkerNames() const;
  void OnLeave(Member& member);
  void Miss(ConnectionId id, const std::string& why, bool cut_off);
  void JudgeSilence();
  void Withdraw(uint64_t incarnation);
  void ReleasePostponed();
  void Advance();

  const CoordinatorOptions options_;
  ListeningClock clock_;
  CoordinatorState state_;
  Accounts accounts_;
  uint64_t accounts_epoch_ = 0;  // of the view that accounts_ knows, with its generation
  uint32_t accounts_generation_ = 0;
  // Words of members that have to wait until the view or the names are known.
  std::vector<std::pair<uint64_t, wire::Message>> postponed_;
};

}  // namespace byteps::protocol
