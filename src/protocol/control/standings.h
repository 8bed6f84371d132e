// Tells connected members where they stand in the view in force: in it, out of it, or left.
// One thread; no I/O: what is to be said goes through the driver.
#pragma once

#include "src/protocol/control/coordinator_options.h"
#include "src/protocol/control/departures.h"
#include "src/protocol/control/roster.h"
#include "src/protocol/control/views.h"

namespace byteps::protocol {

class Standings {
 public:
  Standings(CoordinatorDriver& driver, Roster& roster, Departures& departures, const Views& views)
      : driver_(driver), roster_(roster), departures_(departures), views_(views) {}

  // A view has come into force; or this member has never heard that it is in it. One that is out is
  // told so and removed from the roster.
  void Settle(Member& member);
  void SettleAll();
  // The others went on without it.
  void TellOut(const Member& member);
  // It gets the rank or index that it has in the view.
  void TakePlace(Member& member) const;

 private:
  CoordinatorDriver& driver_;
  Roster& roster_;
  Departures& departures_;
  const Views& views_;
};

}  // namespace byteps::protocol
