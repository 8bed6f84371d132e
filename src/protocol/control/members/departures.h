// Members of the view in force that are on their way out: lost, or leaving in order. They are
// members until a view without them is in force.
//
// A value without I/O; members are known by incarnation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "src/protocol/control/members/quorum.h"
#include "src/wire/view.h"

namespace byteps::protocol {

class Departures {
 public:
  void Lose(uint64_t who, const std::string& why) { lost_[who] = why; }
  void ProveDead(uint64_t who) { dead_.insert(who); }
  void Leave(uint64_t who) { leaving_.insert(who); }

  bool IsLost(uint64_t who) const { return lost_.contains(who); }
  bool IsLeaving(uint64_t who) const { return leaving_.contains(who); }
  // Returns whether this member is lost or leaves, and nobody needs it. A carrier that leaves is
  // still needed: it carries for the other processes of its contributor until they leave, too.
  bool IsGoing(const wire::View& view, uint64_t who) const;
  bool NobodyGoes() const { return lost_.empty() && leaving_.empty(); }
  // The members whose process end the launcher has seen.
  const Incarnations& dead() const { return dead_; }

  // Counts the ranks that `view` has left when the members on their way out are gone, and the
  // members in `without` as well.
  uint32_t RanksLeftOver(const wire::View& view, const Incarnations& without) const;
  // The lost members, each with the reason.
  const std::map<uint64_t, std::string>& lost() const { return lost_; }

  // Forgets the members for which `stale` is true, because they do not matter in the view that is
  // in force now.
  void ForgetIf(const std::function<bool(uint64_t)>& stale);

 private:
  std::map<uint64_t, std::string> lost_;  // member and reason
  Incarnations dead_;
  Incarnations leaving_;
};

}  // namespace byteps::protocol
