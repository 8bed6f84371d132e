// Members that report: they are connected again, or were asked, and tell which view they hold and
// what they have promised. A report may show that this coordinator knows less than the members do
// (it was restarted, or superseded); else it brings the member up to date.
// One thread; no I/O: what is to be said goes through the driver.
#pragma once

#include "src/protocol/control/changes/joining.h"
#include "src/protocol/control/changes/member_notices.h"
#include "src/protocol/control/members/coordinator_driver.h"
#include "src/protocol/control/members/listening_clock.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/members/suspicions.h"
#include "src/protocol/control/names/name_desk.h"
#include "src/protocol/control/views/sync_points.h"
#include "src/protocol/control/views/views.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class Reporting {
 public:
  // What it reads and changes, and through what it speaks.
  struct Parts {
    CoordinatorDriver& driver;
    const ListeningClock& clock;
    Roster& roster;
    Suspicions& suspicions;
    SyncPoints& syncs;
    Views& views;
    MemberNotices& notices;
    NameDesk& names;
    Joining& joining;
  };
  explicit Reporting(const Parts& parts) : parts_(parts) {}

  void OnReport(ConnectionId from, const wire::Report& report);
  // The job is over. For a worker that the others went on without it did not end in order.
  void TellIfLeftBehind(ConnectionId from, const wire::Report& report);

 private:
  void Recover(uint64_t heard);
  void SendAway(ConnectionId from, const wire::Report& report);
  void OnReportInRecovery(ConnectionId from, const wire::Report& report);
  Member* Rebind(ConnectionId from, const wire::Report& report);
  std::optional<Presence> PresenceOf(const wire::Report& report) const;
  void BringUpToDate(const Member& member, const wire::Report& report);

  const Parts parts_;
};

}  // namespace byteps::protocol
