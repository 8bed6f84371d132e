#include "src/protocol/control/changes/succession.h"

#include <utility>
#include <vector>

#include "src/protocol/control/members/waiting_contributors.h"
#include "src/protocol/control/views/next_view.h"

namespace byteps::protocol {

Succession::Step Succession::Advance() {
  Views& views = parts_.views;
  if (std::optional<Views::NewView> came = views.Advance()) {
    if (!came->found) return Enforce(came->before, true), Step::kDone;
    return OnFound(came->before), Step::kFound;
  }
  if (views.IsRecovering() || views.IsChanging()) return Step::kNone;
  std::optional<wire::View> next;
  if (parts_.gathering.IsOn()) next = parts_.gathering.NextGeneration();
  if (!next.has_value() && !parts_.job_end.IsOver()) next = NextView();
  if (parts_.job_end.IsOver()) return Step::kNone;
  if (!next.has_value()) return LetGoOn(), Step::kNone;
  views.Propose(std::move(*next));
  return Step::kDone;
}

// Nobody waits to be let in.
void Succession::LetGoOn() {
  if (!parts_.syncs.AllWait(view(), parts_.departures)) return;
  for (const auto& [to, go_on] : parts_.syncs.GoOn(view().generation)) {
    const Member* member = parts_.roster.Find(to);
    if (member != nullptr) parts_.driver.Send(member->connection, go_on);
  }
}

std::optional<wire::View> Succession::NextView() {
  if (view().epoch == 0) return std::nullopt;
  const Departures& departures = parts_.departures;
  const Roster& roster = parts_.roster;
  // A promise that was not heard of may let workers in. Before the others are told that nobody is,
  // the same view under another epoch makes it void.
  bool renew = parts_.views.IsInherited() && parts_.syncs.AllWait(view(), departures);
  bool admits = MayAdmit();
  bool moves = parts_.links.Wants() && !AllWorkersLeft(view());
  if (departures.NobodyGoes() && !roster.AnyWaits(Role::kServer) && !admits && !renew && !moves) {
    return std::nullopt;
  }
  wire::View next = view();
  uint64_t epoch = next.epoch + 1;
  uint32_t needed = parts_.options.min_workers;
  bool goes_on = needed > 0 && departures.RanksLeftOver(view(), {}) >= needed;
  DropWorkers(next, roster, departures, goes_on, *parts_.options.rules);
  PlaceServers(next, roster, departures, epoch);
  if (admits) {
    AdmitWorkers(next, roster, parts_.views.next_slot(), epoch);
    Status weighed = Weigh(next, roster);
    if (!weighed.ok()) return parts_.job_end.End(weighed), std::nullopt;
  } else if (moves) {
    parts_.links.Place(next, epoch);
  }
  if (next == view() && !renew) return std::nullopt;
  next.epoch = epoch;
  return next;
}

bool Succession::MayAdmit() const {
  bool open = parts_.options.min_workers > 0 && !parts_.gathering.IsOn();
  if (!open || !AnyWhole(WaitingContributors(parts_.roster))) return false;
  return parts_.options.rules->MayAdmit(parts_.syncs.AllWait(view(), parts_.departures));
}

void Succession::OnFound(const wire::View& before) {
  bool begun_by_another = view().generation != before.generation;
  for (const auto& [id, member] : parts_.roster.all()) {
    if (member.role() == Role::kWorker) parts_.gathering.Expect(member.join.worker_count);
  }
  if (begun_by_another) {
    parts_.names.Rebuild(view(), parts_.views.restarts());
    parts_.comeback.Wait(parts_.gathering.worker_count());
  }
  Enforce(before, !begun_by_another);
  if (parts_.job_end.IsOver()) return;
  std::vector<uint64_t> members;
  for (const auto& [id, member] : parts_.roster.all()) {
    if (member.presence == Presence::kIn) members.push_back(member.incarnation());
  }
  for (uint64_t incarnation : members) parts_.names.TakeKnown(incarnation, view());
  parts_.losses.LoseTheDead();
  parts_.comeback.EndIfAllEnded();  // their ends may have been told before
}

// A view is in force; everybody hears of it. `greets`: members that are new in it are, unless
// another coordinator has let them in.
void Succession::Enforce(const wire::View& before, bool greets) {
  if (view().generation != before.generation) {
    parts_.gathering.Stop();
    parts_.notices.Begin();
    parts_.syncs.Begin();
    parts_.losses.Begin();
    parts_.names.Begin(view());
  }
  parts_.notices.SettleAll();
  auto stale = [this](uint64_t incarnation) { return !IsIn(view(), incarnation); };
  parts_.departures.ForgetIf(stale);
  parts_.syncs.ForgetIf(stale);
  parts_.losses.OnView();
  parts_.links.OnView(view());
  if (greets) Greet(before);
  parts_.losses.TakeEnds();
  bool all_left = !parts_.gathering.IsOn() && AllWorkersLeft(view());
  if (all_left && !parts_.job_end.IsOver()) {
    parts_.gathering.BeginAgain();
    parts_.comeback.EndIfNobodyComesBack();
  }
  parts_.names.ForgetIf(stale);
}

void Succession::Greet(const wire::View& before) {
  bool begins = view().generation != before.generation;
  for (const Voter& voter : MembersOf(view())) {
    if (IsIn(before, voter.incarnation)) continue;
    const Member* member = parts_.roster.Find(voter.incarnation);
    if (member == nullptr) {
      parts_.suspicions.Closed(voter.incarnation, kOwnConnection, "it went away while it joined",
                               parts_.clock.now());
    } else if (!begins && voter.role == Role::kServer) {
      parts_.names.BringUpToDate(*member);
    }
  }
}

}  // namespace byteps::protocol
