#include "src/protocol/control/changes/reporting.h"

#include <algorithm>
#include <optional>

namespace byteps::protocol {

void Reporting::OnReport(ConnectionId from, const wire::Report& report) {
  Views& views = parts_.views;
  if (views.TellsOfAnotherJob(report)) return SendAway(from, report);
  bool superseded = report.term > views.term();
  uint32_t present = views.in_force().generation;
  for (const auto& [to, go_on] :
       parts_.syncs.Pass(report.committed.generation, report.syncs, present)) {
    const Member* member = parts_.roster.Find(to);
    if (member != nullptr) parts_.driver.Send(member->connection, go_on);
  }
  if (views.IsRecovering()) {
    if (superseded || views.CountsAlike(report.term)) Recover(report.term);
    return OnReportInRecovery(from, report);
  }
  if (views.TellsNothing(report)) {
    bool before_the_first = views.in_force().epoch == 0;
    if (superseded && before_the_first) views.DropProposal(report.term);
    if (superseded && !before_the_first) Recover(report.term);
    if (parts_.roster.At(from) == nullptr) parts_.joining.OnJoin(from, report.self);
    return;
  }
  if (superseded || views.TellsMore(report)) {
    Recover(report.term);
    return OnReportInRecovery(from, report);
  }
  parts_.names.OnReport(from, report, false);
  Member* member = Rebind(from, report);
  if (member != nullptr) BringUpToDate(*member, report);
}

void Reporting::Recover(uint64_t heard) {
  parts_.suspicions.ForgetAllBut({});
  parts_.views.Recover(heard);
}

// It belongs to a job that has lost its quorum before this one began, slept through that, and finds
// another job at the same address. A view without it tells it that it is out.
void Reporting::SendAway(ConnectionId from, const wire::Report& report) {
  uint64_t term = std::max(parts_.views.term(), report.term);
  parts_.driver.Send(from, wire::Commit{term, parts_.views.in_force()});
  parts_.driver.Disconnect(from);
  parts_.roster.Remove(from);
}

void Reporting::OnReportInRecovery(ConnectionId from, const wire::Report& report) {
  parts_.names.OnReport(from, report, true);
  parts_.views.OnReport(*Rebind(from, report), report);
}

// The member that reports, under the connection over which it does. Null: it is no member, and has
// been told so; never while it is asked what was decided.
Member* Reporting::Rebind(ConnectionId from, const wire::Report& report) {
  uint64_t incarnation = report.self.incarnation;
  parts_.suspicions.Back(incarnation, parts_.clock.now());
  Member* member = parts_.roster.Find(incarnation);
  if (member != nullptr && member->connection == from) return member;
  parts_.syncs.Forget(incarnation);  // it says so again, and what it waits for
  parts_.names.ForgetWaits([&](uint64_t one) { return one == incarnation; });
  std::optional<Presence> presence;
  if (member != nullptr) {
    presence = member->presence;
    ConnectionId old = member->connection;
    parts_.roster.Remove(old);
    parts_.driver.Disconnect(old);
  } else {
    presence = PresenceOf(report);
  }
  parts_.roster.Remove(from);
  Member& fresh = parts_.roster.Add(from, report.self);
  fresh.presence = presence.value_or(Presence::kIn);
  parts_.notices.TakePlace(fresh);
  if (presence.has_value()) return &fresh;
  parts_.notices.TellOut(fresh);
  return nullptr;
}

// Of one that was not connected; none: the others went on without it.
std::optional<Presence> Reporting::PresenceOf(const wire::Report& report) const {
  uint64_t incarnation = report.self.incarnation;
  if (parts_.views.IsRecovering()) {
    bool nothing = report.committed.epoch == 0 && report.promised.epoch == 0;
    return nothing ? Presence::kWaiting : Presence::kIn;
  }
  if (IsIn(parts_.views.in_force(), incarnation)) return Presence::kIn;
  if (parts_.views.IsProposed(incarnation)) return Presence::kWaiting;
  if (HasLeft(parts_.views.in_force(), incarnation)) return Presence::kLeft;
  return std::nullopt;
}

void Reporting::BringUpToDate(const Member& member, const wire::Report& report) {
  if (member.presence == Presence::kLeft) {
    return parts_.driver.Send(member.connection, wire::Leave{});
  }
  parts_.views.SendProposal(member);
  if (member.presence != Presence::kIn) return;
  const wire::View& view = parts_.views.in_force();
  if (report.committed.epoch < view.epoch || report.term < parts_.views.term()) {
    parts_.driver.Send(member.connection, wire::Commit{parts_.views.term(), view});
  }
  parts_.names.BringUpToDate(member);
  parts_.names.TakeKnown(member.incarnation(), view);
}

void Reporting::TellIfLeftBehind(ConnectionId from, const wire::Report& report) {
  uint64_t incarnation = report.self.incarnation;
  const wire::View& view = parts_.views.in_force();
  bool is_out = !IsIn(view, incarnation) && !HasLeft(view, incarnation);
  if (report.self.role != Role::kWorker || !is_out) return;
  // One that has never been let in ignores it.
  parts_.driver.Send(from, wire::Commit{std::max(parts_.views.term(), report.term), view});
}

}  // namespace byteps::protocol
