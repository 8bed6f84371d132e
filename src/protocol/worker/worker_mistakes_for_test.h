// Deliberate mistakes of a worker, for tests that show that the tests notice them. Each is a rule
// that is wrong in one way. The library has none of them; tests/no_mistakes_test.py checks this.
#pragma once

#include <cstdint>

#include "src/protocol/worker/exchange/front_rules.h"
#include "src/protocol/worker/lane/lane_rules.h"

namespace byteps::protocol {

// The numbers are the numbers in docs/membership.md.
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
  // Mistakes of lanes: a moved piece is answered in its old lane; a lane says that it has repeated
  // everything before it has what others hand over; an operation ends while a lane may still
  // receive into its memory.
  kAnsweredInOldLane,
  kResyncBeforeTakeOver,
  kEndBeforeReleased,
  // Mistakes with tensors that ranks let go of.
  kLetsGoAfterAnError,  // 65
  kUsesWhatItLetGoOf,   // 66
  kCountsOn,            // 67
  kHidesWhatItLetGoOf,  // 68
};

// Returns the rules of a worker that makes this mistake.
const LaneRules& LaneRulesWith(WorkerMistake mistake);
const FrontRules& FrontRulesWith(WorkerMistake mistake);

}  // namespace byteps::protocol
