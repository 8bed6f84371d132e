#include "src/protocol/control/coordinator.h"

#include <algorithm>
#include <utility>

namespace byteps::protocol {
namespace {

// Fine enough to tell a standstill from the shortest silence that counts.
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
      driver_(driver),
      clock_(now, StepFor(options)),
      around_{options_, driver, clock_},
      members_(options.grace),
      job_end_(driver, members_.roster),
      views_(around_, members_),
      notices_(driver, members_.roster, members_.departures, views_),
      gathering_(around_, members_, job_end_, views_.in_force()),
      names_(around_, members_.roster, job_end_),
      losses_(around_, members_, job_end_, views_),
      comeback_(around_, members_, job_end_, views_, gathering_),
      links_(options_, driver, members_.roster),
      joining_({options_, driver, clock_, members_.roster, members_.departures, members_.suspicions,
                losses_, views_, gathering_, notices_, names_}),
      reporting_({driver, clock_, members_.roster, members_.suspicions, syncs_, views_, notices_,
                  names_, joining_}),
      succession_({options_, driver, clock_, members_.roster, job_end_, members_.departures,
                   members_.suspicions, syncs_, views_, notices_, gathering_, names_, losses_,
                   comeback_, links_}),
      latecomers_(driver, members_.roster, views_, gathering_),
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
  if (!job_end_.IsOver()) gathering_.NoteRefusal({address + as, host + as, why, false});
  EndCall();
}

void Coordinator::OnProcessEnded(const EndedProcess& ended, Time now) {
  BeginCall(now);
  members_.ends.Add(ended);
  losses_.TakeEnds();
  comeback_.EndIfAllEnded();
  Advance();
  EndCall();
}

void Coordinator::OnTick(Time now) {
  BeginCall(now);
  if (!job_end_.IsOver()) DoWhatIsDue();
  EndCall();
}

void Coordinator::End(const Status& why) {
  job_end_.End(why);
  EndCall();
}

// Silence is measured in the time in which it listened, like everywhere.
JobStatus Coordinator::Describe(Time now) const {
  ListeningClock clock = clock_;
  clock.Advance(now);
  JobStatus status;
  status.epoch = epoch();
  status.generation = view().generation;
  status.servers_expected = options_.server_count;
  status.workers_expected = gathering_.worker_count().value_or(
      epoch() > 0 ? static_cast<uint32_t>(wire::WorkersOfGeneration(view()).size())
                  : options_.worker_machines);
  status.asks_members = recovering();
  if (gathering_.SomebodyWaits()) status.gathers = gathering_.Missing();
  status.members =
      MembersStatus(view(), members_.roster, members_.suspicions, accounts_, clock.now());
  status.waits = accounts_.Waits(clock.now());
  status.names = names_.NamesOf(TensorsIn(status));
  return status;
}

std::optional<Time> Coordinator::NextDue() const {
  if (job_end_.IsOver()) return std::nullopt;
  std::optional<Time> next = views_.NextDue();
  auto at = [&](std::optional<Time> time) {
    if (time.has_value()) next = next.has_value() ? std::min(*next, *time) : *time;
  };
  if (views_.IsRecovering()) return next;
  at(losses_.NextDue());
  if (gathering_.SomebodyWaits() && !views_.IsChanging()) at(gathering_.NextDue());
  at(comeback_.NextDue());
  at(names_.NextDue());
  at(accounts_.NextDue());
  return next;
}

void Coordinator::DoWhatIsDue() {
  if (std::optional<Status> why = views_.ReasonToEnd()) return job_end_.End(*why);
  if (views_.IsRecovering()) return;
  if (std::optional<Status> why = losses_.ReasonToEnd()) return job_end_.End(*why);
  if (gathering_.SomebodyWaits() && !views_.IsChanging()) gathering_.DoWhatIsDue();
  if (!job_end_.IsOver()) comeback_.DoWhatIsDue();
  if (!job_end_.IsOver()) names_.DoWhatIsDue();
  ReportStalls();
  JudgeSilence();
  Advance();
}

// Nobody waits for those who are gone.
void Coordinator::TellAccountsOfView() {
  if (std::exchange(accounts_epoch_, epoch()) == epoch()) return;
  const uint32_t generation = view().generation;
  if (std::exchange(accounts_generation_, generation) != generation) accounts_.BeginGeneration();
  accounts_.ForgetIf([this](uint64_t one) { return !IsIn(view(), one) || HasLeft(view(), one); });
}

void Coordinator::ReportStalls() {
  std::optional<Time> due = accounts_.NextDue();
  if (job_end_.IsOver() || !due.has_value() || clock_.now() < *due) return;
  for (const std::string& line : accounts_.Report(clock_.now(), WorkerNames())) {
    driver_.Report(line);
  }
}

// What a worker is called that has given an account.
std::function<std::string(uint32_t)> Coordinator::WorkerNames() const {
  return [this](uint32_t rank) {
    auto teller = accounts_.tellers().find(rank);
    const Member* member = teller == accounts_.tellers().end()
                               ? nullptr
                               : members_.roster.Find(teller->second.incarnation);
    return member == nullptr ? "worker " + std::to_string(rank) : NameOf(*member);
  };
}

void Coordinator::Hear(ConnectionId from, const wire::Message& message) {
  if (job_end_.IsOver()) {  // who could not be told hears it when it comes back
    const auto* report = std::get_if<wire::Report>(&message);
    if (report != nullptr) {
      members_.suspicions.Back(report->self.incarnation, clock_.now());
      reporting_.TellIfLeftBehind(from, *report);
    }
    if (IsAnyOf<wire::Join, wire::Report>(message)) driver_.Send(from, job_end_.message());
    return;
  }
  Member* member = members_.roster.At(from);
  if (member == nullptr || IsAnyOf<wire::Join, wire::Report, wire::Known>(message)) {
    OnFirstWord(from, message);
    return Advance();
  }
  members_.suspicions.Heard(member->incarnation(), clock_.now());
  OnMemberMessage(*member, message);
  // These change no view, and are frequent.
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
    if (members_.roster.IsOld(from, self.incarnation)) return driver_.Disconnect(from);
    if (join != nullptr) return joining_.OnJoin(from, *join), comeback_.EndIfAllEnded();
    reporting_.OnReport(from, *report);
    comeback_.EndIfNobodyComesBack();  // the last server may have been waited for, to be told
    return;
  }
  if (const auto* known = std::get_if<wire::Known>(&message)) return names_.OnKnown(from, *known);
  const auto* suspect = std::get_if<wire::Suspect>(&message);
  bool launcher = suspect != nullptr && suspect->why == wire::Suspicion::kExited;
  launcher ? losses_.OnSuspect(nullptr, *suspect) : driver_.Disconnect(from);
}

