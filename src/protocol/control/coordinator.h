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
// called although it had asked for it is held against nobody (listening_clock.h).
//
// This class hands each message to the part that it concerns. The parts:
//   gathering.h   who is missing before a generation begins
//   joining.h     who asks to be a member       reporting.h   who is one, and is connected again
//   views.h       the view in force and the one that is proposed
//   succession.h  when there is a next one, and what follows; next_view.h makes it
//   losses.h      who is lost                   departures.h  members on their way out
//   sync_points.h where workers may be let in   member_notices.h  what members are told of the view
//   name_desk.h   what names stand for          comeback.h    whether anybody may still come
//   latecomers.h  what workers are told that wait while the job runs
//   accounts.h    what workers tell of themselves, for people
//   link_watch.h  what the links were found to carry, and where pieces should be
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

  // For people.
  JobStatus Describe(Time now) const;
  // The view in force; epoch 0 before the first.
  const wire::View& view() const { return state_.views.in_force(); }
  uint64_t epoch() const { return view().epoch; }
  uint64_t term() const { return state_.views.term(); }
  // It asks members what was decided; view() may be older than what is in force.
  bool recovering() const { return state_.views.IsRecovering(); }
  // The job is over, and a member whose connection is closed has still to hear so: it may be back
  // in a moment.
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
  uint64_t accounts_epoch_ = 0;  // of the view that accounts_ knows, and its generation
  uint32_t accounts_generation_ = 0;
  // What members said that has to wait until the view is known, or the names are.
  std::vector<std::pair<uint64_t, wire::Message>> postponed_;
};

}  // namespace byteps::protocol
