// Deliberate mistakes of the coordinator, for tests that show that the checks find them. Each
// mistake breaks a rule of docs/membership.md, because it replaces one decision of
// coordinator_rules.h. The library has nothing of this.
#pragma once

#include <cstdint>

#include "src/protocol/control/views/coordinator_rules.h"

namespace byteps::protocol {

enum class CoordinatorMistake : uint8_t {
  kNone = 0,
  kAdmitWithoutSync,       // a worker joins although not everybody has reached a sync point
  kBeginBeside,            // takes a member that tells of a running job for a newcomer
  kIgnorePromised,         // restarted: does not complete a proposal that was promised
  kDiscountDeadInReading,  // restarted: half of the members that are not dead is enough to read
  kNoQuorum,               // commits without waiting for promises
  kReadOnce,               // restarted: does not read again for the view that it has completed
  kDiscountDespiteStrict,  // does not count the dead although two coordinators may live
  kCountOwnStandstill,     // holds the time in which it was stopped against the others
  kAnyProcessVotes,        // takes the promise of any process for that of its contributor
  kContributorOutlivesProcess,  // a contributor goes on without a process that is lost
  kRebornTakesPlace,            // also, a new process takes the place of the lost one in it
  kForgetsWhatOneHolds,         // a tensor is forgotten while one rank still uses it
  kSiblingsAreCompany,  // counts the processes of one contributor one by one when they go together
};

class AdmitsWithoutSync final : public CoordinatorRules {
  bool MayAdmit(bool) const override { return true; }
};

class BeginsBeside final : public CoordinatorRules {
  bool GoesOnWithWhatRuns() const override { return false; }
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

class LetsAnyProcessVote final : public CoordinatorRules {
  uint64_t VoterFor(const wire::View& present, uint64_t process) const override {
    for (const Voter& voter : VotersOf(present)) {
      if (ContributorOf(present, voter.incarnation).contains(process)) return voter.incarnation;
    }
    return process;
  }
  bool MayRead(const wire::View& latest, const Incarnations& reported,
               const Incarnations&) const override {
    Incarnations voters;
    for (uint64_t process : reported) voters.insert(VoterFor(latest, process));
    return IsReadQuorum(latest, voters);
  }
};

class LetsContributorOutliveProcess : public CoordinatorRules {
  Incarnations LostWith(const wire::View&, uint64_t process) const override { return {process}; }
};

class LetsRebornTakePlace final : public LetsContributorOutliveProcess {
  const Member* Heir(const wire::WorkerInfo& lost, const Roster& roster) const override {
    for (const auto& [id, member] : roster.all()) {
      bool waits = member.role() == Role::kWorker && member.presence == Presence::kWaiting;
      bool sibling = !member.join.contributor.empty() && member.join.host == lost.host &&
                     member.join.local_rank == lost.local_rank;
      if (waits && sibling) return &member;
    }
    return nullptr;
  }
};

class ForgetsWhatOneHolds final : public CoordinatorRules {
  bool MayForget(const RankSet& holders) const override { return holders.count() <= 1; }
};

class TakesSiblingsForCompany final : public CoordinatorRules {
  uint64_t CompanyOf(const wire::View&, uint64_t member) const override { return member; }
};

// Returns the rules with this one mistake, and no other.
inline const CoordinatorRules& RulesWith(CoordinatorMistake mistake) {
  static const AdmitsWithoutSync admits_without_sync;
  static const BeginsBeside begins_beside;
  static const IgnoresPromised ignores_promised;
  static const DiscountsDeadInReading discounts_dead_in_reading;
  static const NeedsNoQuorum needs_no_quorum;
  static const ReadsOnce reads_once;
  static const DiscountsDespiteStrict discounts_despite_strict;
  static const CountsOwnStandstill counts_own_standstill;
  static const LetsAnyProcessVote lets_any_process_vote;
  static const LetsContributorOutliveProcess lets_contributor_outlive_process;
  static const LetsRebornTakePlace lets_reborn_take_place;
  static const ForgetsWhatOneHolds forgets_what_one_holds;
  static const TakesSiblingsForCompany takes_siblings_for_company;
  switch (mistake) {
    case CoordinatorMistake::kNone: break;
    case CoordinatorMistake::kAdmitWithoutSync: return admits_without_sync;
    case CoordinatorMistake::kBeginBeside: return begins_beside;
    case CoordinatorMistake::kIgnorePromised: return ignores_promised;
    case CoordinatorMistake::kDiscountDeadInReading: return discounts_dead_in_reading;
    case CoordinatorMistake::kNoQuorum: return needs_no_quorum;
    case CoordinatorMistake::kReadOnce: return reads_once;
    case CoordinatorMistake::kDiscountDespiteStrict: return discounts_despite_strict;
    case CoordinatorMistake::kCountOwnStandstill: return counts_own_standstill;
    case CoordinatorMistake::kAnyProcessVotes: return lets_any_process_vote;
    case CoordinatorMistake::kContributorOutlivesProcess: return lets_contributor_outlive_process;
    case CoordinatorMistake::kRebornTakesPlace: return lets_reborn_take_place;
    case CoordinatorMistake::kForgetsWhatOneHolds: return forgets_what_one_holds;
    case CoordinatorMistake::kSiblingsAreCompany: return takes_siblings_for_company;
  }
  return kCoordinatorRules;
}

}  // namespace byteps::protocol