void Coordinator::OnMemberMessage(Member& member, const wire::Message& message) {
  if (const auto* promise = std::get_if<wire::Promise>(&message)) {
    return views_.OnPromise(member.incarnation(), *promise);
  }
  if (const auto* alive = std::get_if<wire::Alive>(&message)) return OnAlive(member, *alive);
  if (const auto* rates = std::get_if<wire::Rates>(&message)) {
    if (!views_.IsRecovering()) links_.Hear(member.incarnation(), *rates);
    return;
  }
  if (views_.IsRecovering()) {  // what they mean depends on the view
    return postponed_.emplace_back(member.incarnation(), message), void();
  }
  if (IsAnyOf<wire::Leave>(message)) return OnLeave(member);
  uint64_t who = member.incarnation();
  bool leaves = members_.departures.IsLeaving(who) && members_.departures.IsGoing(view(), who);
  bool counts = member.presence == Presence::kIn && !leaves;
  if (!counts) return;
  if (const auto* suspect = std::get_if<wire::Suspect>(&message)) {
    losses_.OnSuspect(&member, *suspect);
  } else if (member.role() == Role::kWorker) {
    OnWorkerMessage(member, message);
  }
}

void Coordinator::OnWorkerMessage(const Member& worker, const wire::Message& message) {
  if (names_.IsRebuilding() && IsAnyOf<wire::Declare, wire::LetGo, wire::Overdue>(message)) {
    return postponed_.emplace_back(worker.incarnation(), message), void();
  }
  if (const auto* declare = std::get_if<wire::Declare>(&message)) {
    names_.OnDeclare(worker, *declare);
  } else if (const auto* let_go = std::get_if<wire::LetGo>(&message)) {
    names_.OnLetGo(worker, *let_go);
  } else if (const auto* overdue = std::get_if<wire::Overdue>(&message)) {
    names_.OnOverdue(worker, *overdue);
  } else if (const auto* unbegun = std::get_if<wire::Unbegun>(&message)) {
    names_.OnUnbegun(worker, *unbegun);
  } else if (const auto* sync = std::get_if<wire::Sync>(&message)) {
    if (sync->generation == view().generation) Send(syncs_.Reach(worker.incarnation(), *sync));
  }
}

