#include "src/protocol/control/coordinator.h"

#include <algorithm>
#include <utility>

#include "src/protocol/control/changes/joining.h"
#include "src/protocol/control/changes/reporting.h"
#include "src/protocol/control/changes/succession.h"

namespace byteps::protocol {
namespace {

// Returns a step that is fine enough to tell a standstill from the shortest silence that counts.
Duration StepFor(const CoordinatorOptions& options) {
  Duration step = milliseconds(25);
  for (Duration limit : {options.grace, options.silence_evict, options.silence_end}) {
    if (limit > Duration::zero()) step = std::min(step, limit / 4);
  }
  return options.rules->ListeningStep(step);
}

template <typename... Kinds>
bool IsAnyOf(const wire::Message& message) {
  return (std::holds_alternative<Kinds>(message) || ...);
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options, CoordinatorDriver& driver, Time now)
    : options_(options),
      clock_(now, StepFor(options)),
      state_({options_, driver, clock_}),
      accounts_(options_.stall_after) {
  EndCall();
}

void Coordinator::OnMessage(ConnectionId from, const wire::Message& message, Time now) {
  BeginCall(now);
  Hear(from, message);
  EndCall();
}

void Coordinator::OnLost(ConnectionId id, const std::string& why, Time now) {
  BeginCall(now);
  Miss(id, why, false);
  EndCall();
}

void Coordinator::OnCutOff(ConnectionId id, const std::string& why, Time now) {
  BeginCall(now);
  Miss(id, why, true);
  EndCall();
}

void Coordinator::OnRefused(const std::string& address, std::optional<Role> role,
                            const std::string& why, Time now) {
  BeginCall(now);
  std::string as = role.has_value() ? std::string(" (") + WordFor(*role) + ")" : "";
  std::string host = address.substr(0, address.rfind(':'));
  if (!state_.job_end.IsOver()) state_.gathering.NoteRefusal({address + as, host + as, why, false});
  EndCall();
}

void Coordinator::OnProcessEnded(const EndedProcess& ended, Time now) {
  BeginCall(now);
  state_.members.ends.Add(ended);
  state_.losses.TakeEnds();
  state_.comeback.EndIfAllEnded();
  Advance();
  EndCall();
}

void Coordinator::OnTick(Time now) {
  BeginCall(now);
  if (!state_.job_end.IsOver()) DoWhatIsDue();
  EndCall();
}

void Coordinator::End(const Status& why) {
  state_.job_end.End(why);
  EndCall();
}

// Silence is measured in the time in which the coordinator listened, like everywhere.
JobStatus Coordinator::Describe(Time now) const {
  ListeningClock clock = clock_;
  clock.Advance(now);
  JobStatus status;
  status.epoch = epoch();
  status.generation = view().generation;
  status.servers_expected = options_.server_count;
  status.workers_expected = state_.gathering.worker_count().value_or(
      epoch() > 0 ? static_cast<uint32_t>(wire::WorkersOfGeneration(view()).size())
                  : options_.worker_machines);
  status.asks_members = recovering();
  if (state_.gathering.SomebodyWaits()) status.gathers = state_.gathering.Missing();
  status.members = MembersStatus(view(), state_.members.roster, state_.members.suspicions,
                                 accounts_, clock.now());
  status.sums = state_.sums;
  status.waits = accounts_.Waits(clock.now());
  status.names = state_.names.NamesOf(TensorsIn(status));
  return status;
}

std::optional<Time> Coordinator::NextDue() const {
  if (state_.job_end.IsOver()) return std::nullopt;
  std::optional<Time> next = state_.views.NextDue();
  auto at = [&](std::optional<Time> time) {
    if (time.has_value()) next = next.has_value() ? std::min(*next, *time) : *time;
  };
  if (state_.views.IsRecovering()) return next;
  at(state_.losses.NextDue());
  if (state_.gathering.SomebodyWaits() && !state_.views.IsChanging()) {
    at(state_.gathering.NextDue());
  }
  at(state_.comeback.NextDue());
  at(state_.names.NextDue());
  at(accounts_.NextDue());
  return next;
}

void Coordinator::DoWhatIsDue() {
  if (std::optional<Status> why = state_.views.ReasonToEnd()) return state_.job_end.End(*why);
  if (state_.views.IsRecovering()) return;
  if (std::optional<Status> why = state_.losses.ReasonToEnd()) return state_.job_end.End(*why);
  if (state_.gathering.SomebodyWaits() && !state_.views.IsChanging()) {
    state_.gathering.DoWhatIsDue();
  }
  if (!state_.job_end.IsOver()) state_.comeback.DoWhatIsDue();
  if (!state_.job_end.IsOver()) state_.names.DoWhatIsDue();
  ReportStalls();
  JudgeSilence();
  Advance();
}

// Nobody waits for members that are gone.
void Coordinator::TellAccountsOfView() {
  if (std::exchange(accounts_epoch_, epoch()) == epoch()) return;
  const uint32_t generation = view().generation;
  if (std::exchange(accounts_generation_, generation) != generation) accounts_.BeginGeneration();
  accounts_.ForgetIf([this](uint64_t one) { return !IsIn(view(), one) || HasLeft(view(), one); });
}

void Coordinator::ReportStalls() {
  std::optional<Time> due = accounts_.NextDue();
  if (state_.job_end.IsOver() || !due.has_value() || clock_.now() < *due) return;
  for (const std::string& line : accounts_.Report(clock_.now(), WorkerNames())) {
    state_.around.driver.Report(line);
  }
}

// Returns a function that names a worker which has given an account.
std::function<std::string(uint32_t)> Coordinator::WorkerNames() const {
  return [this](uint32_t rank) {
    auto teller = accounts_.tellers().find(rank);
    const Member* member = teller == accounts_.tellers().end()
                               ? nullptr
                               : state_.members.roster.Find(teller->second.incarnation);
    return member == nullptr ? "worker " + std::to_string(rank) : NameOf(*member);
  };
}

void Coordinator::Hear(ConnectionId from, const wire::Message& message) {
  if (state_.job_end.IsOver()) {  // a member that could not be told hears it when it comes back
    const auto* report = std::get_if<wire::Report>(&message);
    if (report != nullptr) {
      state_.members.suspicions.Back(report->self.incarnation, clock_.now());
      TellIfLeftBehind(state_, from, *report);
    }
    if (IsAnyOf<wire::Join, wire::Report>(message)) {
      state_.around.driver.Send(from, state_.job_end.message());
    }
    return;
  }
  Member* member = state_.members.roster.At(from);
  if (member == nullptr || IsAnyOf<wire::Join, wire::Report, wire::Known>(message)) {
    OnFirstWord(from, message);
    return Advance();
  }
  state_.members.suspicions.Heard(member->incarnation(), clock_.now());
  OnMemberMessage(*member, message);
  // These messages change no view, and are frequent.
  if (IsAnyOf<wire::Alive, wire::Declare, wire::LetGo, wire::Overdue, wire::Unbegun>(message)) {
    return;
  }
  if (IsAnyOf<wire::Suspect>(message)) JudgeSilence();
  Advance();
}

void Coordinator::OnFirstWord(ConnectionId from, const wire::Message& message) {
  const auto* join = std::get_if<wire::Join>(&message);
  const auto* report = std::get_if<wire::Report>(&message);
  if (join != nullptr || report != nullptr) {
    const wire::Join& self = join != nullptr ? *join : report->self;
    if (state_.members.roster.IsOld(from, self.incarnation)) {
      return state_.around.driver.Disconnect(from);
    }
    if (join != nullptr) return OnJoin(state_, from, *join), state_.comeback.EndIfAllEnded();
    OnReport(state_, from, *report);
    state_.comeback
        .EndIfNobodyComesBack();  // the job may have waited for its last server, to tell it the end
    return;
  }
  if (const auto* known = std::get_if<wire::Known>(&message)) {
    return state_.names.OnKnown(from, *known);
  }
  const auto* suspect = std::get_if<wire::Suspect>(&message);
  bool launcher = suspect != nullptr && suspect->why == wire::Suspicion::kExited;
  launcher ? state_.losses.OnSuspect(nullptr, *suspect) : state_.around.driver.Disconnect(from);
}

void Coordinator::OnMemberMessage(Member& member, const wire::Message& message) {
  if (const auto* promise = std::get_if<wire::Promise>(&message)) {
    return state_.views.OnPromise(member.incarnation(), *promise);
  }
  if (const auto* alive = std::get_if<wire::Alive>(&message)) return OnAlive(member, *alive);
  if (const auto* rates = std::get_if<wire::Rates>(&message)) {
    if (!state_.views.IsRecovering()) state_.links.Hear(member.incarnation(), *rates);
    return;
  }
  if (state_.views.IsRecovering()) {  // the meaning of other words depends on the view
    return postponed_.emplace_back(member.incarnation(), message), void();
  }
  if (IsAnyOf<wire::Leave>(message)) return OnLeave(member);
  uint64_t who = member.incarnation();
  bool leaves =
      state_.members.departures.IsLeaving(who) && state_.members.departures.IsGoing(view(), who);
  bool counts = member.presence == Presence::kIn && !leaves;
  if (!counts) return;
  if (const auto* suspect = std::get_if<wire::Suspect>(&message)) {
    state_.losses.OnSuspect(&member, *suspect);
  } else if (member.role() == Role::kWorker) {
    OnWorkerMessage(member, message);
  }
}

void Coordinator::OnWorkerMessage(const Member& worker, const wire::Message& message) {
  if (state_.names.IsRebuilding() && IsAnyOf<wire::Declare, wire::LetGo, wire::Overdue>(message)) {
    return postponed_.emplace_back(worker.incarnation(), message), void();
  }
  if (const auto* declare = std::get_if<wire::Declare>(&message)) {
    state_.names.OnDeclare(worker, *declare);
  } else if (const auto* let_go = std::get_if<wire::LetGo>(&message)) {
    state_.names.OnLetGo(worker, *let_go);
  } else if (const auto* overdue = std::get_if<wire::Overdue>(&message)) {
    state_.names.OnOverdue(worker, *overdue);
  } else if (const auto* unbegun = std::get_if<wire::Unbegun>(&message)) {
    state_.names.OnUnbegun(worker, *unbegun);
  } else if (const auto* sync = std::get_if<wire::Sync>(&message)) {
    if (sync->generation == view().generation) {
      SendAnswers(state_, state_.syncs.Reach(worker.incarnation(), *sync));
    }
  }
}

void Coordinator::OnAlive(const Member& member, const wire::Alive& alive) {
  const bool worker = member.role() == Role::kWorker && member.presence == Presence::kIn;
  wire::Alive answer;
  if (alive.server.has_value() && member.role() == Role::kServer) {
    accounts_.TakeServer(member.incarnation(), *alive.server, clock_.now());
  }
  if (worker && alive.account.has_value()) {
    TellAccountsOfView();
    accounts_.Take(member.index, member.incarnation(), *alive.account, clock_.now());
    answer.asked = accounts_.asked();
    answer.notes = accounts_.NotesFor(member.index, clock_.now(), WorkerNames());
  }
  state_.around.driver.Send(member.connection, answer);
}

void Coordinator::OnLeave(Member& member) {
  if (member.role() != Role::kWorker) return;
  if (member.presence == Presence::kIn) {
    state_.members.departures.Leave(member.incarnation());
    bool going = state_.members.departures.IsGoing(view(), member.incarnation());
    if (going) state_.members.suspicions.Forget(member.incarnation());
    return;
  }
  bool waited = std::exchange(member.presence, Presence::kLeft) == Presence::kWaiting;
  state_.around.driver.Send(member.connection, wire::Leave{});
  if (waited) Withdraw(member.incarnation());  // it did not wait for the start
}

void Coordinator::Miss(ConnectionId id, const std::string& why, bool cut_off) {
  state_.names.OnLost(id);
  const Member* found = state_.members.roster.At(id);
  if (found == nullptr || state_.job_end.IsOver()) return;
  Member member = *found;
  state_.members.roster.Remove(id);
  state_.syncs.Forget(member.incarnation());
  if (member.presence == Presence::kIn && cut_off) {
    state_.members.suspicions.CutOff(member.incarnation(), why);
  } else if (member.presence == Presence::kIn) {
    state_.members.suspicions.Closed(member.incarnation(), kOwnConnection, why, clock_.now());
  } else if (member.presence == Presence::kWaiting) {
    // The process had not started yet, so another one may take its place.
    state_.around.driver.Report(NameOf(member) + " went away before the job started: " + why);
    state_.members.suspicions.Forget(member.incarnation());
    Withdraw(member.incarnation());
  }
  state_.comeback.EndIfNobodyComesBack();
  JudgeSilence();
  Advance();
}

void Coordinator::JudgeSilence() {
  for (uint64_t incarnation : state_.losses.Judge()) {
    ConnectionId id = state_.members.roster.Find(incarnation)->connection;
    state_.members.roster.Remove(id);
    state_.around.driver.Disconnect(id);
    Withdraw(incarnation);
  }
}

// Notes that a waiting process waits no longer.
void Coordinator::Withdraw(uint64_t incarnation) {
  state_.gathering.OnWithdrawn();
  state_.views.Withdraw(incarnation);
}

// Takes the postponed words in their order. Some of them may have to wait again.
void Coordinator::ReleasePostponed() {
  for (const auto& [incarnation, message] : std::exchange(postponed_, {})) {
    Member* member = state_.members.roster.Find(incarnation);
    if (member != nullptr) OnMemberMessage(*member, message);
    if (state_.job_end.IsOver()) return;
  }
}

// Does everything that can be done now. Call it after everything that may have changed something.
void Coordinator::Advance() {
  while (!state_.job_end.IsOver()) {
    if (!state_.views.IsRecovering() && !state_.names.IsRebuilding()) ReleasePostponed();
    if (state_.job_end.IsOver()) return;
    const ViewStep step = AdvanceViews(state_);
    if (step == ViewStep::kNone) {
      return state_.job_end.IsOver() ? void() : state_.latecomers.Tell();
    }
    if (step == ViewStep::kDone || state_.job_end.IsOver()) continue;
    // A process that joined gets the place of a member that was taken for lost.
    ReleasePostponed();
    if (!state_.job_end.IsOver()) JudgeAllWhoWait(state_);
  }
}

}  // namespace byteps::protocol
