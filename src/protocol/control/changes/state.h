// The whole state of a coordinator: its desks, and the parts that they share. A desk takes only the
// parts of the state that it names. The functions of joining.h, join_check.h, reporting.h and
// succession.h see all of it, because they touch most desks.
#pragma once

#include <string>

#include "src/protocol/control/changes/comeback.h"
#include "src/protocol/control/changes/gathering.h"
#include "src/protocol/control/changes/latecomers.h"
#include "src/protocol/control/changes/losses.h"
#include "src/protocol/control/changes/member_notices.h"
#include "src/protocol/control/members/job_end.h"
#include "src/protocol/control/members/job_members.h"
#include "src/protocol/control/names/name_desk.h"
#include "src/protocol/control/views/coordinator_options.h"
#include "src/protocol/control/views/link_watch.h"
#include "src/protocol/control/views/sync_points.h"
#include "src/protocol/control/views/views.h"

namespace byteps::protocol {

// A desk stands behind those that it uses. The desks refer to each other, so the state stays where
// it was built. One thread.
struct CoordinatorState {
  explicit CoordinatorState(const Surroundings& surroundings) : around(surroundings) {}
  CoordinatorState(const CoordinatorState&) = delete;
  CoordinatorState& operator=(const CoordinatorState&) = delete;

  const Surroundings around;
  JobMembers members{around.options.grace};
  SyncPoints syncs;
  JobEnd job_end{around.driver, members.roster};
  Views views{around, members};
  MemberNotices notices{around.driver, members.roster, members.departures, views};
  Gathering gathering{around, members, job_end, views.in_force()};
  NameDesk names{around, members.roster, job_end};
  Losses losses{around, members, job_end, views};
  Comeback comeback{around, members, job_end, views, gathering};
  LinkWatch links{around.options, around.driver, members.roster};
  Latecomers latecomers{around.driver, members.roster, views, gathering};
  std::string sums;  // what their bits depend on in the generation in force; empty before the first
};

// Sends each answer to its worker, if the worker is connected.
void SendAnswers(const CoordinatorState& state, const SyncPoints::Answers& answers);

}  // namespace byteps::protocol
