// Tells connected members where they stand in the view in force: in it, out of it, or left.
//
// One thread; no I/O: the driver sends.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "src/protocol/control/members/coordinator_driver.h"
#include "src/protocol/control/members/departures.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/views/views.h"

namespace byteps::protocol {

class MemberNotices {
 public:
  MemberNotices(CoordinatorDriver& driver, Roster& roster, Departures& departures,
                const Views& views)
      : driver_(driver), roster_(roster), departures_(departures), views_(views) {}

  // Tells a member where it stands, because a view has come into force or the member has never
  // heard that it is in the view. Removes a member that is out from the roster.
  void Settle(Member& member);
  void SettleAll();
  // Tells a member that the others went on without it. A process that was lost with another process
  // of its contributor hears which one that was.
  void TellOut(const Member& member);
  // Forgets why processes are out, because a generation begins.
  void Begin() { why_.clear(); }
  // Gives the member the rank or index that it has in the view.
  void TakePlace(Member& member) const;

 private:
  CoordinatorDriver& driver_;
  Roster& roster_;
  Departures& departures_;
  const Views& views_;
  std::map<uint64_t, std::string> why_;  // why processes are out of this generation
};

}  // namespace byteps::protocol
