// One view after another: when the next one is due and what it is, and what follows everywhere when
// it is in force.
// One thread; no I/O: what is to be said goes through the driver.
#pragma once

#include <cstdint>
#include <optional>

#include "src/protocol/control/changes/comeback.h"
#include "src/protocol/control/changes/gathering.h"
#include "src/protocol/control/changes/losses.h"
#include "src/protocol/control/changes/member_notices.h"
#include "src/protocol/control/members/coordinator_driver.h"
#include "src/protocol/control/members/departures.h"
#include "src/protocol/control/members/job_end.h"
#include "src/protocol/control/members/listening_clock.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/members/suspicions.h"
#include "src/protocol/control/names/name_desk.h"
#include "src/protocol/control/views/coordinator_options.h"
#include "src/protocol/control/views/link_watch.h"
#include "src/protocol/control/views/sync_points.h"
#include "src/protocol/control/views/views.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class Succession {
 public:
  // What it reads and changes, and through what it speaks.
  struct Parts {
    const CoordinatorOptions& options;
    CoordinatorDriver& driver;
    const ListeningClock& clock;
    Roster& roster;
    JobEnd& job_end;
    Departures& departures;
    Suspicions& suspicions;
    SyncPoints& syncs;
    Views& views;
    MemberNotices& notices;
    Gathering& gathering;
    NameDesk& names;
    Losses& losses;
    Comeback& comeback;
    LinkWatch& links;
  };
  explicit Succession(const Parts& parts) : parts_(parts) {}

  enum class Step : uint8_t {
    kNone,   // it has to wait, or there is nothing to do
    kDone,   // more may be possible now
    kFound,  // it is known again which view is in force: what waited for that can be judged
  };
  // One step of what can be done now. REQUIRES: the job is not over.
  Step Advance();

 private:
  const wire::View& view() const { return parts_.views.in_force(); }
  std::optional<wire::View> NextView();
  bool MayAdmit() const;
  void LetGoOn();
  void OnFound(const wire::View& before);
  void Enforce(const wire::View& before, bool greets);
  void Greet(const wire::View& before);

  const Parts parts_;
};

}  // namespace byteps::protocol
