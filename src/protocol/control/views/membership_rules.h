// Decisions of a member about views that would do harm if they were made in another way; see
// coordinator_rules.h. The numbers are those of docs/membership.md.
#pragma once

#include <cstdint>

namespace byteps::protocol {

class MembershipRules {
 public:
  virtual ~MembershipRules() = default;

  // Rule 2: a proposed view is not in force.
  virtual bool ActsOnProposal() const { return false; }
  // Rule 3: members obey the highest term that they have met.
  virtual bool Obeys(uint64_t term, uint64_t highest) const { return term >= highest; }
};

// The rules of production. They have no state.
inline const MembershipRules kMembershipRules;

}  // namespace byteps::protocol
