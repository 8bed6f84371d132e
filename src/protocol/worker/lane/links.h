// A lane's connections to shards, as far as the protocol knows them: which of them stand, how many
// answers have come over each, what is still to be acknowledged, and of which answers it is not
// known yet that every member has them. Reset with each connection. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/ring.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/wire/data.h"

namespace byteps::protocol {

class Links {
 public:
  // An answer whose verdict others may lack.
  struct Unstable {
    uint64_t number = 0;  // of the answer on its connection
    TensorId tensor = 0;
    uint32_t piece = 0;
    uint64_t round = 0;
  };

  // A generation with so many shards begins; nothing is connected.
  void Begin(size_t shards);
  size_t size() const { return links_.size(); }

  // OnUp: a new connection takes the place of any other.
  void OnUp(ShardId shard);
  void OnDown(ShardId shard);
  bool IsUp(ShardId shard) const { return shard < links_.size() && links_[shard].up; }

  // An answer with this number has come; `unstable` of the latest ones, itself included, are not
  // known to be with every member.
  void OnAnswer(ShardId shard, uint64_t number, uint32_t unstable, Time now);
  // All answers up to this number have come.
  uint64_t Received(ShardId shard) const { return links_[shard].received; }
  // A message that carries Received() goes out: nothing is owed.
  uint64_t Acknowledge(ShardId shard);
  bool Owes(ShardId shard) const { return links_[shard].owes_since.has_value(); }
  // Since when the oldest acknowledgement is owed; drops what is out of date.
  std::optional<Time> OwesSince();
  // The shard to which it is. REQUIRES: OwesSince() has a value.
  ShardId OldestDebt() { return owing_.front().first; }

  // All answers up to this number are with every member. News of a later view than `epoch` waits
  // for it: what that view has moved away from the shard counts as stable there, and is told to the
  // new owner instead.
  void OnStable(ShardId shard, const wire::Progress& stable, uint64_t epoch);
  // This view is here.
  void TakePostponed(ShardId shard, uint64_t epoch);
  bool IsStable(ShardId shard, uint64_t number) const { return number <= links_[shard].stable; }
  void Remember(ShardId shard, const Unstable& answer) { links_[shard].unstable.push_back(answer); }
  // The next remembered answer that has become stable.
  std::optional<Unstable> TakeStable(ShardId shard);

 private:
  struct Link {
    bool up = false;
    uint64_t received = 0;
    std::vector<uint64_t> ahead;     // numbers beyond it: heap, lowest on top
    std::optional<Time> owes_since;  // an answer has not been acknowledged since
    uint64_t stable = 0;
    std::optional<wire::Progress> stable_later;
    Ring<Unstable> unstable;
  };
  static void Count(Link& link, uint64_t number);

  std::vector<Link> links_;               // by shard
  Ring<std::pair<ShardId, Time>> owing_;  // by owes_since; some entries are out of date
};

}  // namespace byteps::protocol
