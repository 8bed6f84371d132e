// Collects the reports that a coordinator reads after it has lost its memory (docs/membership.md,
// rule 3). They tell the latest view that may be in force, and the proposal that the coordinator
// must complete first.
//
// A value without I/O; the coordinator sends.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/protocol/control/members/quorum.h"
#include "src/protocol/control/views/coordinator_rules.h"
#include "src/wire/membership.h"
#include "src/wire/view.h"

namespace byteps::protocol {

class Recovery {
 public:
  // `known`: the latest view that this coordinator knows to be in force; epoch 0: it has just been
  // started.
  Recovery(uint64_t term, wire::View known, const CoordinatorRules& rules);

  uint64_t term() const { return term_; }

  // Takes a report. It counts if it was made under this term; an earlier report only tells of views
  // in force.
  void OnReport(const wire::Report& report);
  // Notes that this coordinator has committed `view`, under this term.
  void OnCommitted(const wire::View& view);

  // The latest view in force that a report has told of. If reports tell of several jobs, it is a
  // view of the job that has a quorum. There is never a second such job (docs/membership.md, rule
  // 3).
  const wire::View& latest() const { return latest_; }
  // Returns whether enough members of the latest view have reported. `dead` are proven dead.
  bool HasQuorum(const Incarnations& dead) const;
  // Returns the view that must be completed before anything else. REQUIRES: HasQuorum.
  std::optional<wire::View> Promised() const;

  // Returns the members whose reports are missing, as a text.
  std::string Missing() const;
  bool HasReport(uint64_t incarnation) const { return reports_.contains(incarnation); }
  const std::map<uint64_t, wire::Report>& reports() const { return reports_; }

 private:
  void Take(const wire::View& in_force);
  const wire::Report* BestPromise() const;
  bool HasReadEnough() const { return completed_ && !rules_->ReadsAgain(); }
  std::string MissingOf(const std::vector<Voter>& asked) const;

  uint64_t term_;
  wire::View latest_;
  std::map<uint32_t, wire::View>
      latest_of_;      // the latest view of each job that was heard of, by its founder
  bool job_is_known_;  // latest_ is a view of this coordinator's own job
  const CoordinatorRules* rules_;
  bool completed_ = false;
  std::map<uint64_t, wire::Report> reports_;  // made under this term, by incarnation
};

}  // namespace byteps::protocol
