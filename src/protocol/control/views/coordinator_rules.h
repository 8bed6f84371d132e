// Decisions of the coordinator that would do harm if they were made in another way, one small
// function each. The functions here are the protocol. Tests and the simulator replace one of them
// to show that the checks notice the mistake (coordinator_mistakes_for_test.h). The numbers are
// those of docs/membership.md.
#pragma once

#include "src/base/slot_set.h"
#include "src/base/time.h"
#include "src/protocol/control/members/quorum.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/views/view_change.h"
#include "src/wire/view.h"

namespace byteps::protocol {

class CoordinatorRules {
 public:
  virtual ~CoordinatorRules() = default;

  // Rule 2: a view comes into force when enough have promised it.
  virtual bool MayCommit(const ViewChange& change, const Incarnations& discounted) const {
    return change.MayCommit(discounted);
  }
  // Rules 2 and 4: a process that is proven dead has no vote, unless two coordinators may live at
  // once.
  virtual Incarnations Discounted(const Incarnations& dead, bool strict) const {
    return strict ? Incarnations{} : dead;
  }

  // Rule 2: a contributor has one vote, its carrier's. Returns the voter whose promise this is.
  // `process` is in `present` or in the next view.
  virtual uint64_t VoterFor(const wire::View& /*present*/, uint64_t process) const {
    return process;
  }

  // Rule 3: a coordinator that has not begun a job of its own, and hears of one that runs, goes on
  // with that job.
  virtual bool GoesOnWithWhatRuns() const { return true; }
  // Rule 3: the dead count when a coordinator reads.
  virtual bool MayRead(const wire::View& latest, const Incarnations& reported,
                       const Incarnations& /*dead*/) const {
    return IsReadQuorum(latest, reported);
  }
  // Rule 3: a coordinator first completes a view that was promised after `latest`.
  virtual bool CompletesPromised(const wire::View& /*latest*/) const { return true; }
  // Rule 3: after a coordinator has completed a view, it reads the members once more.
  virtual bool ReadsAgain() const { return true; }

  // Rule 13: workers are let in only where all others are between operations.
  virtual bool MayAdmit(bool all_at_sync_point) const { return all_at_sync_point; }

  // Rule 15: a contributor is lost with any of its processes. Returns the processes that are lost
  // with this one, itself included.
  virtual Incarnations LostWith(const wire::View& view, uint64_t process) const {
    return ContributorOf(view, process);
  }
  // Rule 15: nobody takes the place of a process that a contributor has lost, because the
  // contributor comes back as a whole. Returns the waiting process that takes the place; null:
  // none.
  virtual const Member* Heir(const wire::WorkerInfo& /*lost*/, const Roster& /*roster*/) const {
    return nullptr;
  }
  // Rule 17: a tensor is forgotten when no rank holds it.
  virtual bool MayForget(const RankSet& holders) const { return holders.empty(); }

  // "When a member counts as lost": if several companies go together, the cause lies between them
  // and the coordinator. The processes of one contributor have the same company number, so they
  // count as one.
  virtual uint64_t CompanyOf(const wire::View& view, uint64_t member) const {
    return *ContributorOf(view, member).begin();
  }

  // "When a member counts as lost": the coordinator asks to be called this often. A call that comes
  // much later tells it that it was stopped itself, and that this time counts against nobody.
  virtual Duration ListeningStep(Duration step) const { return step; }
};

// The rules of production. They have no state.
inline const CoordinatorRules kCoordinatorRules;

}  // namespace byteps::protocol
