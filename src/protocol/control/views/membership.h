// A member's side of the views (docs/membership.md, rules 1 to 3): the view in force, the view that
// the member has promised to a coordinator, and the coordinator that it obeys. Each worker and each
// server holds one.
//
// A view comes into force only with COMMIT, or as the `present` of a later proposal. A member
// ignores a coordinator whose term is lower than one that the member has met.
//
// No I/O, no clock, no thread: one driver calls it, from one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "src/protocol/control/views/membership_rules.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class Membership {
 public:
  // The things that a message asks of the driver, in this order: apply `view`, then send `answer`.
  struct Step {
    std::optional<wire::View> view;  // newer than every view before; some may have been skipped
    std::optional<wire::Message> answer;
    bool go_on = false;  // the worker's sync point is over, because NextSync() was answered
  };

  // `self`: the join message of this process. Its role and incarnation find the process in views.
  explicit Membership(const wire::Join& self, const MembershipRules& rules = kMembershipRules);

  // The first message on every connection to a coordinator; a worker sends its Known before it. It
  // is a Join if this process has met no coordinator yet, and otherwise a Report.
  wire::Message Greeting() const;

  // Takes Propose, Commit, Query and GoOn. Nothing happens at other messages.
  Step OnMessage(const wire::Message& message);

  // The message that a worker sends at its next sync point. The worker sends it again to every
  // coordinator until one answers.
  wire::Sync NextSync() const { return {committed_.generation, syncs_ + 1}; }

  // The view in force; epoch 0: there is none.
  const wire::View& view() const { return committed_; }
  // The highest term that this process has met.
  uint64_t term() const { return term_; }
  // Returns whether this process is a member. A worker that has left and stays in the view counts
  // as one.
  bool IsMember() const { return member_; }
  // Returns whether this process was a member and the view in force is without it. Then the process
  // stops, and may come back as a new incarnation. After a Leave this is the way out, and no error.
  bool IsEvicted() const { return was_member_ && !member_; }

 private:
  wire::Report MakeReport() const;
  Step OnPropose(const wire::Propose& propose);
  Step OnCommit(const wire::Commit& commit);
  Step OnGoOn(const wire::GoOn& go_on);
  bool Obeys(uint64_t term) const;
  bool Contains(const wire::View& view) const;
  std::optional<wire::View> Apply(const wire::View& view);

  const wire::Join self_;
  const MembershipRules& rules_;
  uint64_t term_ = 0;
  wire::View committed_;
  uint64_t promised_term_ = 0;
  wire::View promised_;  // epoch 0: nothing is promised beyond `committed_`
  uint32_t syncs_ = 0;   // sync points of the generation that the worker has passed
  bool member_ = false;
  bool was_member_ = false;
};

}  // namespace byteps::protocol
