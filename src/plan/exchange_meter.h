// What a lane exchanges with each shard while its credit is used up: then the links set the pace.
// While the program sets the pace nothing is measured, so that a link that has little to do is not
// taken for a slow one.
//
// A shard is busy while a piece is between push and answer at it. Of a shard on a slow link that is
// all the time: its bytes over the time are what the link carries. Of one that others hold up it is
// a part of the time, and its link could carry more.
//
// A burst is what is exchanged from the first answer for which the credit was used up until nothing
// is under way: a step, for most programs. Its last part, in which all wait for the shard that is
// the latest, is in no other number.
//
// Time gets on with answers only. Pure: time is an argument. One owner, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/time.h"
#include "src/base/types.h"

namespace byteps::plan {

class ExchangeMeter {
 public:
  struct Shard {
    uint64_t bytes = 0;
    Duration busy{};
  };
  struct Sample {
    std::vector<Shard> shards;  // by ShardId
    Duration active{};
    // Of the bursts that came to their end.
    uint64_t burst_bytes = 0;
    Duration bursts{};
  };

  // A sample is this long at least.
  explicit ExchangeMeter(Duration length = milliseconds(100)) : length_(length) {}

  // Forgets everything: a generation with so many shards begins. Of other shards nothing is
  // measured.
  void Begin(size_t shards);
  // Another view is in force: what was measured before says nothing of it. The next burst begins
  // when nothing of before is under way.
  void Restart();
  // What was pushed to this shard is not answered any more.
  void Drop(ShardId shard);
  void OnPush(ShardId shard);
  // The answer to one push does not count any more, because the piece has moved.
  void OnMoved(ShardId shard);
  // Nothing is between push and answer.
  void OnIdle();
  // A piece of `bytes` was answered, and `full` says whether others were held back for want of
  // credit just before it. `now` never goes back.
  void OnAnswered(ShardId shard, uint64_t bytes, bool full, Time now);
  // When it is long enough; the next one begins.
  std::optional<Sample> Take();

 private:
  struct Burst {
    Time begin;
    Time end;
    uint64_t bytes = 0;
  };
  void AddToBurst(uint64_t bytes, bool full, Time now);

  Duration length_;
  Sample measured_;
  std::vector<uint32_t> open_;  // by shard: pieces between push and answer
  std::optional<Time> last_;    // answer; unless the credit was not used up then
  std::optional<Burst> burst_;
  bool after_restart_ = true;  // nothing was idle since
};

}  // namespace byteps::plan
