// Processes that ask to be members: let wait for the next view, put where they belong, or refused
// with the reason.
// One thread; no I/O: what is to be said goes through the driver.
#pragma once

#include <string>

#include "src/protocol/control/changes/gathering.h"
#include "src/protocol/control/changes/join_check.h"
#include "src/protocol/control/changes/losses.h"
#include "src/protocol/control/changes/member_notices.h"
#include "src/protocol/control/members/coordinator_driver.h"
#include "src/protocol/control/members/listening_clock.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/members/suspicions.h"
#include "src/protocol/control/names/name_desk.h"
#include "src/protocol/control/views/coordinator_options.h"
#include "src/protocol/control/views/views.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class Joining {
 public:
  // What it reads and changes, and through what it speaks.
  struct Parts {
    const CoordinatorOptions& options;
    CoordinatorDriver& driver;
    const ListeningClock& clock;
    Roster& roster;
    const Departures& departures;
    Suspicions& suspicions;
    Losses& losses;
    const Views& views;
    Gathering& gathering;
    MemberNotices& notices;
    NameDesk& names;
  };
  explicit Joining(const Parts& parts);

  // The first word of a process over this connection, or a later one of a worker that has left.
  void OnJoin(ConnectionId from, const wire::Join& join);
  // It is known again what there is to join: those that joined meanwhile are judged.
  void JudgeAllWhoWait();

 private:
  void Accept(ConnectionId from, const wire::Join& join);
  void Refuse(ConnectionId id, const std::string& text);

  const Parts parts_;
  const JoinCheck check_;
};

}  // namespace byteps::protocol
