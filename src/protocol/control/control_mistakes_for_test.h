// Deliberate mistakes in the control plane, for tests that show that the checks find them. Each one
// breaks a rule of docs/membership.md by replacing one decision of coordinator_rules.h or
// membership_rules.h. Nothing of this is in the library.
#pragma once

#include <cstdint>

#include "src/protocol/control/coordinator_rules.h"
#include "src/protocol/control/membership_rules.h"

namespace byteps::protocol {

enum class CoordinatorMistake : uint8_t {
  kNone = 0,
  kAdmitWithoutSync,       // a worker joins although not everybody has reached a sync point
  kIgnorePromised,         // restarted: does not complete a proposal that was promised
  kDiscountDeadInReading,  // restarted: half of those that are not dead is enough to read
  kNoQuorum,               // commits without waiting for promises
  kReadOnce,               // restarted: does not read again for the view that it has completed
  kDiscountDespiteStrict,  // does not count the dead although two coordinators may live
  kCountOwnStandstill,     // holds time in which it was stopped against the others
};

enum class MembershipMistake : uint8_t {
  kNone = 0,
  kActOnPropose,   // takes a proposed view for one that is in force
  kObeyLowerTerm,  // does what a coordinator says that has been superseded
};

class AdmitsWithoutSync final : public CoordinatorRules {
  bool MayAdmit(bool) const override { return true; }
};

class IgnoresPromised final : public CoordinatorRules {
  bool CompletesPromised(const wire::View& latest) const override { return latest.epoch == 0; }
};

class DiscountsDeadInReading final : public CoordinatorRules {
  bool MayRead(const wire::View& latest, const Incarnations& reported,
               const Incarnations& dead) const override {
    return IsReadQuorum(latest, reported) || IsWriteQuorum(latest, reported, dead);
  }
};

class NeedsNoQuorum final : public CoordinatorRules {
  bool MayCommit(const ViewChange&, const Incarnations&) const override { return true; }
};

class ReadsOnce final : public CoordinatorRules {
  bool ReadsAgain() const override { return false; }
};

class DiscountsDespiteStrict final : public CoordinatorRules {
  Incarnations Discounted(const Incarnations& dead, bool) const override { return dead; }
};

class CountsOwnStandstill final : public CoordinatorRules {
  Duration ListeningStep(Duration) const override { return seconds(3600); }
};

class ActsOnPropose final : public MembershipRules {
  bool ActsOnProposal() const override { return true; }
};

class ObeysLowerTerm final : public MembershipRules {
  bool Obeys(uint64_t, uint64_t) const override { return true; }
};

// Rules with this one mistake, and no other.
inline const CoordinatorRules& RulesWith(CoordinatorMistake mistake) {
  static const AdmitsWithoutSync admits_without_sync;
  static const IgnoresPromised ignores_promised;
  static const DiscountsDeadInReading discounts_dead_in_reading;
  static const NeedsNoQuorum needs_no_quorum;
  static const ReadsOnce reads_once;
  static const DiscountsDespiteStrict discounts_despite_strict;
  static const CountsOwnStandstill counts_own_standstill;
  switch (mistake) {
    case CoordinatorMistake::kNone: break;
    case CoordinatorMistake::kAdmitWithoutSync: return admits_without_sync;
    case CoordinatorMistake::kIgnorePromised: return ignores_promised;
    case CoordinatorMistake::kDiscountDeadInReading: return discounts_dead_in_reading;
    case CoordinatorMistake::kNoQuorum: return needs_no_quorum;
    case CoordinatorMistake::kReadOnce: return reads_once;
    case CoordinatorMistake::kDiscountDespiteStrict: return discounts_despite_strict;
    case CoordinatorMistake::kCountOwnStandstill: return counts_own_standstill;
  }
  return kCoordinatorRules;
}

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
