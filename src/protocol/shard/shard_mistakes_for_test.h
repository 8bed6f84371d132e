// Deliberate mistakes of a shard, for tests that show that the tests notice them. A mistake is a
// broken rule, or something wrong with what the shard is given: its arithmetic, its driver. The
// library contains none of them; tests/no_mistakes_test.py looks.
#pragma once

#include <cstdint>
#include <memory>

#include "src/protocol/arithmetic.h"
#include "src/protocol/shard/shard_driver.h"
#include "src/protocol/shard/shard_options.h"

namespace byteps::protocol {

enum class ShardMistake : uint8_t {
  kNone,
  // Of the sums.
  kCombineInOrderOfArrival,
  kLeaveOneOut,
  kDivisorCountsContributors,
  // Of the answers.
  kAnswerBeforeTheLast,
  kAnswerTwice,
  kForgetToAnswerOne,
  kNeverAsk,
  // Of the failure protocol; the numbers are those of docs/membership.md.
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

// What makes one shard commit the mistake: give it these instead of its own. It outlives the shard.
class MistakenShard {
 public:
  MistakenShard(ShardMistake mistake, Arithmetic& arithmetic, ShardDriver& driver);
  ~MistakenShard();

  const ShardRules& rules() const { return rules_ != nullptr ? *rules_ : ShardRules::Default(); }
  Arithmetic& arithmetic() { return own_arithmetic_ != nullptr ? *own_arithmetic_ : arithmetic_; }
  ShardDriver& driver() { return own_driver_ != nullptr ? *own_driver_ : driver_; }
  // `options` with the rules of the mistake.
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
