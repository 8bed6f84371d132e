// Tells connected members where they stand in the view in force: in it, out of it, or left.
// One thread; no I/O: what is to be said goes through the driver.
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

  // A view has come into force; or this member has never heard that it is in it. One that is out is
  // told so and removed from the roster.
  void Settle(Member& member);
  void SettleAll();
  // The others went on without it. A process that was lost with another one of its contributor is
  // told of which.
  void TellOut(const Member& member);
  // A generation begins: nobody is told any more why it is out of an earlier one.
  void Begin() { why_.clear(); }
  // It gets the rank or index that it has in the view.
  void TakePlace(Member& member) const;

 private:
  CoordinatorDriver& driver_;
  Roster& roster_;
  Departures& departures_;
  const Views& views_;
  std::map<uint64_t, std::string> why_;  // processes of this generation are out
};

}  // namespace byteps::protocol
