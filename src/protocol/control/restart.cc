// Reports, and what a coordinator does that has lost its memory, or has been superseded.
#include <algorithm>
#include <utility>

#include "src/protocol/control/coordinator.h"

namespace byteps::protocol {
namespace {

bool NoneHasLeft(const wire::View& view) {
  return std::none_of(view.workers.begin(), view.workers.end(),
                      [](const wire::WorkerInfo& worker) { return worker.left; });
}

}  // namespace

void Coordinator::OnReport(ConnectionId from, const wire::Report& report) {
  bool nothing = report.committed.epoch == 0 && report.promised.epoch == 0;
  bool superseded = report.term > term_;
  HearOfSyncs({report.committed.generation, report.syncs});
  if (recovery_.has_value()) {
    if (superseded || CountsAlike(report.term)) Recover(report.term);
    return OnReportInRecovery(from, report);
  }
  bool withdrawn = report.committed.epoch == 0 && std::find(withdrawn_.begin(), withdrawn_.end(),
                                                            report.promised) != withdrawn_.end();
  if (nothing || withdrawn) {
    if (superseded && view_.epoch == 0) DropProposal(report.term);
    if (superseded && view_.epoch > 0) Recover(report.term);
    if (roster_.At(from) == nullptr) OnJoin(from, report.self);
    return;
  }
  bool mine = change_.has_value() && report.promised == change_->next();
  bool unheard = report.committed.epoch > view_.epoch || (view_.epoch == 0 && !mine);
  if (superseded || unheard) {
    Recover(report.term);
    return OnReportInRecovery(from, report);
  }
  HoldKnown(from, report);
  Member* member = Rebind(from, report);
  if (member != nullptr) BringUpToDate(*member, report);
  EndIfNobodyComesBack();  // the last server may have been waited for, to be told
}

void Coordinator::HoldKnown(ConnectionId from, const wire::Report& report) {
  auto known = known_.extract(from);
  uint64_t incarnation = report.self.incarnation;
  if (known.empty() || !(recovery_.has_value() || awaited_.contains(incarnation))) return;
  held_known_[incarnation] = {report.committed.generation, std::move(known.mapped())};
}

void Coordinator::OnReportInRecovery(ConnectionId from, const wire::Report& report) {
  HoldKnown(from, report);
  Member* member = Rebind(from, report);
  recovery_->OnReport(report);
  // What it promised may be in force already.
  bool known = change_.has_value() && recovery_->latest().epoch >= change_->next().epoch;
  if (known) change_.reset();
  if (report.term != term_) return driver_.Send(from, wire::Query{term_});
  if (change_.has_value()) SendProposal(*member, change_->Proposal());
}

// The member that reports, under the connection over which it does. Null: it is no member, and has
// been told so.
Member* Coordinator::Rebind(ConnectionId from, const wire::Report& report) {
  uint64_t incarnation = report.self.incarnation;
  suspicions_.Back(incarnation, now_);
  Member* member = roster_.Find(incarnation);
  if (member != nullptr && member->connection == from) return member;
  synced_.erase(incarnation);  // it says so again, and what it waits for
  declarations_.ForgetOverdue([&](uint64_t one) { return one == incarnation; });
  std::optional<Standing> standing;
  if (member != nullptr) {
    standing = member->standing;
    ConnectionId old = member->connection;
    roster_.Remove(old);
    driver_.Disconnect(old);
  } else if (recovery_.has_value()) {
    bool nothing = report.committed.epoch == 0 && report.promised.epoch == 0;
    standing = nothing ? Standing::kWaiting : Standing::kIn;
  } else if (IsVoter(view_, incarnation)) {
    standing = Standing::kIn;
  } else if (change_.has_value() && IsVoter(change_->next(), incarnation)) {
    standing = Standing::kWaiting;
  } else if (HasLeft(view_, incarnation)) {
    standing = Standing::kLeft;
  }
  roster_.Remove(from);
  Member& fresh = roster_.Add(from, report.self);
  fresh.standing = standing.value_or(Standing::kIn);
  TakePlace(fresh);
  if (standing.has_value()) return &fresh;
  TellOut(fresh);
  return nullptr;
}

void Coordinator::BringUpToDate(const Member& member, const wire::Report& report) {
  if (member.standing == Standing::kLeft) return driver_.Send(member.connection, wire::Leave{});
  if (change_.has_value()) SendProposal(member, change_->Proposal());
  if (member.standing != Standing::kIn) return;
  if (report.committed.epoch < view_.epoch || report.term < term_) {
    driver_.Send(member.connection, wire::Commit{term_, view_});
  }
  Deliver(member.role() == Role::kServer ? declarations_.ForServer(member.incarnation())
                                         : declarations_.FailedForWorker(member.incarnation()));
  TakeKnown(member.incarnation());
}

// The view was never in force, and a higher term overrides what was promised. Gathering goes on.
void Coordinator::DropProposal(uint64_t heard_term) {
  if (change_.has_value()) withdrawn_.push_back(change_->next());
  change_.reset();
  term_ = TermAfter(std::max(term_, heard_term));
  for (auto& [id, member] : roster_.all()) {
    if (member.standing != Standing::kWaiting || member.join.rank >= 0) continue;
    bool placed = member.role() == Role::kServer && view_.epoch > 0;
    if (!placed) member.index = kNoSlot;
  }
}

// Reads what is in force, under a term that overrides all others.
void Coordinator::Recover(uint64_t heard_term) {
  term_ = TermAfter(std::max(term_, heard_term));
  if (!recovery_.has_value()) recovery_since_ = now_;
  change_.reset();
  recovery_.emplace(term_, view_, options_.mistake);
  suspicions_.ForgetAllBut({});
  if (view_.epoch == 0) {
    driver_.Report("the coordinator was restarted and asks the members what was decided");
  }
  TellAll(wire::Query{term_});
}

// False when it has to wait.
bool Coordinator::AdvanceRecovery() {
  if (change_.has_value()) {
    bool may = change_->MayCommit(Discounted());
    if (!may && options_.mistake != CoordinatorMistake::kNoQuorum) return false;
    Commit();
    return true;
  }
  if (!recovery_->HasQuorum(Discounted())) return false;
  if (std::optional<wire::View> promised = recovery_->Promised()) {
    // Who was let in and never heard of it joins no second time once it is out.
    for (auto& [id, member] : roster_.all()) {
      if (IsVoter(recovery_->latest(), member.incarnation())) member.standing = Standing::kIn;
    }
    Propose(std::move(*promised), true);
    return true;
  }
  FinishRecovery();
  return true;
}

void Coordinator::FinishRecovery() {
  wire::View before = std::exchange(view_, recovery_->latest());
  recovery_.reset();
  inherited_ = true;
  found_ = view_.generation != before.generation;
  for (const auto& [id, member] : roster_.all()) {
    if (member.role() == Role::kWorker) worker_count_ = member.join.worker_count;
  }
  if (found_) {
    RestoreDeclarations();
    // Whoever left before the restart may be alive and come back; of a whole job nobody has.
    leavers_ = view_.workers.size() < worker_count_ || !NoneHasLeft(view_);
    leases_due_ = now_ + options_.silence_end;
  }
  Enforce(before);
  if (phase_ == Phase::kOver) return;
  for (ConnectionId id : Connections()) {
    const Member* member = roster_.At(id);
    if (member->standing == Standing::kIn) TakeKnown(member->incarnation());
  }
  found_ = false;
  for (uint64_t incarnation : Incarnations(dead_)) {
    Lose(incarnation, "its process has ended", true);
  }
  // Who was taken for lost gives its place to who has joined.
  ReleaseHeld();
  if (phase_ != Phase::kOver) JoinAgain();
}

// Those that joined meanwhile are judged now.
void Coordinator::JoinAgain() {
  std::vector<std::pair<ConnectionId, wire::Join>> waiting;
  for (const auto& [id, member] : roster_.all()) {
    if (member.standing == Standing::kWaiting) waiting.emplace_back(id, member.join);
  }
  for (const auto& [id, join] : waiting) roster_.Remove(id);
  for (const auto& [id, join] : waiting) OnJoin(id, join);
}

// Declarations wait until every worker has told what it knows.
void Coordinator::RestoreDeclarations() {
  uint64_t restarts = (term_ >> 32) - 1;
  if (restarts >= UINT32_MAX / kTensorsOfTerm) {
    return End(
        {StatusCode::kExhausted, "the coordinator was restarted too often; start the job again"});
  }
  declarations_.Number(static_cast<TensorId>(restarts * kTensorsOfTerm + 1), kTensorsOfTerm - 1);
  rebuilding_ = true;
  for (const wire::WorkerInfo& one : view_.workers) {
    if (!one.left) awaited_.insert(one.incarnation);
  }
}

void Coordinator::TakeKnown(uint64_t incarnation) {
  const Member* member = roster_.Find(incarnation);
  if (member == nullptr || awaited_.erase(incarnation) == 0) return;
  auto known = held_known_.extract(incarnation);
  if (!known.empty() && known.mapped().generation == view_.generation) {
    for (const wire::Known& part : known.mapped().parts) {
      Deliver(declarations_.OnKnown({incarnation, member->index}, part));
    }
  }
  ReleaseDeclares();
}

void Coordinator::ReleaseDeclares() {
  if (!rebuilding_ || !awaited_.empty()) return;
  rebuilding_ = false;
  held_known_.clear();
  Status restored = declarations_.OnAllKnown();
  if (!restored.ok()) return End(restored);
  Deliver(declarations_.StillKnown(Declarations::kServers));
  if (!recovery_.has_value()) ReleaseHeld();
}

}  // namespace byteps::protocol
