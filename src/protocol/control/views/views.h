// The views as the coordinator has them: the one in force, the one that it has proposed, and the
// term under which it may do so (docs/membership.md, rules 2 to 4). A coordinator that has lost its
// memory, or meets a higher term, first asks the members what is in force.
//
// One thread; no I/O: what is to be said goes through the driver.
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
#include "src/wire/control.h"

namespace byteps::protocol {

class Views {
 public:
  // A view has come into force, or was found to be.
  struct NewView {
    wire::View before;
    bool found = false;  // in the members' reports
  };

  // Of `members` it changes the roster.
  Views(const Surroundings& around, JobMembers& members);

  // Epoch 0 before the first. While it is asked what was decided a newer one may be in force.
  const wire::View& in_force() const { return view_; }
  // The view in force was found in reports, and none has followed it: somebody may have promised
  // another one that nobody has told of.
  bool IsInherited() const { return inherited_; }
  // No worker has had this slot, or a later one.
  Slot next_slot() const { return next_slot_; }

  uint64_t term() const { return term_; }
  // How many coordinators there were before this one, by the count in its term.
  uint64_t restarts() const { return (term_ >> 32) - 1; }
  // Another coordinator has this count. It may have numbered tensors by it.
  bool CountsAlike(uint64_t term) const;

  // Makes `next` the proposal. REQUIRES: none is on its way.
  void Propose(wire::View next);
  bool IsChanging() const { return change_.has_value(); }
  // It is in the view that is proposed.
  bool IsProposed(uint64_t incarnation) const;
  // Tells a member of the proposal, if there is one and it concerns it: of the present view (who
  // leaves has a vote, too), or of the next.
  void SendProposal(const Member& member) const;
  void OnPromise(uint64_t from, const wire::Promise& promise);
  // It promises nothing any more. Where all members of the next view have to, there will be another
  // proposal.
  void Withdraw(uint64_t incarnation);
  // The proposal was never in force, and a term above `heard` overrides what was promised.
  void DropProposal(uint64_t heard);

  // It asks the members what was decided, under a term above `heard`.
  void Recover(uint64_t heard);
  bool IsRecovering() const { return recovery_.has_value(); }
  // What the report tells is known here: it has nothing, or promised what was withdrawn since.
  bool TellsNothing(const wire::Report& report) const;
  // It tells of a job that another coordinator began, beside or before the one in force.
  bool TellsOfAnotherJob(const wire::Report& report) const;
  // It tells of a view that is not known here.
  bool TellsMore(const wire::Report& report) const;
  // REQUIRES: IsRecovering(). `from`: who has sent it.
  void OnReport(const Member& from, const wire::Report& report);

  // Does what promises and reports allow; none: it has to wait, or nothing is on its way.
  std::optional<NewView> Advance();

  std::optional<Time> NextDue() const;
  // Why the job ends: too few have answered for too long.
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
  std::vector<wire::View> withdrawn_;  // first views that were proposed and not committed
  std::optional<Recovery> recovery_;
  Time recovery_since_{};
};

}  // namespace byteps::protocol
