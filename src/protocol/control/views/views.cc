#include "src/protocol/control/views/views.h"

#include <algorithm>
#include <utility>

namespace byteps::protocol {

Views::Views(const Surroundings& around, JobMembers& members)
    : around_(around), members_(members), term_(TermAfter(0)) {}

// The upper half counts coordinators. The lower half tells coordinators with the same count apart.
uint64_t Views::TermAfter(uint64_t term) const {
  return (((term >> 32) + 1) << 32) | around_.options.nonce;
}

bool Views::CountsAlike(uint64_t term) const {
  return term != term_ && (term >> 32) == (term_ >> 32);
}

Incarnations Views::Discounted() const {
  return around_.options.rules->Discounted(members_.departures.dead(), around_.options.strict);
}

void Views::Propose(wire::View next) { Propose(std::move(next), false); }

void Views::Propose(wire::View next, bool completes) {
  const wire::View& present = recovery_.has_value() ? recovery_->latest() : view_;
  change_.emplace(term_, present, std::move(next), completes);
  change_since_ = around_.clock.now();
  for (const Voter& voter : MembersOf(change_->next())) {
    bool here = members_.roster.Find(voter.incarnation) != nullptr;
    if (!here && !IsIn(present, voter.incarnation)) change_->Waive(voter.incarnation);
  }
  for (const auto& [id, member] : members_.roster.all()) SendProposal(member);
}

bool Views::IsProposed(uint64_t incarnation) const {
  return change_.has_value() && IsIn(change_->next(), incarnation);
}

void Views::SendProposal(const Member& member) const {
  if (!change_.has_value()) return;
  wire::Propose proposal = change_->Proposal();
  bool concerns =
      IsIn(proposal.present, member.incarnation()) || IsIn(proposal.next, member.incarnation());
  if (concerns) around_.driver.Send(member.connection, proposal);
}

void Views::OnPromise(uint64_t from, const wire::Promise& promise) {
  if (!change_.has_value()) return;
  change_->OnPromise(around_.options.rules->VoterFor(change_->present(), from), promise);
}

void Views::Withdraw(uint64_t incarnation) {
  if (recovery_.has_value() || !IsProposed(incarnation)) return;
  if (!change_->StartsFromNothing(Discounted())) return change_->Waive(incarnation);
  DropProposal(term_);
}

// The coordinator goes on gathering.
void Views::DropProposal(uint64_t heard) {
  if (change_.has_value()) withdrawn_.push_back(change_->next());
  change_.reset();
  term_ = TermAfter(std::max(term_, heard));
  members_.roster.TakeBackIndices(view_.epoch == 0);
}

void Views::Recover(uint64_t heard) {
  term_ = TermAfter(std::max(term_, heard));
  if (!recovery_.has_value()) recovery_since_ = around_.clock.now();
  change_.reset();
  recovery_.emplace(term_, view_, *around_.options.rules);
  if (view_.epoch == 0) {
    around_.driver.Report("the coordinator was restarted and asks the members what was decided");
  }
  for (const auto& [id, member] : members_.roster.all())
    around_.driver.Send(id, wire::Query{term_});
}

bool Views::TellsNothing(const wire::Report& report) const {
  if (view_.epoch == 0 && !around_.options.rules->GoesOnWithWhatRuns()) return true;
  if (report.committed.epoch > 0) return false;
  return report.promised.epoch == 0 ||
         std::find(withdrawn_.begin(), withdrawn_.end(), report.promised) != withdrawn_.end();
}

bool Views::TellsOfAnotherJob(const wire::Report& report) const {
  const wire::View& told = report.committed.epoch > 0 ? report.committed : report.promised;
  return view_.epoch > 0 && told.epoch > 0 && told.founder != view_.founder;
}

bool Views::TellsMore(const wire::Report& report) const {
  bool mine = change_.has_value() && report.promised == change_->next();
  return report.committed.epoch > view_.epoch || (view_.epoch == 0 && !mine);
}

void Views::OnReport(const Member& from, const wire::Report& report) {
  recovery_->OnReport(report);
  // The view that the member promised may be in force already.
  bool known = change_.has_value() && recovery_->latest().epoch >= change_->next().epoch;
  if (known) change_.reset();
  if (report.term != term_) return around_.driver.Send(from.connection, wire::Query{term_});
  SendProposal(from);
}

std::optional<Views::NewView> Views::Advance() {
  while (change_.has_value() || recovery_.has_value()) {
    if (change_.has_value()) {
      if (!around_.options.rules->MayCommit(*change_, Discounted())) return std::nullopt;
      if (!recovery_.has_value()) {
        wire::View next = change_->next();
        change_.reset();
        return BringIntoForce(std::move(next), false);
      }
      CommitInRecovery();
      continue;
    }
    if (!recovery_->HasQuorum(Discounted())) return std::nullopt;
    std::optional<wire::View> promised = recovery_->Promised();
    if (!promised.has_value()) {
      wire::View latest = recovery_->latest();
      recovery_.reset();
      return BringIntoForce(std::move(latest), true);
    }
    CompletePromised(std::move(*promised));
  }
  return std::nullopt;
}

Views::NewView Views::BringIntoForce(wire::View next, bool found) {
  inherited_ = found;
  NewView came{std::exchange(view_, std::move(next)), found};
  for (const wire::WorkerInfo& one : wire::WorkersOfGeneration(view_)) {
    next_slot_ = std::max(next_slot_, one.slot + 1);
  }
  return came;
}

void Views::CommitInRecovery() {
  wire::View next = change_->next();
  change_.reset();
  recovery_->OnCommitted(next);
  for (const auto& [id, member] : members_.roster.all()) {
    if (!IsIn(next, member.incarnation())) continue;
    around_.driver.Send(id, wire::Commit{term_, next});
    if (!recovery_->HasReport(member.incarnation())) around_.driver.Send(id, wire::Query{term_});
  }
}

void Views::CompletePromised(wire::View promised) {
  // A process that was let in and never heard so must not join a second time once it is out.
  for (auto& [id, member] : members_.roster.all()) {
    if (IsIn(recovery_->latest(), member.incarnation())) member.presence = Presence::kIn;
  }
  Propose(std::move(promised), true);
}

std::optional<Time> Views::NextDue() const {
  std::optional<Time> next;
  if (change_.has_value()) next = change_since_ + around_.options.quorum_patience;
  if (recovery_.has_value()) {
    Time due = recovery_since_ + around_.options.recovery_patience;
    next = next.has_value() ? std::min(*next, due) : due;
  }
  return next;
}

std::optional<Status> Views::ReasonToEnd() const {
  Time now = around_.clock.now();
  if (change_.has_value() && now >= change_since_ + around_.options.quorum_patience) {
    return Status(StatusCode::kPeerLost,
                  "quorum lost: cannot see " + change_->Missing(Discounted()) +
                      ", and without them nobody may decide who is in the job; check the network, "
                      "end what is left and start the job again");
  }
  if (recovery_.has_value() && now >= recovery_since_ + around_.options.recovery_patience) {
    return Status(StatusCode::kPeerLost,
                  "quorum lost: the coordinator was restarted and cannot see " +
                      recovery_->Missing() +
                      "; check the network, end what is left and start the job again");
  }
  return std::nullopt;
}

}  // namespace byteps::protocol
