// Who is lost, and what that means.
#include <algorithm>
#include <utility>

#include "src/protocol/control/coordinator.h"

namespace byteps::protocol {
namespace {

// What a worker cannot reach within this time has one cause.
constexpr Duration kSameTrouble = seconds(5);

// The member of the view that has this place; a worker's is its slot, or its rank.
std::optional<uint64_t> AtPlace(const wire::View& view, Role role, uint32_t index, bool by_rank) {
  if (role == Role::kWorker) {
    for (const wire::WorkerInfo& one : view.workers) {
      if ((by_rank ? one.rank : one.slot) == index && !one.left) return one.incarnation;
    }
  } else {
    for (const wire::ServerInfo& one : view.servers) {
      if (one.index == index && one.alive) return one.incarnation;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string Coordinator::NameInView(uint64_t incarnation) const {
  if (const Member* member = roster_.Find(incarnation)) return NameOf(*member);
  for (const Voter& voter : VotersOf(view_)) {
    if (voter.incarnation == incarnation) return protocol::NameOf(voter);
  }
  return "a process";
}

// Processes that are no members, or not any more, do not matter. Before the first view nobody knows
// who is one, and while it is asked what was decided a newer one may be found.
void Coordinator::TakeEnds() {
  if (view_.epoch == 0) return;
  std::vector<EndedProcess> all = std::exchange(ended_, {});
  if (recovery_.has_value()) ended_ = all;
  for (const EndedProcess& ended : all) {
    std::string why = "process " + std::to_string(ended.process) + " has ended";
    std::vector<uint64_t> lost;
    auto take = [&](const auto& member) {
      bool same = member.process == ended.process && member.host == ended.host;
      if (same) lost.push_back(member.incarnation);
    };
    std::for_each(view_.workers.begin(), view_.workers.end(), take);
    std::for_each(view_.servers.begin(), view_.servers.end(), take);
    for (uint64_t incarnation : lost) {
      if (phase_ != Phase::kOver) Lose(incarnation, why, true);
    }
  }
}

// A launcher counts ranks; members count slots.
void Coordinator::OnSuspect(const Member* from, const wire::Suspect& suspect) {
  // Its sender, or the other end, had gone on to the next generation.
  if (suspect.generation != 0 && suspect.generation != view_.generation) return;
  bool exited = suspect.why == wire::Suspicion::kExited;
  if (exited && suspect.incarnation != 0 && !IsVoter(view_, suspect.incarnation)) {
    if (view_.epoch == 0 || recovery_.has_value()) dead_.insert(suspect.incarnation);
    return;
  }
  std::optional<uint64_t> target =
      AtPlace(view_, suspect.role, suspect.index, exited && from == nullptr);
  if (exited && suspect.incarnation != 0) target = suspect.incarnation;
  if (suspect.why == wire::Suspicion::kGaveUp && from != nullptr) target = from->incarnation();
  bool old = target.has_value() && suspect.incarnation != 0 && suspect.incarnation != *target;
  if (!target.has_value() || old) return;
  bool itself = from != nullptr && from->incarnation() == *target;
  if (itself != (suspect.why == wire::Suspicion::kGaveUp)) return;
  switch (suspect.why) {
    case wire::Suspicion::kClosed: OnClosed(*from, *target, suspect.text); break;
    case wire::Suspicion::kUnreachable: OnUnreachable(*from, suspect, *target); break;
    case wire::Suspicion::kNonsense:
    case wire::Suspicion::kGaveUp: Lose(*target, suspect.text, false); break;
    case wire::Suspicion::kExited: OnExited(suspect, *target); break;
  }
}

void Coordinator::OnClosed(const Member& from, uint64_t target, const std::string& text) {
  suspicions_.Closed(target, from.incarnation(), text, now_);
  JudgeSilence();
  // Does it live? Any member answers this.
  const Member* member = roster_.Find(target);
  if (member != nullptr) driver_.Send(member->connection, wire::Query{term_});
}

// Without an incarnation it may mean the one that had the place before: one that is connected has
// not ended.
void Coordinator::OnExited(const wire::Suspect& suspect, uint64_t target) {
  if (suspect.incarnation != 0 || roster_.Find(target) == nullptr) {
    return Lose(target, suspect.text, true);
  }
  suspicions_.HintExit(target, now_);
}

// Two members cannot talk to each other, and both can talk to the coordinator: one must go.
void Coordinator::OnUnreachable(const Member& from, const wire::Suspect& suspect, uint64_t target) {
  if (from.role() == suspect.role) return;
  if (suspicions_.IsCutOff(target)) return;  // nor can the coordinator: its silence decides
  if (roster_.Find(target) == nullptr) return OnClosed(from, target, suspect.text);
  bool from_worker = from.role() == Role::kWorker;
  uint64_t worker = from_worker ? from.incarnation() : target;
  uint64_t server = from_worker ? target : from.incarnation();
  unreachable_[{worker, server}] = now_;
  std::erase_if(unreachable_,
                [&](const auto& entry) { return entry.second + kSameTrouble <= now_; });
  size_t missed = 0;
  for (const auto& [pair, when] : unreachable_) missed += pair.first == worker ? 1 : 0;
  size_t all = missed;
  for (const wire::ServerInfo& one : view_.servers) {
    bool counts = one.alive && !lost_.contains(one.incarnation);
    all += counts && !unreachable_.contains({worker, one.incarnation}) ? 1 : 0;
  }
  // A server is replaced without a loss, and one that nobody reaches would cost every worker; so
  // the first server that a worker misses goes. Its own network is the likelier cause when it soon
  // misses another one and so half of them; but when losing it ends the job, servers go as long as
  // another one is left to it.
  bool others = missed < all;
  bool server_goes = others && (missed == 1 || 2 * missed < all || EndsTheJob(worker));
  Lose(server_goes ? server : worker, suspect.text, false);
}

bool Coordinator::EndsTheJob(uint64_t worker) const {
  return !Elastic() || WorkersLeftOver(worker) < options_.min_workers;
}

void Coordinator::Lose(uint64_t incarnation, const std::string& why, bool proven_dead) {
  if (!IsVoter(view_, incarnation)) return;
  if (proven_dead) {
    dead_.insert(incarnation);
    TakeFromProposal(incarnation);
  }
  suspicions_.Forget(incarnation);
  // Who leaves is not missed.
  if (leaving_.contains(incarnation) || lost_.contains(incarnation)) return;
  std::string text = NameInView(incarnation) + " was lost: " + why;
  bool worker = std::any_of(view_.workers.begin(), view_.workers.end(),
                            [&](const auto& one) { return one.incarnation == incarnation; });
  if (worker && EndsTheJob(incarnation)) {
    std::string needs = Elastic() ? std::to_string(options_.min_workers) + " workers"
                                  : std::string("all its workers");
    return End({StatusCode::kPeerLost,
                text + "; the job needs " + needs + ": start it again from a checkpoint"});
  }
  if (!worker) last_server_loss_ = text;
  lost_[incarnation] = text;
  driver_.Report(text + "; the job goes on without it");
  Watch();
}

void Coordinator::Watch() {
  if (recovery_.has_value()) return;
  size_t servers = 0;
  for (const wire::ServerInfo& one : view_.servers) {
    servers += one.alive && !lost_.contains(one.incarnation) ? 1 : 0;
  }
  Incarnations these;
  auto watch = [&](uint64_t incarnation, bool hurry) {
    these.insert(incarnation);
    suspicions_.Watch(incarnation, hurry ? options_.silence_evict : options_.silence_end, now_);
  };
  for (const Voter& voter : VotersOf(view_)) {
    uint64_t incarnation = voter.incarnation;
    if (lost_.contains(incarnation) || leaving_.contains(incarnation)) continue;
    bool worker = voter.role == Role::kWorker;
    watch(incarnation, worker ? !EndsTheJob(incarnation) : servers > 1);
  }
  for (const auto& [id, member] : roster_.all()) {
    bool waits = member.standing == Standing::kWaiting && view_.epoch > 0;
    if (waits) watch(member.incarnation(), false);
  }
  suspicions_.ForgetAllBut(these);
}

void Coordinator::JudgeSilence() {
  if (recovery_.has_value()) return;
  bool doubted = suspicions_.DoubtsOwnLink();
  std::vector<Suspicions::Loss> losses = suspicions_.Judge(now_);
  if (!doubted && suspicions_.DoubtsOwnLink()) {
    driver_.Report(
        "most processes are silent; is the scheduler cut off? Nobody is given up for that yet");
  }
  for (const Suspicions::Loss& loss : losses) {
    if (phase_ == Phase::kOver) return;
    if (IsVoter(view_, loss.who)) {
      Lose(loss.who, loss.why, loss.exited);
      continue;
    }
    const Member* member = roster_.Find(loss.who);
    if (member == nullptr || member->standing != Standing::kWaiting) continue;
    ConnectionId id = member->connection;
    driver_.Report(NameOf(*member) + " went away before it was let in: " + loss.why);
    roster_.Remove(id);
    driver_.Disconnect(id);
    Withdraw(loss.who);
  }
}

}  // namespace byteps::protocol
