// A member's side of the views (docs/membership.md, rules 1 to 3): which view is in force, which
// one was promised to whom, and which coordinator is obeyed. Workers and servers hold one each.
//
// A view comes into force with COMMIT only, or as the `present` of a later proposal. A coordinator
// with a lower term than one that was met before is ignored.
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
  // What a message asks of the driver, in this order: apply `view`, then send `answer`.
  struct Step {
    std::optional<wire::View> view;  // newer than every one before; may have skipped some
    std::optional<wire::Message> answer;
    bool go_on = false;  // the worker's sync point is over: NextSync() was answered
  };

  // `self` is what this process joins with; its role and incarnation find it in views.
  explicit Membership(const wire::Join& self, const MembershipRules& rules = kMembershipRules);

  // The first message on every connection to a coordinator (a worker sends its Known before it):
  // Join from a process that has met no coordinator yet, else a Report.
  wire::Message Greeting() const;

  // Propose, Commit, Query and GoOn; nothing happens at other messages.
  Step OnMessage(const wire::Message& message);

  // What a worker says at the next sync point, and again to every coordinator until it is answered.
  wire::Sync NextSync() const { return {committed_.generation, syncs_ + 1}; }

  // The view in force; epoch 0 when there is none.
  const wire::View& view() const { return committed_; }
  // The highest term that was met.
  uint64_t term() const { return term_; }
  // A worker that has left and stays in the view counts as a member.
  bool IsMember() const { return member_; }
  // It was a member and the view in force is without it: it stops, and may come back as a new
  // incarnation. After a Leave this is the way out, and no error.
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
  wire::View promised_;  // epoch 0: nothing beyond `committed_`
  uint32_t syncs_ = 0;   // sync points of the generation that are behind it
  bool member_ = false;
  bool was_member_ = false;
};

}  // namespace byteps::protocol
