#include "src/protocol/control/changes/reporting.h"

#include <algorithm>
#include <optional>

#include "src/protocol/control/changes/joining.h"

namespace byteps::protocol {
namespace {

void Recover(CoordinatorState& state, uint64_t heard) {
  state.members.suspicions.ForgetAllBut({});
  state.views.Recover(heard);
}

// The sender belongs to a job that has lost its quorum before this one began. It slept through that
// and finds another job at the same address. A view without the sender tells it that it is out.
void SendAway(CoordinatorState& state, ConnectionId from, const wire::Report& report) {
  uint64_t term = std::max(state.views.term(), report.term);
  state.around.driver.Send(from, wire::Commit{term, state.views.in_force()});
  state.around.driver.Disconnect(from);
  state.members.roster.Remove(from);
}

// Returns the presence of a member that was not connected; none: the others went on without it.
std::optional<Presence> PresenceOf(const CoordinatorState& state, const wire::Report& report) {
  uint64_t incarnation = report.self.incarnation;
  if (state.views.IsRecovering()) {
    bool nothing = report.committed.epoch == 0 && report.promised.epoch == 0;
    return nothing ? Presence::kWaiting : Presence::kIn;
  }
  if (IsIn(state.views.in_force(), incarnation)) return Presence::kIn;
  if (state.views.IsProposed(incarnation)) return Presence::kWaiting;
  if (HasLeft(state.views.in_force(), incarnation)) return Presence::kLeft;
  return std::nullopt;
}

// Puts the member that reports under the connection of its report, and returns it. Null: it is no
// member, and has been told so; never while the coordinator asks what was decided.
Member* Rebind(CoordinatorState& state, ConnectionId from, const wire::Report& report) {
  uint64_t incarnation = report.self.incarnation;
  state.members.suspicions.Back(incarnation, state.around.clock.now());
  Member* member = state.members.roster.Find(incarnation);
  if (member != nullptr && member->connection == from) return member;
  state.syncs.Forget(incarnation);  // the member says again what it waits for
  state.names.ForgetWaits([&](uint64_t one) { return one == incarnation; });
  std::optional<Presence> presence;
  if (member != nullptr) {
    presence = member->presence;
    ConnectionId old = member->connection;
    state.members.roster.Remove(old);
    state.around.driver.Disconnect(old);
  } else {
    presence = PresenceOf(state, report);
  }
  state.members.roster.Remove(from);
  Member& fresh = state.members.roster.Add(from, report.self);
  fresh.presence = presence.value_or(Presence::kIn);
  state.notices.TakePlace(fresh);
  if (presence.has_value()) return &fresh;
  state.notices.TellOut(fresh);
  return nullptr;
}

void OnReportInRecovery(CoordinatorState& state, ConnectionId from, const wire::Report& report) {
  state.names.OnReport(from, report, true);
  state.views.OnReport(*Rebind(state, from, report), report);
}

void BringUpToDate(CoordinatorState& state, const Member& member, const wire::Report& report) {
  if (member.presence == Presence::kLeft) {
    return state.around.driver.Send(member.connection, wire::Leave{});
  }
  state.views.SendProposal(member);
  if (member.presence != Presence::kIn) return;
  const wire::View& view = state.views.in_force();
  if (report.committed.epoch < view.epoch || report.term < state.views.term()) {
    state.around.driver.Send(member.connection, wire::Commit{state.views.term(), view});
  }
  state.names.BringUpToDate(member);
  state.names.TakeKnown(member.incarnation(), view);
}

}  // namespace

void OnReport(CoordinatorState& state, ConnectionId from, const wire::Report& report) {
  Views& views = state.views;
  if (views.TellsOfAnotherJob(report)) return SendAway(state, from, report);
  bool superseded = report.term > views.term();
  uint32_t present = views.in_force().generation;
  SendAnswers(state, state.syncs.Pass(report.committed.generation, report.syncs, present));
  if (views.IsRecovering()) {
    if (superseded || views.CountsAlike(report.term)) Recover(state, report.term);
    return OnReportInRecovery(state, from, report);
  }
  if (views.TellsNothing(report)) {
    bool before_the_first = views.in_force().epoch == 0;
    if (superseded && before_the_first) views.DropProposal(report.term);
    if (superseded && !before_the_first) Recover(state, report.term);
    if (state.members.roster.At(from) == nullptr) OnJoin(state, from, report.self);
    return;
  }
  if (superseded || views.TellsMore(report)) {
    Recover(state, report.term);
    return OnReportInRecovery(state, from, report);
  }
  state.names.OnReport(from, report, false);
  Member* member = Rebind(state, from, report);
  if (member != nullptr) BringUpToDate(state, *member, report);
}

void TellIfLeftBehind(const CoordinatorState& state, ConnectionId from,
                      const wire::Report& report) {
  uint64_t incarnation = report.self.incarnation;
  const wire::View& view = state.views.in_force();
  bool is_out = !IsIn(view, incarnation) && !HasLeft(view, incarnation);
  if (report.self.role != Role::kWorker || !is_out) return;
  // A worker that was never let in ignores this.
  state.around.driver.Send(from, wire::Commit{std::max(state.views.term(), report.term), view});
}

}  // namespace byteps::protocol
