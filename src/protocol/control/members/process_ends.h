// The processes that a launcher has seen end. A launcher may tell of an end before the process has
// joined, and of a process that never joins. So its word is kept until a view shows whether the
// process was a member.
//
// A value without I/O.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "src/protocol/control/members/coordinator_driver.h"
#include "src/protocol/control/members/roster.h"
#include "src/wire/view.h"

namespace byteps::protocol {

class ProcessEnds {
 public:
  struct End {
    uint64_t incarnation = 0;
    std::string why;
  };

  void Add(const EndedProcess& ended);

  // Returns the members of `view`, dead or alive in it, whose processes have ended. `keep`: a newer
  // view may be found, so the next call looks for all ends again. Otherwise the ends are forgotten.
  std::vector<End> Take(const wire::View& view, bool keep);

  // The ranks of workers that have ended. Nobody starts them again.
  const std::set<uint32_t>& ranks() const { return ranks_; }
  // Counts the ranks below `worker_count` that nobody need wait for: their processes have ended,
  // and no worker that is here has asked for such a rank.
  uint32_t CountAbsent(const Roster& roster, uint32_t worker_count) const;

 private:
  std::vector<EndedProcess> ended_;  // ends that no view has shown yet
  std::set<uint32_t> ranks_;
};

}  // namespace byteps::protocol
