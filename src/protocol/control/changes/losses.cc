#include "src/protocol/control/changes/losses.h"

#include <algorithm>
#include <utility>

#include "src/protocol/control/views/next_view.h"

namespace byteps::protocol {
namespace {

// Returns the member of the view that has this place. `by_rank`: the place of a worker is its rank.
// Otherwise it is the slot of a contributor, in which the carrier stands first.
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

std::string Losses::NameInView(uint64_t incarnation) const {
  if (const Member* member = members_.roster.Find(incarnation)) return NameOf(*member);
  for (const Voter& voter : MembersOf(views_.in_force())) {
    if (voter.incarnation == incarnation) return protocol::NameOf(voter);
  }
  return "a process";
}

// Before the first view nobody knows which processes are members. While the coordinator asks what
// was decided, a newer view may be found.
void Losses::TakeEnds() {
  if (views_.in_force().epoch == 0) return;
  bool keep = views_.IsRecovering();
  for (const ProcessEnds::End& end : members_.ends.Take(views_.in_force(), keep)) {
    if (job_end_.IsOver()) {
      members_.suspicions.Forget(
          end.incarnation);  // no process is left that would wait to hear of the end
    } else {
      Lose(end.incarnation, end.why, true);
    }
  }
}

// Their ends were told while nobody knew which processes are members.
void Losses::LoseTheDead() {
  for (uint64_t incarnation : Incarnations(members_.departures.dead())) {
    Lose(incarnation, "its process has ended", true);
  }
}

void Losses::OnSuspect(const Member* from, const wire::Suspect& suspect) {
  std::optional<uint64_t> target = TargetOf(from, suspect);
  if (!target.has_value()) return;
  switch (suspect.why) {
    case wire::Suspicion::kClosed: OnClosed(*from, *target, suspect.text); break;
    case wire::Suspicion::kUnreachable: OnUnreachable(*from, suspect, *target); break;
    case wire::Suspicion::kNonsense:
    case wire::Suspicion::kGaveUp: Lose(*target, suspect.text, false); break;
    case wire::Suspicion::kExited: OnExited(suspect, *target); break;
  }
}

// A launcher counts ranks; members count slots.
std::optional<uint64_t> Losses::TargetOf(const Member* from, const wire::Suspect& suspect) {
  const wire::View& view = views_.in_force();
  // The sender or the other end had gone on to the next generation.
  if (suspect.generation != 0 && suspect.generation != view.generation) return std::nullopt;
  bool exited = suspect.why == wire::Suspicion::kExited;
  if (exited && suspect.incarnation != 0 && !IsIn(view, suspect.incarnation)) {
    bool may_be_in = view.epoch == 0 || views_.IsRecovering();
    if (may_be_in) members_.departures.ProveDead(suspect.incarnation);
    return std::nullopt;
  }
  std::optional<uint64_t> target =
      AtPlace(view, suspect.role, suspect.index, exited && from == nullptr);
  if (exited && suspect.incarnation != 0) target = suspect.incarnation;
  if (suspect.why == wire::Suspicion::kGaveUp && from != nullptr) target = from->incarnation();
  bool old = target.has_value() && suspect.incarnation != 0 && suspect.incarnation != *target;
  if (!target.has_value() || old) return std::nullopt;
  bool itself = from != nullptr && from->incarnation() == *target;
  if (itself != (suspect.why == wire::Suspicion::kGaveUp)) return std::nullopt;
  return target;
}

void Losses::OnClosed(const Member& from, uint64_t target, const std::string& text) {
  members_.suspicions.Closed(target, from.incarnation(), text, around_.clock.now());
  // The coordinator asks whether the target lives. Any member answers this.
  const Member* member = members_.roster.Find(target);
  if (member == nullptr) return;
  around_.driver.Send(member->connection, wire::Query{views_.term()});
}

// Without an incarnation the word may mean the process that had the place before. A process that is
// connected has not ended.
void Losses::OnExited(const wire::Suspect& suspect, uint64_t target) {
  if (suspect.incarnation != 0 || members_.roster.Find(target) == nullptr) {
    return Lose(target, suspect.text, true);
  }
  members_.suspicions.HintExit(target, around_.clock.now());
}

// Two members cannot talk to each other, and both can talk to the coordinator, so one of them must
// go.
void Losses::OnUnreachable(const Member& from, const wire::Suspect& suspect, uint64_t target) {
  if (from.role() == suspect.role) return;
  // The coordinator cannot reach the target either, so the target's silence decides.
  if (members_.suspicions.IsCutOff(target)) return;
  if (members_.roster.Find(target) == nullptr) return OnClosed(from, target, suspect.text);
  bool from_worker = from.role() == Role::kWorker;
  uint64_t worker = from_worker ? from.incarnation() : target;
  uint64_t server = from_worker ? target : from.incarnation();
  BrokenPairs::Goes goes = broken_.Add(worker, server, views_.in_force(), members_.departures,
                                       EndsTheJob(worker), around_.clock.now());
  Lose(goes == BrokenPairs::Goes::kServer ? server : worker, suspect.text, false);
}

Incarnations Losses::LostWith(uint64_t incarnation) const {
  return around_.options.rules->LostWith(views_.in_force(), incarnation);
}

bool Losses::EndsTheJob(uint64_t worker) const {
  if (!Elastic()) return true;
  const wire::View& view = views_.in_force();
  return members_.departures.RanksLeftOver(view, LostWith(worker)) < around_.options.min_workers;
}

// Returns ", and with it worker 4 (process 9), of the same contributor", or nothing.
std::string Losses::NamesOfOthers(const Incarnations& lost, uint64_t first) const {
  std::string names;
  for (uint64_t incarnation : lost) {
    if (incarnation == first) continue;
    names += (names.empty() ? ", and with it " : ", ") + NameInView(incarnation);
  }
  return names.empty() ? names : names + ", of the same contributor";
}

void Losses::Lose(uint64_t incarnation, const std::string& why, bool proven_dead) {
  const wire::View& view = views_.in_force();
  if (!IsIn(view, incarnation)) return;
  if (proven_dead) {
    members_.departures.ProveDead(incarnation);
    views_.Withdraw(incarnation);
  }
  members_.suspicions.Forget(incarnation);
  // Nobody misses a member that leaves.
  if (members_.departures.IsGoing(view, incarnation)) return;
  std::string text = NameInView(incarnation) + " was lost: " + why;
  bool worker = std::any_of(view.workers.begin(), view.workers.end(),
                            [&](const auto& one) { return one.incarnation == incarnation; });
  if (worker && EndsTheJob(incarnation)) {
    std::string needs = Elastic() ? std::to_string(around_.options.min_workers) + " workers"
                                  : std::string("all its workers");
    return job_end_.End({StatusCode::kPeerLost,
                         text + "; the job needs " + needs + ": start it again from a checkpoint"});
  }
  if (!worker) last_server_loss_ = text;
  Incarnations lost = LostWith(incarnation);
  around_.driver.Report(text + NamesOfOthers(lost, incarnation) + "; the job goes on without it");
  for (uint64_t one : lost) {
    members_.suspicions.Forget(one);
    members_.departures.Lose(one, text);
  }
  Watch();
}

void Losses::OnView() {
  const wire::View& view = views_.in_force();
  broken_.ForgetWorkersIf([&](uint64_t worker) { return !IsIn(view, worker); });
  if (AnyServer(view)) {
    no_server_since_.reset();
  } else if (!no_server_since_.has_value()) {
    no_server_since_ = around_.clock.now();
    around_.driver.Report("no server is left; the job waits for one to be started again");
  }
  Watch();
}

void Losses::Watch() {
  if (views_.IsRecovering()) return;
  const wire::View& view = views_.in_force();
  size_t servers = 0;
  for (const wire::ServerInfo& one : view.servers) {
    servers += one.alive && !members_.departures.IsLost(one.incarnation) ? 1 : 0;
  }
  Incarnations these;
  auto watch = [&](uint64_t incarnation, bool hurry) {
    these.insert(incarnation);
    Duration silence = hurry ? around_.options.silence_evict : around_.options.silence_end;
    uint64_t company = around_.options.rules->CompanyOf(view, incarnation);
    members_.suspicions.Watch(incarnation, company, silence, around_.clock.now());
  };
  for (const Voter& voter : MembersOf(view)) {
    if (members_.departures.IsGoing(view, voter.incarnation)) continue;
    bool worker = voter.role == Role::kWorker;
    watch(voter.incarnation, worker ? !EndsTheJob(voter.incarnation) : servers > 1);
  }
  for (const auto& [id, member] : members_.roster.all()) {
    bool waits = member.presence == Presence::kWaiting && view.epoch > 0;
    if (waits) watch(member.incarnation(), false);
  }
  members_.suspicions.ForgetAllBut(these);
}

std::vector<uint64_t> Losses::Judge() {
  if (views_.IsRecovering()) return {};
  bool doubted = members_.suspicions.DoubtsOwnLink();
  std::vector<Suspicions::Loss> losses = members_.suspicions.Judge(around_.clock.now());
  if (!doubted && members_.suspicions.DoubtsOwnLink()) {
    around_.driver.Report(
        "most processes are silent; is the scheduler cut off? Nobody is given up for that yet");
  }
  std::vector<uint64_t> given_up;
  for (const Suspicions::Loss& loss : losses) {
    if (job_end_.IsOver()) break;
    if (IsIn(views_.in_force(), loss.who)) {
      Lose(loss.who, loss.why, loss.exited);
      continue;
    }
    const Member* member = members_.roster.Find(loss.who);
    if (member == nullptr || member->presence != Presence::kWaiting) continue;
    around_.driver.Report(NameOf(*member) + " went away before it was let in: " + loss.why);
    given_up.push_back(loss.who);
  }
  return given_up;
}

std::optional<Time> Losses::NextDue() const {
  std::optional<Time> next = members_.suspicions.NextDue();
  if (!no_server_since_.has_value()) return next;
  Time due = *no_server_since_ + around_.options.server_patience;
  return next.has_value() ? std::min(*next, due) : due;
}

std::optional<Status> Losses::ReasonToEnd() const {
  bool waits = no_server_since_.has_value() &&
               around_.clock.now() < *no_server_since_ + around_.options.server_patience;
  if (!no_server_since_.has_value() || waits) return std::nullopt;
  return Status(StatusCode::kPeerLost, "no server is left: " + last_server_loss_ +
                                           "; start the job again, with more servers or "
                                           "with restarts allowed");
}

}  // namespace byteps::protocol
