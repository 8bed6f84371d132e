// Asks for missing contributions. A piece that some members have pushed may wait for credit that
// other members spend on other pieces. A want names the piece, and a named piece passes the credit.
// So ranks that push in different orders do not wait for each other for ever.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "src/base/ring_queue.h"
#include "src/base/time.h"
#include "src/protocol/shard/shard_driver.h"
#include "src/protocol/shard/state/shard_facts.h"

namespace byteps::protocol {

// One thread at a time; steady state allocates nothing.
class Wants {
 public:
  struct Times {
    Duration after;        // time that a round waits before the shard asks for it
    Duration again_after;  // time until it asks again: a want may have met no connection
  };
  // All arguments must outlive this object.
  Wants(const Times& times, ShardFacts& facts, ShardDriver& driver)
      : times_(times), facts_(facts), driver_(driver) {}

  // Notes that a round was opened.
  void Add(const wire::PieceRef& ref) { waiting_.push_back({ref, facts_.now}); }
  // Forgets the rounds at the front that have ended, because a round has ended.
  void ForgetEnded();
  // Forgets everything, because a generation begins.
  void Clear();

  // Returns when Tick has something to do next.
  std::optional<Time> NextTick();
  // Asks for the pieces that are due.
  void Tick(Time now);

 private:
  using Waiting = RingQueue<std::pair<wire::PieceRef, Time>>;
  void ForgetEnded(Waiting& waiting);
  void Collect(Waiting& waiting, Duration after, Time now);

  const Times times_;
  ShardFacts& facts_;
  ShardDriver& driver_;
  // The rounds that were not asked for yet, by age, and the rounds that were, by the time of
  // asking. Some may have ended.
  Waiting waiting_;
  Waiting asked_;
  std::vector<std::vector<wire::PieceRef>> wanted_;  // scratch memory of Tick, by slot
};

}  // namespace byteps::protocol
