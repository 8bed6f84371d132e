// Deliberate mistakes of a member, for tests that show that the checks find them. Each mistake
// breaks a rule of docs/membership.md, because it replaces one decision of membership_rules.h. The
// library has nothing of this.
#pragma once

#include <cstdint>

#include "src/protocol/control/views/membership_rules.h"

namespace byteps::protocol {

enum class MembershipMistake : uint8_t {
  kNone = 0,
  kActOnPropose,   // takes a proposed view for a view in force
  kObeyLowerTerm,  // obeys a coordinator that has been superseded
};

class ActsOnPropose final : public MembershipRules {
  bool ActsOnProposal() const override { return true; }
};

class ObeysLowerTerm final : public MembershipRules {
  bool Obeys(uint64_t, uint64_t) const override { return true; }
};

inline const MembershipRules& RulesWith(MembershipMistake mistake) {
  static const ActsOnPropose acts_on_propose;
  static const ObeysLowerTerm obeys_lower_term;
  switch (mistake) {
    case MembershipMistake::kNone: break;
    case MembershipMistake::kActOnPropose: return acts_on_propose;
    case MembershipMistake::kObeyLowerTerm: return obeys_lower_term;
  }
  return kMembershipRules;
}

}  // namespace byteps::protocol
