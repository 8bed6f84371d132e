#include "sim/mistakes.h"

#include <utility>

namespace byteps::sim {
namespace {

using protocol::CoordinatorMistake;
using protocol::MembershipMistake;
using protocol::ShardMistake;
using protocol::WorkerMistake;

using Entry = std::pair<const char*, Mistakes>;

Entry Of(const char* name, ShardMistake mistake) { return {name, {.shard = mistake}}; }
Entry Of(const char* name, WorkerMistake mistake) { return {name, {.worker = mistake}}; }
Entry Of(const char* name, CoordinatorMistake mistake) { return {name, {.coordinator = mistake}}; }
Entry Of(const char* name, MembershipMistake mistake) { return {name, {.membership = mistake}}; }

// Returns the mistakes of the sums themselves.
std::vector<Entry> Plain() {
  return {Of("none", ShardMistake::kNone),
          Of("order-of-arrival", ShardMistake::kCombineInOrderOfArrival),
          Of("left-to-right", ShardMistake::kCombineFromLeftToRight),
          Of("leave-one-out", ShardMistake::kLeaveOneOut),
          Of("answer-early", ShardMistake::kAnswerBeforeTheLast),
          Of("answer-twice", ShardMistake::kAnswerTwice),
          Of("forget-one", ShardMistake::kForgetToAnswerOne),
          Of("never-ask", ShardMistake::kNeverAsk)};
}

std::vector<Entry> OfFaults() {
  return {Of("hand-over-without-keeping", WorkerMistake::kHandOverWithoutKeeping),
          Of("no-verdict-of-previous-round", WorkerMistake::kNoVerdictOfThePreviousRound),
          Of("no-verdict-of-present-round", WorkerMistake::kNoVerdictOfThePresentRound),
          Of("accept-from-former-owner", WorkerMistake::kAcceptFromAFormerOwner),
          Of("worker-ignores-since", WorkerMistake::kIgnoreSince),
          Of("shard-ignores-since", ShardMistake::kIgnoreSince),
          Of("decide-before-all-pushed", ShardMistake::kDecideBeforeAllPushed),
          Of("no-fence", ShardMistake::kNoFence),
          Of("judge-by-old-view", ShardMistake::kJudgeByTheOldView),
          Of("no-verdict-after-reconnect", WorkerMistake::kNoVerdictAfterReconnect),
          Of("no-answer-to-repeat", ShardMistake::kNoAnswerToARepeat),
          Of("verdict-is-contribution", ShardMistake::kVerdictIsAContribution),
          Of("verdict-drops-next-round", ShardMistake::kVerdictDropsNextRound),
          Of("admit-without-sync", CoordinatorMistake::kAdmitWithoutSync),
          Of("leave-with-unstable", WorkerMistake::kLeaveWithAnUnstableVerdict),
          Of("error-without-resync", ShardMistake::kErrorWithoutResync),
          Of("error-before-stable", ShardMistake::kErrorBeforeStable),
          Of("no-have-after-reconnect", WorkerMistake::kNoHaveAfterReconnect),
          Of("repeats-wait-for-credit", WorkerMistake::kRepeatsWaitForCredit),
          Of("answered-in-old-lane", WorkerMistake::kAnsweredInOldLane),
          Of("resync-before-take-over", WorkerMistake::kResyncBeforeTakeOver),
          Of("ignore-promised", CoordinatorMistake::kIgnorePromised),
          Of("discount-dead-in-reading", CoordinatorMistake::kDiscountDeadInReading),
          Of("no-quorum", CoordinatorMistake::kNoQuorum),
          Of("read-once", CoordinatorMistake::kReadOnce),
          Of("discount-despite-strict", CoordinatorMistake::kDiscountDespiteStrict),
          Of("count-own-standstill", CoordinatorMistake::kCountOwnStandstill),
          Of("divisor-counts-contributors", ShardMistake::kDivisorCountsContributors),
          Of("any-process-votes", CoordinatorMistake::kAnyProcessVotes),
          Of("contributor-outlives-process", CoordinatorMistake::kContributorOutlivesProcess),
          Of("reborn-takes-place", CoordinatorMistake::kRebornTakesPlace),
          Of("siblings-are-company", CoordinatorMistake::kSiblingsAreCompany),
          Of("let-go-after-error", WorkerMistake::kLetsGoAfterAnError),
          Of("use-what-is-let-go-of", WorkerMistake::kUsesWhatItLetGoOf),
          Of("count-on", WorkerMistake::kCountsOn),
          Of("hide-what-is-let-go-of", WorkerMistake::kHidesWhatItLetGoOf),
          Of("forget-what-one-holds", CoordinatorMistake::kForgetsWhatOneHolds),
          Of("act-on-propose", MembershipMistake::kActOnPropose),
          Of("obey-lower-term", MembershipMistake::kObeyLowerTerm)};
}

}  // namespace

Mistakes MistakeNamed(const std::string& name) {
  for (const auto& entries : {Plain(), OfFaults()}) {
    for (const auto& [known, mistakes] : entries) {
      if (name == known) return mistakes;
    }
  }
  return {};
}

std::vector<std::string> FaultMistakeNames() {
  std::vector<std::string> names;
  for (const auto& [name, mistakes] : OfFaults()) names.emplace_back(name);
  return names;
}

std::vector<std::string> MistakeNames() {
  std::vector<std::string> names;
  for (const auto& [name, mistakes] : Plain()) names.emplace_back(name);
  for (const std::string& name : FaultMistakeNames()) names.push_back(name);
  return names;
}

}  // namespace byteps::sim
