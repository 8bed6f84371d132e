// Messages, time and the end. gathering.cc has what concerns joining, views.cc what concerns the
// change of views, restart.cc reports, losses.cc suspicion.
#include "src/protocol/control/coordinator.h"

#include <algorithm>
#include <utility>

namespace byteps::protocol {

namespace {

// Fine enough to tell a standstill from the shortest silence that counts.
Duration StepFor(const CoordinatorOptions& options) {
  // No gap is a standstill then.
  if (options.mistake == CoordinatorMistake::kCountOwnStandstill) return seconds(3600);
  Duration step = milliseconds(25);
  for (Duration limit : {options.grace, options.silence_evict, options.silence_end}) {
    if (limit > Duration::zero()) step = std::min(step, limit / 4);
  }
  return step;
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options, CoordinatorDriver& driver, Time now)
    : options_(options),
      driver_(driver),
      clock_(now, StepFor(options)),
      now_(now),
      started_(now),
      gathering_since_(now),
      next_report_(now + options.report_every),
      term_(TermAfter(0)),
      suspicions_(options.grace) {
  declarations_.Number(1, kTensorsOfTerm - 1);
  EndCall();
}

void Coordinator::BeginCall(Time now) {
  clock_.Advance(now);
  now_ = clock_.now();
}

// The upper half counts; the lower one tells coordinators apart that count alike.
uint64_t Coordinator::TermAfter(uint64_t term) const {
  return (((term >> 32) + 1) << 32) | options_.nonce;
}

// Another coordinator has this count. It may have numbered tensors by it.
bool Coordinator::CountsAlike(uint64_t term) const {
  return term != term_ && (term >> 32) == (term_ >> 32);
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
  if (phase_ != Phase::kOver) NoteRefusal({address + as, host + as, why, false});
  EndCall();
}

void Coordinator::OnProcessEnded(const EndedProcess& ended, Time now) {
  BeginCall(now);
  if (phase_ != Phase::kOver) {
    if (ended.rank.has_value()) ended_ranks_.insert(*ended.rank);
    ended_.push_back(ended);
    TakeEnds();
    EndIfAllEnded();
    Advance();
  }
  EndCall();
}

void Coordinator::OnTick(Time now) {
  BeginCall(now);
  DoWhatIsDue();
  EndCall();
}

void Coordinator::Hear(ConnectionId from, const wire::Message& message) {
  const auto* join = std::get_if<wire::Join>(&message);
  const auto* report = std::get_if<wire::Report>(&message);
  if (phase_ == Phase::kOver) {  // who could not be told hears it when it comes back
    if (report != nullptr) TellIfLeftBehind(from, *report);
    if (join != nullptr || report != nullptr) driver_.Send(from, over_);
    return;
  }
  if (join != nullptr || report != nullptr) {
    const wire::Join& self = join != nullptr ? *join : report->self;
    if (roster_.IsOld(from, self.incarnation)) return driver_.Disconnect(from);
    join != nullptr ? OnJoin(from, *join) : OnReport(from, *report);
  } else if (const auto* known = std::get_if<wire::Known>(&message)) {
    known_[from].push_back(*known);
  } else if (Member* member = roster_.At(from)) {
    suspicions_.Heard(member->incarnation(), now_);
    OnMemberMessage(*member, message);
    bool frequent = std::holds_alternative<wire::Alive>(message) ||
                    std::holds_alternative<wire::Declare>(message) ||
                    std::holds_alternative<wire::Overdue>(message) ||
                    std::holds_alternative<wire::Unbegun>(message);
    if (frequent) return;  // they change no view
  } else if (const auto* suspect = std::get_if<wire::Suspect>(&message);
             suspect != nullptr && suspect->why == wire::Suspicion::kExited) {
    OnSuspect(nullptr, *suspect);
  } else {
    driver_.Disconnect(from);
  }
  Advance();
}

void Coordinator::OnMemberMessage(Member& member, const wire::Message& message) {
  if (const auto* promise = std::get_if<wire::Promise>(&message)) {
    if (change_.has_value()) change_->OnPromise(member.incarnation(), *promise);
    return;
  }
  if (std::holds_alternative<wire::Alive>(message)) {
    return driver_.Send(member.connection, wire::Alive{});
  }
  // What they mean depends on the view.
  if (recovery_.has_value()) return held_.emplace_back(member.incarnation(), message), void();
  if (const auto* leave = std::get_if<wire::Leave>(&message)) return OnLeave(member, *leave);
  if (member.standing != Standing::kIn || leaving_.contains(member.incarnation())) return;
  if (const auto* declare = std::get_if<wire::Declare>(&message)) {
    OnDeclare(member, *declare);
  } else if (const auto* overdue = std::get_if<wire::Overdue>(&message)) {
    OnOverdue(member, *overdue);
  } else if (const auto* unbegun = std::get_if<wire::Unbegun>(&message)) {
    OnUnbegun(member, *unbegun);
  } else if (const auto* sync = std::get_if<wire::Sync>(&message)) {
    OnSync(member, *sync);
  } else if (const auto* suspect = std::get_if<wire::Suspect>(&message)) {
    OnSuspect(&member, *suspect);
  }
}

void Coordinator::OnDeclare(const Member& member, const wire::Declare& declare) {
  if (member.role() != Role::kWorker) return;
  if (!awaited_.empty()) return held_.emplace_back(member.incarnation(), declare), void();
  Deliver(declarations_.OnDeclare({member.incarnation(), member.index}, declare));
}

void Coordinator::OnOverdue(const Member& member, const wire::Overdue& overdue) {
  if (member.role() != Role::kWorker) return;
  if (!awaited_.empty()) return held_.emplace_back(member.incarnation(), overdue), void();
  Deliver(declarations_.OnOverdue({member.incarnation(), member.index}, overdue));
}

// An answer to a question of before a restart is asked for again.
void Coordinator::OnUnbegun(const Member& member, const wire::Unbegun& answer) {
  if (member.role() != Role::kWorker || !awaited_.empty()) return;
  bool more = declarations_.OnUnbegun({member.incarnation(), member.index}, answer);
  if (more && !judge_at_.has_value()) judge_at_ = now_ + options_.judge_after;
}

void Coordinator::Deliver(const Declarations::Answers& answers) {
  for (const Declarations::Answer& answer : answers) {
    if (answer.to != Declarations::kServers) {
      const Member* member = roster_.Find(answer.to);
      if (member != nullptr) driver_.Send(member->connection, answer.message);
      continue;
    }
    for (const auto& [id, member] : roster_.all()) {
      bool server = member.role() == Role::kServer && member.standing == Standing::kIn;
      if (server) driver_.Send(id, answer.message);
    }
  }
}

// Messages that had to wait, in their order. Some may have to wait again.
void Coordinator::ReleaseHeld() {
  for (const auto& [incarnation, message] : std::exchange(held_, {})) {
    Member* member = roster_.Find(incarnation);
    if (member != nullptr) OnMemberMessage(*member, message);
    if (phase_ == Phase::kOver) return;
  }
}

void Coordinator::OnLeave(Member& member, const wire::Leave&) {
  if (member.role() != Role::kWorker) return;
  if (member.standing == Standing::kIn) {
    leaving_.insert(member.incarnation());
    return suspicions_.Forget(member.incarnation());
  }
  bool waited = std::exchange(member.standing, Standing::kLeft) == Standing::kWaiting;
  driver_.Send(member.connection, wire::Leave{});
  if (waited) Withdraw(member.incarnation());  // it did not wait for the start
}

void Coordinator::OnSync(const Member& member, const wire::Sync& sync) {
  if (member.role() != Role::kWorker || sync.generation != view_.generation) return;
  synced_[member.incarnation()] = sync.point;
  HearOfSyncs({sync.generation, std::max(sync.point, 1U) - 1});
}

// A member has passed these, so every other one may: who asks again has missed the answer, and it
// may be that nobody else ever comes to this point.
void Coordinator::HearOfSyncs(SyncPoints passed) {
  passed_ = std::max(passed_, passed);
  if (passed_.generation != view_.generation) return;
  std::erase_if(synced_, [this](const auto& entry) {
    if (entry.second > passed_.count) return false;
    const Member* member = roster_.Find(entry.first);
    if (member != nullptr) {
      driver_.Send(member->connection, wire::GoOn{view_.generation, entry.second});
    }
    return true;
  });
}

bool Coordinator::AllSynced() const {
  return !synced_.empty() &&
         std::all_of(view_.workers.begin(), view_.workers.end(), [&](const wire::WorkerInfo& one) {
           return one.left || lost_.contains(one.incarnation) ||
                  leaving_.contains(one.incarnation) || synced_.contains(one.incarnation);
         });
}

// Nobody waits to be let in.
void Coordinator::AnswerSync() {
  if (!AllSynced()) return;
  HearOfSyncs({view_.generation, synced_.begin()->second});
}

void Coordinator::Miss(ConnectionId id, const std::string& why, bool cut_off) {
  known_.erase(id);
  const Member* found = roster_.At(id);
  if (found == nullptr || phase_ == Phase::kOver) return;
  Member member = *found;
  roster_.Remove(id);
  synced_.erase(member.incarnation());
  if (member.standing == Standing::kIn && cut_off) {
    suspicions_.CutOff(member.incarnation(), why);
  } else if (member.standing == Standing::kIn) {
    suspicions_.Closed(member.incarnation(), kOwnConnection, why, now_);
  } else if (member.standing == Standing::kWaiting) {
    // It had not started yet; another one may take its place.
    driver_.Report(NameOf(member) + " went away before the job started: " + why);
    suspicions_.Forget(member.incarnation());
    Withdraw(member.incarnation());
  }
  EndIfNobodyComesBack();
  JudgeSilence();
  Advance();
}

// Workers that left keep their connection while their process lives: they may join again.
void Coordinator::EndIfNobodyComesBack() {
  if (phase_ != Phase::kGathering || view_.epoch == 0 || recovery_.has_value()) return;
  bool expects = leavers_ || !AllServersHere();
  if (expects && leases_due_.has_value() && now_ < *leases_due_) return;
  for (const auto& [id, member] : roster_.all()) {
    if (member.role() == Role::kWorker) return;
  }
  EndInOrder("all workers have left");
}

// Of programs that never called init, or have all come to their end: who waits to be let in has
// nobody to train with. Whoever started the job counts all of its workers as machines.
void Coordinator::EndIfAllEnded() {
  if (recovery_.has_value() || ListensUntil().has_value()) return;
  if (view_.epoch == 0) {
    bool all = ended_ranks_.size() >= options_.worker_machines;
    if (all && roster_.Count(Role::kWorker, false) == 0) {
      EndInOrder("all workers have ended, and none had joined");
    }
    return;
  }
  bool all = std::all_of(
      view_.workers.begin(), view_.workers.end(),
      [this](const wire::WorkerInfo& one) { return one.left && ended_ranks_.contains(one.rank); });
  if (phase_ == Phase::kGathering && all) EndInOrder("all workers have left");
}

void Coordinator::EndInOrder(const std::string& text) {
  over_ = {StatusCode::kOk, text};
  TellAll(over_);
  phase_ = Phase::kOver;
  driver_.Finish(Status::Ok());
}

// Those that have not come back after a restart would look in vain for a coordinator that is gone.
bool Coordinator::AllServersHere() const {
  return std::all_of(view_.servers.begin(), view_.servers.end(), [&](const wire::ServerInfo& one) {
    return !one.alive || roster_.Find(one.incarnation) != nullptr;
  });
}

// For a worker that the others went on without, the job did not end in order.
void Coordinator::TellIfLeftBehind(ConnectionId from, const wire::Report& report) {
  uint64_t incarnation = report.self.incarnation;
  bool is_out = !IsVoter(view_, incarnation) && !HasLeft(view_, incarnation);
  if (report.self.role != Role::kWorker || !is_out) return;
  // One that has never been let in ignores it.
  driver_.Send(from, wire::Commit{std::max(term_, report.term), view_});
}

void Coordinator::TellAll(const wire::Message& message) {
  for (const auto& [id, member] : roster_.all()) driver_.Send(id, message);
}

void Coordinator::End(const Status& why) {
  if (phase_ == Phase::kOver) return;
  phase_ = Phase::kOver;
  clock_.WaitFor(std::nullopt);
  over_ = {why.code(), why.message()};
  TellAll(over_);
  driver_.Finish(why);
}

std::optional<Time> Coordinator::NextDue() const {
  if (phase_ == Phase::kOver) return std::nullopt;
  std::optional<Time> next;
  auto at = [&](Time time) { next = next.has_value() ? std::min(*next, time) : time; };
  if (recovery_.has_value()) {
    at(recovery_since_ + options_.recovery_patience);
  } else {
    std::optional<Time> due = suspicions_.NextDue();
    if (due.has_value()) at(*due);
    if (ListensUntil().has_value()) at(*ListensUntil());
    if (Waits() && !change_.has_value()) {
      at(late_ ? next_report_ : std::min(next_report_, gathering_since_ + options_.start_timeout));
    }
    if (no_server_since_.has_value()) at(*no_server_since_ + options_.server_patience);
    if (leases_due_.has_value()) at(*leases_due_);
    if (judge_at_.has_value()) at(*judge_at_);
  }
  if (change_.has_value()) at(change_since_ + options_.quorum_patience);
  return next;
}

void Coordinator::DoWhatIsDue() {
  if (phase_ == Phase::kOver) return;
  if (change_.has_value() && now_ >= change_since_ + options_.quorum_patience) {
    return End({StatusCode::kPeerLost,
                "quorum lost: cannot see " + change_->Missing(Discounted()) +
                    ", and without them nobody may decide who is in the job; check the network, "
                    "end what is left and start the job again"});
  }
  if (recovery_.has_value()) {
    if (now_ < recovery_since_ + options_.recovery_patience) return;
    return End({StatusCode::kPeerLost,
                "quorum lost: the coordinator was restarted and cannot see " +
                    recovery_->Missing() +
                    "; check the network, end what is left and start the job again"});
  }
  if (no_server_since_.has_value() && now_ >= *no_server_since_ + options_.server_patience) {
    return End({StatusCode::kPeerLost, "no server is left: " + last_server_loss_ +
                                           "; start the job again, with more servers or "
                                           "with restarts allowed"});
  }
  if (Waits() && !change_.has_value()) TickWhileGathering();
  if (leases_due_.has_value() && now_ >= *leases_due_) {
    leases_due_.reset();
    EndIfNobodyComesBack();
  }
  if (judge_at_.has_value() && now_ >= *judge_at_) {
    judge_at_.reset();
    Deliver(declarations_.JudgeStuck());
  }
  JudgeSilence();
  Advance();
}

}  // namespace byteps::protocol
