// What a coordinator that has lost its memory learns from reports (docs/membership.md, rule 3): the
// latest view that may be in force, and the proposal that has to be completed first.
// A value without I/O; the coordinator sends what has to be sent.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/protocol/control/members/quorum.h"
#include "src/protocol/control/views/coordinator_rules.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class Recovery {
 public:
  // `known`: the latest view that this coordinator knows to be in force; epoch 0 when it has just
  // been started.
  Recovery(uint64_t term, wire::View known, const CoordinatorRules& rules);

  uint64_t term() const { return term_; }

  // A report made under this term counts; an earlier one only tells of views in force.
  void OnReport(const wire::Report& report);
  // `view` has been committed by this coordinator, under this term.
  void OnCommitted(const wire::View& view);

  // The latest view in force that was heard of. If there is word of several jobs: of the one that
  // has a quorum; there is no second one (docs/membership.md, rule 3).
  const wire::View& latest() const { return latest_; }
  // Enough members of the latest view have reported. `dead` are proven dead.
  bool HasQuorum(const Incarnations& dead) const;
  // What must be completed before anything else. REQUIRES: HasQuorum.
  std::optional<wire::View> Promised() const;

  // Whose report is missing.
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
  std::map<uint32_t, wire::View> latest_of_;  // each job that was heard of, by its founder
  bool job_is_known_;                         // latest_ is of the job that this coordinator has
  const CoordinatorRules* rules_;
  bool completed_ = false;
  std::map<uint64_t, wire::Report> reports_;  // made under this term, by incarnation
};

}  // namespace byteps::protocol
