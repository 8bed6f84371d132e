// Measures the bytes that a lane exchanges with each shard while its credit is used up, because
// then the links set the pace. It measures nothing while the program sets the pace, so that a link
// that has little to do does not look like a slow one.
//
// A shard is busy while a piece is between push and answer at it. A shard on a slow link is busy
// all the time, and the link carries its bytes divided by the time. A shard that waits for others
// is busy for a part of the time, and its link could carry more.
//
// A burst is the exchange from the first answer for which the credit was used up until no piece is
// between push and answer: a step, for most programs. No other number includes the last part of a
// burst, in which all wait for the latest shard.
//
// Only answers move the time on. Pure: time is an argument. One owner, one thread.
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
  struct Measurement {
    std::vector<Shard> shards;  // by ShardId
    Duration active{};
    // The bytes and the time of the bursts that ended.
    uint64_t burst_bytes = 0;
    Duration bursts{};
  };

  // A measurement is this long at least.
  explicit ExchangeMeter(Duration length = milliseconds(100)) : length_(length) {}

  // Forgets everything, because a generation with so many shards begins. Ignores other shards from
  // now on.
  void Begin(size_t shards);
  // Drops the measurements, because another view is in force. The next burst begins when no piece
  // from before is between push and answer.
  void Restart();
  // Forgets the pushes to this shard, because it does not answer any more.
  void Drop(ShardId shard);
  void OnPush(ShardId shard);
  // Forgets one push to this shard, because its piece has moved.
  void OnMoved(ShardId shard);
  // Ends the burst: no piece is between push and answer.
  void OnIdle();
  // Counts the answer to a piece of `bytes`. `full` says whether the credit held other pieces back
  // just before it. `now` never goes back.
  void OnAnswered(ShardId shard, uint64_t bytes, bool full, Time now);
  // Returns the measurement if it is long enough, and begins the next one.
  std::optional<Measurement> Take();

 private:
  struct Burst {
    Time begin;
    Time end;
    uint64_t bytes = 0;
  };
  void AddToBurst(uint64_t bytes, bool full, Time now);

  Duration length_;
  Measurement measured_;
  std::vector<uint32_t> open_;  // by shard: pieces between push and answer
  std::optional<Time> last_;    // the last answer, if the credit was used up then
  std::optional<Burst> burst_;
  bool after_restart_ = true;  // OnIdle was not called since Restart
};

}  // namespace byteps::plan
