// One change of the view: the proposal, its promises, and the decision whether it may come into
// force.
//
// A value without I/O; the coordinator sends.
#pragma once

#include <cstdint>
#include <string>

#include "src/protocol/control/members/quorum.h"
#include "src/wire/membership.h"
#include "src/wire/view.h"

namespace byteps::protocol {

class ViewChange {
 public:
  // `completes`: this is the proposal of an earlier coordinator. It may be in force already, so its
  // new members need not have promised.
  ViewChange(uint64_t term, wire::View present, wire::View next, bool completes);

  wire::Propose Proposal() const { return {term_, present_, next_}; }
  const wire::View& present() const { return present_; }
  const wire::View& next() const { return next_; }

  // Takes the promise of a member of the present or of the next view, by incarnation. Other
  // promises do not count.
  void OnPromise(uint64_t from, const wire::Promise& promise);
  // Waits no longer for the promise of a new member, because the member has gone away.
  void Waive(uint64_t incarnation) { waived_.insert(incarnation); }

  // Returns whether the next view may come into force. Members in `dead` are proven dead and do not
  // count; a strict job passes none. If no member of the present view has a vote that counts, all
  // members of the next view must have promised.
  bool MayCommit(const Incarnations& dead) const;
  // Returns whether the present view has no member that could be asked.
  bool StartsFromNothing(const Incarnations& dead) const;

  // Returns the members whose promises are missing: "worker 1 (process 42), server 0 (process 7)".
  std::string Missing(const Incarnations& dead) const;

 private:
  bool AllOfNextPromised() const;

  uint64_t term_;
  wire::View present_;
  wire::View next_;
  bool completes_;
  Incarnations promised_;
  Incarnations waived_;
};

}  // namespace byteps::protocol
