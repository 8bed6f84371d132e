// What the next view is, and how it comes into force.
#include <algorithm>
#include <set>
#include <utility>

#include "src/protocol/control/coordinator.h"

namespace byteps::protocol {
namespace {

bool AnyServer(const wire::View& view) {
  return std::any_of(view.servers.begin(), view.servers.end(),
                     [](const wire::ServerInfo& server) { return server.alive; });
}

bool AllLeft(const wire::View& view) {
  return std::all_of(view.workers.begin(), view.workers.end(),
                     [](const wire::WorkerInfo& worker) { return worker.left; });
}

}  // namespace

bool Coordinator::HasLeft(const wire::View& view, uint64_t incarnation) {
  return std::any_of(view.workers.begin(), view.workers.end(), [&](const auto& worker) {
    return worker.incarnation == incarnation && worker.left;
  });
}

bool Coordinator::IsVoter(const wire::View& view, uint64_t incarnation) {
  auto is = [&](const auto& one) { return one.incarnation == incarnation; };
  return std::any_of(view.workers.begin(), view.workers.end(),
                     [&](const auto& worker) { return is(worker) && !worker.left; }) ||
         std::any_of(view.servers.begin(), view.servers.end(),
                     [&](const auto& server) { return is(server) && server.alive; });
}

Incarnations Coordinator::Discounted() const {
  bool strict = options_.strict && options_.mistake != CoordinatorMistake::kDiscountDespiteStrict;
  return strict ? Incarnations{} : dead_;
}

// Does what can be done now; called after everything that may have changed something.
void Coordinator::Advance() {
  while (phase_ != Phase::kOver) {
    if (recovery_.has_value()) {
      if (!AdvanceRecovery()) return;
      continue;
    }
    if (change_.has_value()) {
      bool may = change_->MayCommit(Discounted());
      if (!may && options_.mistake != CoordinatorMistake::kNoQuorum) return;
      Commit();
      continue;
    }
    if (phase_ == Phase::kGathering) Gather();
    if (phase_ == Phase::kOver || change_.has_value()) continue;
    std::optional<wire::View> next = NextView();
    if (phase_ == Phase::kOver) return;
    if (!next.has_value()) return AnswerSync();
    Propose(std::move(*next), false);
  }
}

std::optional<wire::View> Coordinator::NextView() {
  if (view_.epoch == 0) return std::nullopt;
  bool server_waits = std::any_of(roster_.all().begin(), roster_.all().end(), [](auto& entry) {
    return entry.second.role() == Role::kServer && entry.second.standing == Standing::kWaiting;
  });
  // A promise that was not heard of may let workers in. Before the others are told that nobody is,
  // the same view under another epoch makes it void.
  bool renew = inherited_ && AllSynced();
  if (lost_.empty() && leaving_.empty() && !server_waits && !MayAdmit() && !renew) {
    return std::nullopt;
  }
  wire::View next = view_;
  DropWorkers(next);
  PlaceServers(next);
  if (MayAdmit()) {
    AdmitWorkers(next);
    Status weighed = Weigh(next);
    if (!weighed.ok()) {
      End(weighed);
      return std::nullopt;
    }
  }
  if (next == view_ && !renew) return std::nullopt;
  ++next.epoch;
  return next;
}

uint32_t Coordinator::WorkersLeftOver(uint64_t without) const {
  return static_cast<uint32_t>(
      std::count_if(view_.workers.begin(), view_.workers.end(), [&](const auto& one) {
        return !one.left && one.incarnation != without && !lost_.contains(one.incarnation) &&
               !leaving_.contains(one.incarnation);
      }));
}

// Lost ones, and those that leave a job that goes on with the others. A job that does not go on
// without them keeps them, so that operations which need them fail.
void Coordinator::DropWorkers(wire::View& next) const {
  bool goes_on = Elastic() && WorkersLeftOver(0) >= options_.min_workers;
  std::vector<wire::WorkerInfo> stay;
  for (wire::WorkerInfo& one : next.workers) {
    bool leaves = leaving_.contains(one.incarnation);
    one.left = one.left || leaves;
    bool goes = lost_.contains(one.incarnation) || (leaves && goes_on);
    (goes ? next.gone : stay).push_back(std::move(one));
  }
  next.workers = std::move(stay);
}

void Coordinator::PlaceServers(wire::View& next) const {
  uint64_t epoch = view_.epoch + 1;
  for (wire::ServerInfo& place : next.servers) {
    if (place.alive && lost_.contains(place.incarnation)) {
      place.alive = false;
      place.since = epoch;
    }
  }
  for (const auto& [id, member] : roster_.all()) {
    if (member.role() != Role::kServer || member.standing != Standing::kWaiting) continue;
    for (wire::ServerInfo& place : next.servers) {
      if (place.index != member.index || place.alive) continue;
      place.alive = true;
      place.since = epoch;
      place.incarnation = member.incarnation();
      place.host = member.join.host;
      place.address = member.join.address;
      place.process = member.join.process;
    }
  }
}

bool Coordinator::MayAdmit() const {
  if (!Elastic() || phase_ != Phase::kRunning) return false;
  if (!AllSynced() && options_.mistake != CoordinatorMistake::kAdmitWithoutSync) return false;
  return std::any_of(roster_.all().begin(), roster_.all().end(), [](const auto& entry) {
    return entry.second.role() == Role::kWorker && entry.second.standing == Standing::kWaiting;
  });
}

// A joiner gets a new slot, and the rank it asks for or the lowest free one.
void Coordinator::AdmitWorkers(wire::View& next) const {
  std::erase_if(next.workers, [](const wire::WorkerInfo& one) { return one.left; });
  next.gone.clear();
  ++next.generation;
  next.began = view_.epoch + 1;
  std::set<uint32_t> taken;
  for (const wire::WorkerInfo& one : next.workers) taken.insert(one.rank);
  Slot slot = next_slot_;
  for (const auto& [id, member] : roster_.all()) {
    if (member.role() != Role::kWorker || member.standing != Standing::kWaiting) continue;
    if (slot >= wire::kMembersMax) return;
    uint32_t rank = member.join.rank >= 0 ? static_cast<uint32_t>(member.join.rank) : 0;
    if (taken.contains(rank)) rank = 0;
    while (taken.contains(rank)) ++rank;
    taken.insert(rank);
    next.workers.push_back(InfoOf(member, slot++, rank));
  }
}

void Coordinator::Propose(wire::View next, bool completes) {
  const wire::View& present = recovery_.has_value() ? recovery_->latest() : view_;
  change_.emplace(term_, present, std::move(next), completes);
  change_since_ = now_;
  for (const Voter& voter : VotersOf(change_->next())) {
    bool here = roster_.Find(voter.incarnation) != nullptr;
    if (!here && !IsVoter(present, voter.incarnation)) change_->Waive(voter.incarnation);
  }
  wire::Propose proposal = change_->Proposal();
  for (const auto& [id, member] : roster_.all()) SendProposal(member, proposal);
}

// Leavers too: they still have a vote.
void Coordinator::SendProposal(const Member& member, const wire::Propose& proposal) {
  if (!IsVoter(proposal.present, member.incarnation()) &&
      !IsVoter(proposal.next, member.incarnation())) {
    return;
  }
  driver_.Send(member.connection, proposal);
}

void Coordinator::Commit() {
  wire::View next = change_->next();
  change_.reset();
  if (!recovery_.has_value()) {
    inherited_ = false;
    return Enforce(std::exchange(view_, next));
  }
  recovery_->OnCommitted(next);
  for (const auto& [id, member] : roster_.all()) {
    if (!IsVoter(next, member.incarnation())) continue;
    driver_.Send(id, wire::Commit{term_, next});
    if (!recovery_->HasReport(member.incarnation())) driver_.Send(id, wire::Query{term_});
  }
}

// `view_` is in force; everybody hears of it.
void Coordinator::Enforce(const wire::View& before) {
  if (view_.generation != before.generation) BeginGeneration();
  for (ConnectionId id : Connections()) Settle(*roster_.At(id));
  ForgetStale();
  for (const wire::WorkerInfo& one : wire::WorkersOfGeneration(view_)) {
    next_slot_ = std::max(next_slot_, one.slot + 1);
  }
  if (AnyServer(view_)) {
    no_server_since_.reset();
  } else if (!std::exchange(no_server_since_, no_server_since_.value_or(now_)).has_value()) {
    driver_.Report("no server is left; the job waits for one to be started again");
  }
  Watch();
  Greet(before);
  TakeEnds();
  if (phase_ == Phase::kRunning && AllLeft(view_)) GatherAgain();
  ReleaseDeclares();
}

std::vector<ConnectionId> Coordinator::Connections() const {
  std::vector<ConnectionId> connections;
  for (const auto& [id, member] : roster_.all()) connections.push_back(id);
  return connections;
}

// What concerned members that are gone.
void Coordinator::ForgetStale() {
  auto stale = [&](uint64_t incarnation) { return !IsVoter(view_, incarnation); };
  std::erase_if(lost_, [&](const auto& entry) { return stale(entry.first); });
  std::erase_if(dead_, stale);
  std::erase_if(leaving_, stale);
  std::erase_if(synced_, [&](const auto& entry) { return stale(entry.first); });
  std::erase_if(awaited_, stale);
  declarations_.ForgetOverdue(stale);
  std::erase_if(unreachable_, [&](const auto& entry) { return stale(entry.first.first); });
}

// Members that are new in this view.
void Coordinator::Greet(const wire::View& before) {
  if (found_) return;
  bool begins = view_.generation != before.generation;
  for (const Voter& voter : VotersOf(view_)) {
    if (IsVoter(before, voter.incarnation)) continue;
    if (roster_.Find(voter.incarnation) == nullptr) {
      suspicions_.Closed(voter.incarnation, kOwnConnection, "it went away while it joined", now_);
    } else if (!begins && voter.role == Role::kServer) {
      Deliver(declarations_.ForServer(voter.incarnation));
    }
  }
}

void Coordinator::BeginGeneration() {
  phase_ = Phase::kRunning;
  refusals_.Forget();
  late_ = false;
  synced_.clear();
  unreachable_.clear();
  std::vector<uint32_t> weights;
  for (const wire::ServerInfo& server : view_.servers) {
    weights.insert(weights.end(), server.shard_weights.begin(), server.shard_weights.end());
  }
  Result<plan::PieceAssigner> dealer = plan::PieceAssigner::Create(weights, view_.piece_bytes_max);
  if (!dealer.ok()) return End(dealer.status());
  auto workers = static_cast<uint32_t>(wire::WorkersOfGeneration(view_).size());
  declarations_.Begin(std::move(dealer).value(), workers, view_.piece_bytes_max);
}

// Tells a connected member what it is in the view that is in force.
void Coordinator::Settle(Member& member) {
  uint64_t incarnation = member.incarnation();
  bool leaves = leaving_.contains(incarnation);
  if (IsVoter(view_, incarnation)) {
    if (member.standing == Standing::kLeft) {  // it left while it was let in
      leaving_.insert(incarnation);
    } else {
      member.standing = Standing::kIn;
    }
    TakePlace(member);
    return driver_.Send(member.connection, wire::Commit{term_, view_});
  }
  bool left = HasLeft(view_, incarnation);
  if (member.standing == Standing::kWaiting || (member.standing == Standing::kLeft && !leaves)) {
    return;
  }
  if (!left && !leaves) return TellOut(member);
  TakePlace(member);
  member.standing = Standing::kLeft;
  driver_.Send(member.connection, wire::Leave{});  // it may close now
}

void Coordinator::TakePlace(Member& member) const {
  for (const wire::WorkerInfo& one : view_.workers) {
    if (one.incarnation == member.incarnation()) member.index = one.rank;
  }
  for (const wire::ServerInfo& one : view_.servers) {
    if (one.incarnation == member.incarnation()) member.index = one.index;
  }
}

// The others went on without it.
void Coordinator::TellOut(const Member& member) {
  ConnectionId id = member.connection;
  driver_.Send(id, wire::Commit{term_, view_});
  driver_.Disconnect(id);
  roster_.Remove(id);
}

// A process that waited does so no longer.
void Coordinator::Withdraw(uint64_t incarnation) {
  if (phase_ == Phase::kGathering && roster_.Count(Role::kWorker, false) == 0) {
    worker_count_.reset();
  }
  TakeFromProposal(incarnation);
}

// It promises nothing any more. Where all members of the next view have to, there will be another.
void Coordinator::TakeFromProposal(uint64_t incarnation) {
  if (!change_.has_value() || recovery_.has_value()) return;
  if (!IsVoter(change_->next(), incarnation)) return;
  if (!change_->StartsFromNothing(Discounted())) return change_->Waive(incarnation);
  DropProposal(term_);
}

void Coordinator::GatherAgain() {
  phase_ = Phase::kGathering;
  refusals_.Forget();
  late_ = false;
  gathering_since_ = now_;
  next_report_ = now_ + options_.report_every;
  worker_count_.reset();
  for (const auto& [id, member] : roster_.all()) {
    if (member.role() == Role::kWorker && member.standing == Standing::kWaiting) {
      worker_count_ = member.join.worker_count;
    }
  }
  EndIfNobodyComesBack();
}

}  // namespace byteps::protocol
