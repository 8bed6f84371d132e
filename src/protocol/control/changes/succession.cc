#include "src/protocol/control/changes/succession.h"

#include <utility>
#include <vector>

#include "src/protocol/control/members/waiting_contributors.h"
#include "src/protocol/control/views/next_view.h"
#include "src/protocol/control/views/sum_order.h"

namespace byteps::protocol {
namespace {

// Lets workers go on from a sync point, because nobody waits to be let in.
void LetGoOn(CoordinatorState& state) {
  const wire::View& view = state.views.in_force();
  if (!state.syncs.AllWait(view, state.members.departures)) return;
  SendAnswers(state, state.syncs.GoOn(view.generation));
}

bool MayAdmit(const CoordinatorState& state) {
  bool open = state.around.options.min_workers > 0 && !state.gathering.IsOn();
  if (!open || !AnyWhole(WaitingContributors(state.members.roster))) return false;
  return state.around.options.rules->MayAdmit(
      state.syncs.AllWait(state.views.in_force(), state.members.departures));
}

std::optional<wire::View> NextView(CoordinatorState& state) {
  const wire::View& view = state.views.in_force();
  if (view.epoch == 0) return std::nullopt;
  const Departures& departures = state.members.departures;
  const Roster& roster = state.members.roster;
  // A promise that the coordinator has not heard of may let workers in. Before the coordinator
  // tells the others that nobody comes, it makes that promise void: it brings the same view into
  // force under another epoch.
  bool renew = state.views.IsInherited() && state.syncs.AllWait(view, departures);
  bool admits = MayAdmit(state);
  bool moves = state.links.Wants() && !AllWorkersLeft(view);
  if (departures.NobodyGoes() && !roster.AnyWaits(Role::kServer) && !admits && !renew && !moves) {
    return std::nullopt;
  }
  wire::View next = view;
  uint64_t epoch = next.epoch + 1;
  uint32_t needed = state.around.options.min_workers;
  bool goes_on = needed > 0 && departures.RanksLeftOver(view, {}) >= needed;
  DropWorkers(next, roster, departures, goes_on, *state.around.options.rules);
  PlaceServers(next, roster, departures, epoch);
  if (admits) {
    AdmitWorkers(next, roster, state.views.next_slot(), epoch);
    Status weighed = Weigh(next, roster);
    if (!weighed.ok()) return state.job_end.End(weighed), std::nullopt;
  } else if (moves) {
    state.links.Place(next, epoch);
  }
  if (next == view && !renew) return std::nullopt;
  next.epoch = epoch;
  return next;
}

void Greet(CoordinatorState& state, const wire::View& before) {
  const wire::View& view = state.views.in_force();
  bool begins = view.generation != before.generation;
  for (const Voter& voter : MembersOf(view)) {
    if (IsIn(before, voter.incarnation)) continue;
    const Member* member = state.members.roster.Find(voter.incarnation);
    if (member == nullptr) {
      state.members.suspicions.Closed(voter.incarnation, kOwnConnection,
                                      "it went away while it joined", state.around.clock.now());
    } else if (!begins && voter.role == Role::kServer) {
      state.names.BringUpToDate(*member);
    }
  }
}

// Notes and says on what bits of sums depend in the generation that begins. In most jobs that is
// what users expect, so only what they do not expect is news.
void TellOfSums(CoordinatorState& state) {
  const plan::SumReport report = DescribeSums(state.views.in_force());
  if (report.bits == plan::SumBits::kOnPlacement) {
    state.around.driver.Report(report.text);
  } else {
    state.around.driver.Inform(report.text);
  }
  state.sums = report.text;
}

// Brings a view into force everywhere. `greets`: greets members that are new in it. Another
// coordinator that has let them in has greeted them already.
void Enforce(CoordinatorState& state, const wire::View& before, bool greets) {
  const wire::View& view = state.views.in_force();
  if (view.generation != before.generation) {
    state.gathering.Stop();
    state.notices.Begin();
    state.syncs.Begin();
    state.losses.Begin();
    state.names.Begin(view);
    TellOfSums(state);
  }
  state.notices.SettleAll();
  auto stale = [&](uint64_t incarnation) { return !IsIn(view, incarnation); };
  state.members.departures.ForgetIf(stale);
  state.syncs.ForgetIf(stale);
  state.losses.OnView();
  state.links.OnView(view);
  if (greets) Greet(state, before);
  state.losses.TakeEnds();
  bool all_left = !state.gathering.IsOn() && AllWorkersLeft(view);
  if (all_left && !state.job_end.IsOver()) {
    state.gathering.BeginAgain();
    state.comeback.EndIfNobodyComesBack();
  }
  state.names.ForgetIf(stale);
}

void OnFound(CoordinatorState& state, const wire::View& before) {
  const wire::View& view = state.views.in_force();
  bool begun_by_another = view.generation != before.generation;
  for (const auto& [id, member] : state.members.roster.all()) {
    if (member.role() == Role::kWorker) state.gathering.Expect(member.join.worker_count);
  }
  if (begun_by_another) {
    state.names.Rebuild(view, state.views.restarts());
    state.comeback.Wait(state.gathering.worker_count());
  }
  Enforce(state, before, !begun_by_another);
  if (state.job_end.IsOver()) return;
  std::vector<uint64_t> members;
  for (const auto& [id, member] : state.members.roster.all()) {
    if (member.presence == Presence::kIn) members.push_back(member.incarnation());
  }
  for (uint64_t incarnation : members) state.names.TakeKnown(incarnation, view);
  state.losses.LoseTheDead();
  state.comeback.EndIfAllEnded();  // their ends may have been told before
}

}  // namespace

ViewStep AdvanceViews(CoordinatorState& state) {
  Views& views = state.views;
  if (std::optional<Views::NewView> came = views.Advance()) {
    if (!came->found) return Enforce(state, came->before, true), ViewStep::kDone;
    return OnFound(state, came->before), ViewStep::kFound;
  }
  if (views.IsRecovering() || views.IsChanging()) return ViewStep::kNone;
  std::optional<wire::View> next;
  if (state.gathering.IsOn()) next = state.gathering.NextGeneration();
  if (!next.has_value() && !state.job_end.IsOver()) next = NextView(state);
  if (state.job_end.IsOver()) return ViewStep::kNone;
  if (!next.has_value()) return LetGoOn(state), ViewStep::kNone;
  views.Propose(std::move(*next));
  return ViewStep::kDone;
}

}  // namespace byteps::protocol
