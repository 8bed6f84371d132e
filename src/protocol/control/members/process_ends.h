// Processes that a launcher has seen end. It may say so before the process has joined, and of one
// that never does, so what it said is kept until a view shows whether it was a member.
// A value without I/O.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "src/protocol/control/members/coordinator_driver.h"
#include "src/protocol/control/members/roster.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class ProcessEnds {
 public:
  struct End {
    uint64_t incarnation = 0;
    std::string why;
  };

  void Add(const EndedProcess& ended);

  // The members of `view`, dead or alive in it, whose processes have ended. `keep`: a newer view
  // may be found, so all are looked for again then; else they are forgotten.
  std::vector<End> Take(const wire::View& view, bool keep);

  // Of workers that have ended: nobody starts them again.
  const std::set<uint32_t>& ranks() const { return ranks_; }
  // How many of the ranks below `worker_count` nobody need wait for: their processes have ended,
  // and no worker that is here has asked for them.
  uint32_t CountAbsent(const Roster& roster, uint32_t worker_count) const;

 private:
  std::vector<EndedProcess> ended_;  // not yet looked for
  std::set<uint32_t> ranks_;
};

}  // namespace byteps::protocol
