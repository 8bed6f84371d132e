// A lane's connections to shards, as the protocol knows them: which of them stand, how many answers
// have come over each, which answers are not acknowledged, and which answers are not known to be
// with every member. A new connection resets all this. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/ring_queue.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/wire/frame.h"

namespace byteps::protocol {

class Links {
 public:
  // An answer with a verdict that others may lack.
  struct Unstable {
    uint64_t number = 0;  // number of the answer on its connection
    TensorId tensor = 0;
    uint32_t piece = 0;
    uint64_t round = 0;
  };

  // Begins a generation with `shards` shards. Nothing is connected.
  void Begin(size_t shards);
  size_t size() const { return links_.size(); }

  // OnUp takes a new connection in place of any other.
  void OnUp(ShardId shard);
  void OnDown(ShardId shard);
  bool IsUp(ShardId shard) const { return shard < links_.size() && links_[shard].up; }

  // Notes that an answer with this number has come. Of the latest answers up to this one,
  // `unstable` are not known to be with every member.
  void OnAnswer(ShardId shard, uint64_t number, uint32_t unstable, Time now);
  // Returns the number up to which all answers have come.
  uint64_t Received(ShardId shard) const { return links_[shard].received; }
  // Notes that a message with the returned number, Received(), goes out. No acknowledgement is owed
  // then.
  uint64_t Acknowledge(ShardId shard);
  bool Owes(ShardId shard) const { return links_[shard].owes_since.has_value(); }
  // Returns since when the oldest acknowledgement is owed. Drops entries that are out of date.
  std::optional<Time> OwesSince();
  // Returns the shard to which the oldest acknowledgement is owed. REQUIRES: OwesSince() has a
  // value.
  ShardId OldestDebt() { return owing_.front().first; }

  // Notes that every member has all answers up to this number. News of a later view than `epoch`
  // waits for that view: a piece that the view has moved away from the shard counts as stable
  // there, and its verdict is told to the new owner instead.
  void OnStable(ShardId shard, const wire::Stable& stable, uint64_t epoch);
  // Takes the news that waited for this view.
  void TakePostponed(ShardId shard, uint64_t epoch);
  bool IsStable(ShardId shard, uint64_t number) const { return number <= links_[shard].stable; }
  void Remember(ShardId shard, const Unstable& answer) { links_[shard].unstable.push_back(answer); }
  // Returns the next remembered answer that has become stable.
  std::optional<Unstable> TakeStable(ShardId shard);

 private:
  struct Link {
    bool up = false;
    uint64_t received = 0;
    std::vector<uint64_t> ahead;     // numbers beyond `received`; a heap with the lowest on top
    std::optional<Time> owes_since;  // the time of the first answer that is not acknowledged
    uint64_t stable = 0;
    std::optional<wire::Stable> stable_later;
    RingQueue<Unstable> unstable;
  };
  static void Count(Link& link, uint64_t number);

  std::vector<Link> links_;  // by shard
  RingQueue<std::pair<ShardId, Time>>
      owing_;  // ordered by owes_since; some entries are out of date
};

}  // namespace byteps::protocol
