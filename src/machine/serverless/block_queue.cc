#include "src/machine/serverless/block_queue.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace byteps::machine {
namespace {

// Returns the ranks that fill a part. For a piece without bytes one rank is enough: the lowest,
// which is mostly the carrier, and the carrier is awake.
RankSet BringOf(const LocalFacts& facts, RankSet ranks, uint32_t last) {
  if (facts.how == Combine::kLast) return Bit(last);
  if (facts.root != kNoRank) return Bit(facts.root);
  bool empty = facts.pieces.size() == 1 && facts.pieces[0].bytes == 0;
  return empty ? Bit(static_cast<uint32_t>(std::countr_zero(ranks))) : ranks;
}

}  // namespace

local::BlockUse UseFor(const RoundKey& key, const LocalFacts& facts, RankSet ranks, uint32_t last,
                       size_t bytes) {
  local::BlockUse use;
  use.ranks = ranks;
  use.bring = BringOf(facts, ranks, last);
  use.bytes = bytes;
  bool moves = MovesBytes(facts.how) || use.bytes == 0;
  use.type = moves ? DataType::kUint8 : facts.type;
  use.how = moves ? Combine::kOverlay : facts.how;
  // Ranks that have joined count, as they do for the shards of a job with servers.
  use.divisor = static_cast<uint32_t>(std::popcount(facts.ranks));
  use.tensor = key.tensor;
  use.round = key.use;
  use.generation = key.first_piece;
  return use;
}

void BlockQueue::Add(const RoundKey& key, const CompleteRound& round) {
  Pieces pieces;
  pieces.facts = round.facts;
  pieces.ranks = round.ranks;
  pieces.last = round.last;
  pieces.number = key.first_piece;
  const Urgency urgency{-int64_t{round.facts.priority}, round.facts.order, key};
  queue_.emplace(urgency, std::move(pieces));
}

local::BlockUse BlockQueue::UseOf(const RoundKey& key, const Pieces& pieces) {
  const size_t bytes = pieces.facts.pieces[pieces.run].bytes;
  local::BlockUse use = UseFor(key, pieces.facts, pieces.ranks, pieces.last, bytes);
  use.piece = pieces.number;
  return use;
}

bool BlockQueue::Admit() {
  DropOver();
  bool gave = false;
  std::vector<RankSet> stuck;  // sets of ranks that can have no block now
  for (auto next = queue_.begin(); next != queue_.end();) {
    auto one = next++;
    Pieces& pieces = one->second;
    if (std::ranges::find(stuck, pieces.ranks) != stuck.end()) continue;
    gave = AdmitFrom(one->first.key, pieces) || gave;
    if (pieces.HasMore()) {
      stuck.push_back(pieces.ranks);
    } else {
      queue_.erase(one);
    }
  }
  return gave;
}

bool BlockQueue::AdmitFrom(const RoundKey& key, Pieces& pieces) {
  bool gave = false;
  while (pieces.HasMore()) {
    std::optional<local::AdmittedUse> at = window_.Admit(UseOf(key, pieces));
    if (!at.has_value()) return gave;
    gave = true;
    given_.push_back({*at, key});
    ++pieces.number;
    if (++pieces.run_done < pieces.facts.pieces[pieces.run].count) continue;
    ++pieces.run;
    pieces.run_done = 0;
  }
  return gave;
}

bool BlockQueue::BreakOff(const RoundKey& key) {
  auto waits = std::ranges::find_if(queue_, [&](const auto& one) { return one.first.key == key; });
  if (waits != queue_.end()) {
    queue_.erase(waits);
    return true;
  }
  bool broken = false;
  for (const Given& given : given_) {
    if (given.key != key || !window_.IsOurs(given.at)) continue;
    broken = window_.Withdraw(given.at) || broken;
  }
  return broken;
}

void BlockQueue::DropOver() {
  std::erase_if(given_, [&](const Given& given) {
    if (!window_.IsOver(given.at)) return false;
    over_.push_back(given.key);
    return true;
  });
}

std::vector<RoundKey> BlockQueue::TakeOver() {
  std::vector<RoundKey> all = std::exchange(over_, {});
  std::erase_if(all, [&](const RoundKey& key) {
    return std::ranges::any_of(given_, [&](const Given& one) { return one.key == key; }) ||
           std::ranges::any_of(queue_, [&](const auto& one) { return one.first.key == key; });
  });
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

}  // namespace byteps::machine
