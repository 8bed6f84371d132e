#include "src/machine/serverless/block_queue.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/machine/room/group_uses.h"

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

void BlockQueue::Add(const RoundKey& key, const CompleteRound& round, bool by_group) {
  Pieces pieces;
  pieces.facts = round.facts;
  pieces.ranks = round.ranks;
  pieces.last = round.last;
  pieces.number = key.first_piece;
  pieces.by_group = by_group;
  const LocalFacts& facts = round.facts;
  if (by_group) {
    // A group without homes divides by itself; else the window does.
    const bool at_once = units_->SumsAtOnce();
    GroupRound units{
        facts.priority, facts.order, facts.type, at_once ? facts.how : InGroup(facts.how), {}};
    for (const LocalFacts::Run& run : facts.pieces) units.pieces.push_back({run.count, run.bytes});
    units_->Open(key, units);
    if (at_once) pieces.run = facts.pieces.size();
  }
  const Urgency urgency{-int64_t{facts.priority}, facts.order, key};
  queue_.emplace(urgency, std::move(pieces));
}

local::BlockUse BlockQueue::UseOf(const RoundKey& key, const Pieces& pieces) {
  const size_t bytes = pieces.facts.pieces[pieces.run].bytes;
  local::BlockUse use = UseFor(key, pieces.facts, pieces.ranks, pieces.last, bytes);
  use.piece = pieces.number;
  return use;
}

local::BlockUse BlockQueue::UseByGroup(const RoundKey& key, const Pieces& pieces) const {
  if (pieces.HasPieces()) {
    local::BlockUse use = UseOf(key, pieces);
    use.ranks = use.bring = units_->HomesOf(key, pieces.number);
    use.generation |= kByGroup;
    return use;
  }
  local::BlockUse use = UseFor(key, pieces.facts, pieces.ranks, pieces.last, 0);
  use.bring = use.ranks;
  use.piece = key.first_piece;
  use.generation |= kByGroup | kDecides;
  return use;
}

bool BlockQueue::MustWait(const RoundKey& key, const Pieces& pieces) const {
  if (!pieces.by_group) return false;
  return pieces.HasPieces() ? !units_->IsReduced(key, pieces.number) : !units_->IsWhole(key);
}

bool BlockQueue::Admit() {
  DropOver();
  bool gave = false;
  std::vector<RankSet> stuck;  // sets of ranks that can have no block now
  for (auto next = queue_.begin(); next != queue_.end();) {
    auto one = next++;
    Pieces& pieces = one->second;
    gave = AdmitFrom(one->first.key, pieces, stuck) || gave;
    if (!pieces.is_over) continue;
    if (pieces.by_group) units_->Close(one->first.key);
    queue_.erase(one);
  }
  return gave;
}

bool BlockQueue::AdmitFrom(const RoundKey& key, Pieces& pieces, std::vector<RankSet>& stuck) {
  bool gave = false;
  while (!pieces.is_over && !MustWait(key, pieces)) {
    const local::BlockUse use = pieces.by_group ? UseByGroup(key, pieces) : UseOf(key, pieces);
    if (std::ranges::find(stuck, use.ranks) != stuck.end()) break;
    std::optional<local::AdmittedUse> at = window_.Admit(use);
    if (!at.has_value()) {
      stuck.push_back(use.ranks);
      break;
    }
    gave = true;
    given_.push_back({*at, key});
    GoOn(pieces);
  }
  return gave;
}

// Goes to the next piece. Behind the last one there is the end of a round that groups sum.
void BlockQueue::GoOn(Pieces& pieces) {
  const bool was_end = !pieces.HasPieces();
  if (!was_end) {
    ++pieces.number;
    if (++pieces.run_done == pieces.facts.pieces[pieces.run].count) {
      ++pieces.run;
      pieces.run_done = 0;
    }
  }
  pieces.is_over = was_end || (!pieces.by_group && !pieces.HasPieces());
}

bool BlockQueue::BreakOff(const RoundKey& key) {
  auto waits = std::ranges::find_if(queue_, [&](const auto& one) { return one.first.key == key; });
  if (waits != queue_.end()) {
    if (waits->second.by_group) units_->Close(key);
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

std::vector<std::pair<RankSet, UnitLaunch>> BlockQueue::TakeLaunches() {
  if (!units_.has_value()) return {};
  return units_->TakeLaunches();
}

void BlockQueue::OnLaunchEnd() { units_->OnLaunchEnd(); }

void BlockQueue::StopLaunches() {
  if (units_.has_value()) units_->Stop();
}

std::vector<RoundKey> BlockQueue::RoundsOfGroups() const {
  std::vector<RoundKey> all;
  for (const auto& [urgency, pieces] : queue_) {
    if (pieces.by_group) all.push_back(urgency.key);
  }
  return all;
}

void BlockQueue::DropOver() {
  std::erase_if(given_, [&](const Given& given) {
    if (!window_.IsOver(given.at)) return false;
    over_.push_back(given.key);
    // Behind an error the homes have no sum, and the round ends in an error.
    const local::BlockUse& use = given.at.use;
    if (IsByGroup(use) && !Decides(use)) units_->OnSpread(given.key, use.piece);
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
