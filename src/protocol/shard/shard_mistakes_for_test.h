// Deliberate mistakes of a shard, for tests that show that the tests notice them. A mistake is a
// broken rule, or a fault in something that the shard is given: its arithmetic or its driver. The
// library contains none of them; tests/no_mistakes_test.py checks this.
#pragma once

#include <cstdint>
#include <memory>

#include "src/protocol/arithmetic.h"
#include "src/protocol/shard/shard_driver.h"
#include "src/protocol/shard/shard_options.h"

namespace byteps::protocol {

enum class ShardMistake : uint8_t {
  kNone,
  // Mistakes of the sums.
  kCombineInOrderOfArrival,
  kCombineFromLeftToRight,
  kPlacesAreSlots,
  kPlacesArePositionsInTheSet,
  kPlacesAreOfLowestRanks,  // also of ranks that are not in the set
  kLeaveOneOut,
  kDivisorCountsContributors,
  // Mistakes of the answers.
  kAnswerBeforeTheLast,
  kAnswerTwice,
  kForgetToAnswerOne,
  kNeverAsk,
  // Mistakes of the failure protocol, with their numbers in docs/membership.md.
  kIgnoreSince,             // 5
  kDecideBeforeAllPushed,   // 6
  kNoFence,                 // 7
  kJudgeByTheOldView,       // 8
  kNoAnswerToARepeat,       // 10
  kVerdictIsAContribution,  // 11
  kVerdictDropsNextRound,   // 12
  kErrorWithoutResync,      // 15
  kErrorBeforeStable,       // 16
};

// Makes one shard commit the mistake, if the shard gets these instead of its own. It must outlive
// the shard.
class MistakenShard {
 public:
  MistakenShard(ShardMistake mistake, Arithmetic& arithmetic, ShardDriver& driver);
  ~MistakenShard();

  const ShardRules& rules() const { return rules_ != nullptr ? *rules_ : ShardRules::Default(); }
  Arithmetic& arithmetic() { return own_arithmetic_ != nullptr ? *own_arithmetic_ : arithmetic_; }
  ShardDriver& driver() { return own_driver_ != nullptr ? *own_driver_ : driver_; }
  // Returns `options` with the rules of the mistake.
  ShardOptions OptionsFrom(ShardOptions options) const {
    options.rules = &rules();
    return options;
  }

 private:
  Arithmetic& arithmetic_;
  ShardDriver& driver_;
  std::unique_ptr<ShardRules> rules_;
  std::unique_ptr<Arithmetic> own_arithmetic_;
  std::unique_ptr<ShardDriver> own_driver_;
};

}  // namespace byteps::protocol
