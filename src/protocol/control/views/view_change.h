// One change of the view: the proposal, who has promised it, and whether it may come into force.
// A value without I/O; the coordinator sends what has to be sent.
#pragma once

#include <cstdint>
#include <string>

#include "src/protocol/control/members/quorum.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class ViewChange {
 public:
  // `completes`: the proposal of an earlier coordinator, which may be in force already. Its new
  // members need not have promised.
  ViewChange(uint64_t term, wire::View present, wire::View next, bool completes);

  wire::Propose Proposal() const { return {term_, present_, next_}; }
  const wire::View& present() const { return present_; }
  const wire::View& next() const { return next_; }

  // From a member of the present or of the next view, by incarnation. Others do not count.
  void OnPromise(uint64_t from, const wire::Promise& promise);
  // A new member has gone away; its promise is not waited for.
  void Waive(uint64_t incarnation) { waived_.insert(incarnation); }

  // `dead`: proven dead, not counted; strict: none. When nobody of the present view has a vote
  // that counts, all members of the next one must have promised.
  bool MayCommit(const Incarnations& dead) const;
  // True when there is no present view whose members could be asked.
  bool StartsFromNothing(const Incarnations& dead) const;

  // Whose promise is missing: "worker 1 (process 42), server 0 (process 7)".
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