void Coordinator::OnAlive(const Member& member, const wire::Alive& alive) {
  const bool worker = member.role() == Role::kWorker && member.presence == Presence::kIn;
  wire::Alive answer;
  if (worker && alive.account.has_value()) {
    TellAccountsOfView();
    accounts_.Take(member.index, member.incarnation(), *alive.account, clock_.now());
    answer.asked = accounts_.asked();
    answer.notes = accounts_.NotesFor(member.index, clock_.now(), WorkerNames());
  }
  driver_.Send(member.connection, answer);
}

void Coordinator::OnLeave(Member& member) {
  if (member.role() != Role::kWorker) return;
  if (member.presence == Presence::kIn) {
    members_.departures.Leave(member.incarnation());
    bool going = members_.departures.IsGoing(view(), member.incarnation());
    if (going) members_.suspicions.Forget(member.incarnation());
    return;
  }
  bool waited = std::exchange(member.presence, Presence::kLeft) == Presence::kWaiting;
  driver_.Send(member.connection, wire::Leave{});
  if (waited) Withdraw(member.incarnation());  // it did not wait for the start
}

void Coordinator::Miss(ConnectionId id, const std::string& why, bool cut_off) {
  names_.OnLost(id);
  const Member* found = members_.roster.At(id);
  if (found == nullptr || job_end_.IsOver()) return;
  Member member = *found;
  members_.roster.Remove(id);
  syncs_.Forget(member.incarnation());
  if (member.presence == Presence::kIn && cut_off) {
    members_.suspicions.CutOff(member.incarnation(), why);
  } else if (member.presence == Presence::kIn) {
    members_.suspicions.Closed(member.incarnation(), kOwnConnection, why, clock_.now());
  } else if (member.presence == Presence::kWaiting) {
    // It had not started yet; another one may take its place.
    driver_.Report(NameOf(member) + " went away before the job started: " + why);
    members_.suspicions.Forget(member.incarnation());
    Withdraw(member.incarnation());
  }
  comeback_.EndIfNobodyComesBack();
  JudgeSilence();
  Advance();
}

void Coordinator::JudgeSilence() {
  for (uint64_t incarnation : losses_.Judge()) {
    ConnectionId id = members_.roster.Find(incarnation)->connection;
    members_.roster.Remove(id);
    driver_.Disconnect(id);
    Withdraw(incarnation);
  }
}

// A process that waited does so no longer.
void Coordinator::Withdraw(uint64_t incarnation) {
  gathering_.OnWithdrawn();
  views_.Withdraw(incarnation);
}

void Coordinator::Send(const SyncPoints::Answers& answers) {
  for (const auto& [to, go_on] : answers) {
    const Member* member = members_.roster.Find(to);
    if (member != nullptr) driver_.Send(member->connection, go_on);
  }
}

// In their order. Some may have to wait again.
void Coordinator::ReleasePostponed() {
  for (const auto& [incarnation, message] : std::exchange(postponed_, {})) {
    Member* member = members_.roster.Find(incarnation);
    if (member != nullptr) OnMemberMessage(*member, message);
    if (job_end_.IsOver()) return;
  }
}

// Does what can be done now; called after everything that may have changed something.
void Coordinator::Advance() {
  while (!job_end_.IsOver()) {
    if (!views_.IsRecovering() && !names_.IsRebuilding()) ReleasePostponed();
    if (job_end_.IsOver()) return;
    Succession::Step step = succession_.Advance();
    if (step == Succession::Step::kNone) return job_end_.IsOver() ? void() : latecomers_.Tell();
    if (step == Succession::Step::kDone || job_end_.IsOver()) continue;
    // Who was taken for lost gives its place to who has joined.
    ReleasePostponed();
    if (!job_end_.IsOver()) joining_.JudgeAllWhoWait();
  }
}

}  // namespace byteps::protocol
