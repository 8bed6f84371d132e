#include "src/protocol/worker/lane/links.h"

#include <algorithm>
#include <functional>

namespace byteps::protocol {
namespace {

// The most answers that may overtake an answer. More of them are a server's mistake.
constexpr size_t kAheadMax = size_t{1} << 20;

}  // namespace

void Links::Begin(size_t shards) {
  links_ = std::vector<Link>(shards);
  while (!owing_.empty()) owing_.pop_front();
}

void Links::OnUp(ShardId shard) {
  links_[shard] = Link();
  links_[shard].up = true;
}

void Links::OnDown(ShardId shard) { links_[shard] = Link(); }

// Urgent answers overtake others, so numbers may arrive out of order. The lane acknowledges the
// prefix without a gap.
void Links::Count(Link& link, uint64_t number) {
  if (number == link.received + 1) {
    ++link.received;
    std::vector<uint64_t>& ahead = link.ahead;
    while (!ahead.empty() && ahead.front() <= link.received + 1) {
      link.received = std::max(link.received, ahead.front());
      std::pop_heap(ahead.begin(), ahead.end(), std::greater<>());
      ahead.pop_back();
    }
  } else if (number > link.received && link.ahead.size() < kAheadMax) {
    link.ahead.push_back(number);
    std::push_heap(link.ahead.begin(), link.ahead.end(), std::greater<>());
  }
}

void Links::OnAnswer(ShardId shard, uint64_t number, uint32_t unstable, Time now) {
  Link& link = links_[shard];
  Count(link, number);
  if (!link.owes_since.has_value()) {
    link.owes_since = now;
    owing_.push_back({shard, now});
  }
  link.stable = std::max(link.stable, number - std::min<uint64_t>(number, unstable));
}

uint64_t Links::Acknowledge(ShardId shard) {
  links_[shard].owes_since.reset();
  return links_[shard].received;
}

std::optional<Time> Links::OwesSince() {
  while (!owing_.empty() && links_[owing_.front().first].owes_since != owing_.front().second) {
    owing_.pop_front();
  }
  if (owing_.empty()) return std::nullopt;
  return owing_.front().second;
}

void Links::OnStable(ShardId shard, const wire::Stable& stable, uint64_t epoch) {
  Link& link = links_[shard];
  if (stable.epoch > epoch) {
    link.stable_later = stable;
  } else {
    link.stable = std::max(link.stable, stable.count);
  }
}

void Links::TakePostponed(ShardId shard, uint64_t epoch) {
  std::optional<wire::Stable> later = std::exchange(links_[shard].stable_later, std::nullopt);
  if (later.has_value()) OnStable(shard, *later, epoch);
}

std::optional<Links::Unstable> Links::TakeStable(ShardId shard) {
  Link& link = links_[shard];
  if (link.unstable.empty() || link.unstable.front().number > link.stable) return std::nullopt;
  Unstable answer = link.unstable.front();
  link.unstable.pop_front();
  return answer;
}

}  // namespace byteps::protocol
