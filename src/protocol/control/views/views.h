// The views as the coordinator has them: the view in force, the view that it has proposed, and the
// term under which it may propose (docs/membership.md, rules 2 to 4). A coordinator that has lost
// its memory, or meets a higher term, first asks the members which view is in force.
//
// One thread; no I/O: the driver sends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/protocol/control/members/job_members.h"
#include "src/protocol/control/members/quorum.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/views/coordinator_options.h"
#include "src/protocol/control/views/recovery.h"
#include "src/protocol/control/views/view_change.h"
#include "src/wire/membership.h"
#include "src/wire/view.h"

namespace byteps::protocol {

class Views {
 public:
  // A view has come into force, or was found to be in force.
  struct NewView {
    wire::View before;
    bool found = false;  // found in the members' reports
  };

  // This desk changes the roster of `members`.
  Views(const Surroundings& around, JobMembers& members);

  // The view in force; epoch 0 before the first. While the coordinator asks the members, a newer
  // view may be in force.
  const wire::View& in_force() const { return view_; }
  // Returns whether the view in force was found in reports and no view has followed it. A member
  // may have promised another view then, and nobody has told of that.
  bool IsInherited() const { return inherited_; }
  // No worker has had this slot or a later one.
  Slot next_slot() const { return next_slot_; }

  uint64_t term() const { return term_; }
  // Counts the coordinators before this one, by the number in its term.
  uint64_t restarts() const { return (term_ >> 32) - 1; }
  // Returns whether another coordinator has the same number in its term. It may have numbered
  // tensors by it.
  bool CountsAlike(uint64_t term) const;

  // Proposes `next`. REQUIRES: no proposal is on its way.
  void Propose(wire::View next);
  bool IsChanging() const { return change_.has_value(); }
  // Returns whether this process is in the view that is proposed.
  bool IsProposed(uint64_t incarnation) const;
  // Tells a member of the proposal, if there is one and it concerns the member. It concerns members
  // of the present view, because a member that leaves has a vote, too, and members of the next
  // view.
  void SendProposal(const Member& member) const;
  void OnPromise(uint64_t from, const wire::Promise& promise);
  // This process promises nothing any more. If all members of the next view have to promise, the
  // coordinator drops the proposal and will make another one.
  void Withdraw(uint64_t incarnation);
  // Drops the proposal, which was never in force. A term above `heard` overrides the promises.
  void DropProposal(uint64_t heard);

  // Asks the members what was decided, under a term above `heard`.
  void Recover(uint64_t heard);
  bool IsRecovering() const { return recovery_.has_value(); }
  // Returns whether the report tells nothing new: it tells of no view, or only of a promise that
  // was withdrawn since.
  bool TellsNothing(const wire::Report& report) const;
  // Returns whether the report tells of a job that another coordinator began, beside or before the
  // job in force.
  bool TellsOfAnotherJob(const wire::Report& report) const;
  // Returns whether the report tells of a view that this coordinator does not know.
  bool TellsMore(const wire::Report& report) const;
  // `from`: the member that has sent the report. REQUIRES: IsRecovering().
  void OnReport(const Member& from, const wire::Report& report);

  // Does what promises and reports allow. Returns nothing if it has to wait, or if no change is on
  // its way.
  std::optional<NewView> Advance();

  std::optional<Time> NextDue() const;
  // Returns why the job ends: too few members have answered for too long.
  std::optional<Status> ReasonToEnd() const;

 private:
  uint64_t TermAfter(uint64_t term) const;
  Incarnations Discounted() const;
  void Propose(wire::View next, bool completes);
  NewView BringIntoForce(wire::View next, bool found);
  void CommitInRecovery();
  void CompletePromised(wire::View promised);

  const Surroundings around_;
  JobMembers& members_;
  uint64_t term_;
  wire::View view_;
  Slot next_slot_ = 0;
  bool inherited_ = false;
  std::optional<ViewChange> change_;
  Time change_since_{};
  std::vector<wire::View> withdrawn_;  // first views that were proposed and never committed
  std::optional<Recovery> recovery_;
  Time recovery_since_{};
};

}  // namespace byteps::protocol
