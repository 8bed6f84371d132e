// Deliberate mistakes of a worker, each a rule that is wrong in one way: for tests that show that
// the tests notice them. The library has none of them; tests/no_mistakes_test.py looks.
#pragma once

#include <cstdint>

#include "src/protocol/worker/exchange/front_rules.h"
#include "src/protocol/worker/lane/lane_rules.h"

namespace byteps::protocol {

// The numbers are those of docs/membership.md.
enum class WorkerMistake : uint8_t {
  kNone,
  kHandOverWithoutKeeping,       // 1
  kNoVerdictOfThePreviousRound,  // 2
  kNoVerdictOfThePresentRound,   // 3
  kAcceptFromAFormerOwner,       // 4
  kIgnoreSince,                  // 5
  kNoVerdictAfterReconnect,      // 9
  kLeaveWithAnUnstableVerdict,   // 14
  kNoHaveAfterReconnect,         // 17
  kRepeatsWaitForCredit,         // not in the list: recovery must pass the credit
  // Of lanes: a moved piece is answered in its old lane; a lane says that it has repeated all
  // before it has what others hand over; an operation ends while a lane may still receive into its
  // memory.
  kAnsweredInOldLane,
  kResyncBeforeTakeOver,
  kEndBeforeReleased,
  // Of tensors that are let go of.
  kLetsGoAfterAnError,  // 65
  kUsesWhatItLetGoOf,   // 66
  kCountsOn,            // 67
  kHidesWhatItLetGoOf,  // 68
};

// The rules of a worker that makes this mistake.
const LaneRules& LaneRulesWith(WorkerMistake mistake);
const FrontRules& FrontRulesWith(WorkerMistake mistake);

}  // namespace byteps::protocol
