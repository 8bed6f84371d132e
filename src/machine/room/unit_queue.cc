#include "src/machine/room/unit_queue.h"

#include <algorithm>

namespace byteps::machine {

using Kind = device::Launch::Kind;

void UnitQueue::Open(const RoundKey& key, const GroupRound& round) {
  Round open{round, key.first_piece, {}, 0, 0};
  uint32_t number = key.first_piece;
  for (const GroupRound::Run& run : round.pieces) {
    for (uint32_t i = 0; i < run.count; ++i, ++number) {
      if (open.units.empty() || open.units.back().bytes >= limits_.unit_bytes) {
        open.units.push_back({.first = number});
      }
      Unit& unit = open.units.back();
      ++unit.pieces;
      ++unit.open;
      unit.has_answer.push_back(false);
      unit.bytes += run.bytes;
    }
  }
  const Round& opened = rounds_[key] = std::move(open);
  waiting_.insert(UrgencyOf(key, opened));
}

void UnitQueue::Close(const RoundKey& key) {
  auto found = rounds_.find(key);
  if (found == rounds_.end()) return;
  waiting_.erase(UrgencyOf(key, found->second));
  std::erase_if(due_, [&](const auto& one) { return one.first == key; });
  rounds_.erase(found);
}

std::vector<UnitQueue::Said> UnitQueue::Take() {
  std::vector<Said> all;
  if (has_stopped_) return all;
  for (; !due_.empty(); due_.pop_front()) {
    const auto& [key, piece] = due_.front();
    const Round& round = rounds_.at(key);
    const size_t unit = UnitOf(round, piece);
    all.push_back(Say(Kind::kGather, key, round, round.units[unit]));
    launched_.push_back({key, unit, 0, Kind::kGather});
  }
  const Kind kind = SumsAtOnce() ? Kind::kReduceAll : Kind::kReduce;
  while (!waiting_.empty()) {
    const RoundKey key = waiting_.begin()->key;
    Round& round = rounds_.at(key);
    const Unit& unit = round.units[round.said];
    if (launched_bytes_ > 0 && launched_bytes_ + unit.bytes > limits_.launched_max) break;
    all.push_back(Say(kind, key, round, unit));
    launched_.push_back({key, round.said, unit.bytes, kind});
    launched_bytes_ += unit.bytes;
    if (++round.said == round.units.size()) waiting_.erase(waiting_.begin());
  }
  return all;
}

std::vector<std::pair<RankSet, UnitLaunch>> UnitQueue::TakeLaunches() {
  std::vector<std::pair<RankSet, UnitLaunch>> all;
  for (Said& said : Take()) {
    for (size_t group = 0; group < said.size(); ++group) {
      RankSet ranks = 0;
      for (const uint32_t rank : groups_[group].ranks) ranks |= Bit(rank);
      all.emplace_back(ranks, std::move(said[group]));
    }
  }
  return all;
}

void UnitQueue::OnLaunchEnd() {
  if (launched_.empty()) return;
  const Launched done = launched_.front();
  launched_.pop_front();
  launched_bytes_ -= done.bytes;
  auto found = rounds_.find(done.key);
  if (found == rounds_.end()) return;
  found->second.units[done.unit].is_reduced = true;
  if (done.kind != Kind::kReduce) ++found->second.whole;
}

void UnitQueue::OnSpread(const RoundKey& key, uint32_t piece) {
  auto found = rounds_.find(key);
  if (found == rounds_.end()) return;
  Round& round = found->second;
  Unit& unit = round.units[UnitOf(round, piece)];
  if (unit.has_answer[piece - unit.first]) return;
  unit.has_answer[piece - unit.first] = true;
  if (--unit.open == 0) due_.emplace_back(key, unit.first);
}

bool UnitQueue::IsReduced(const RoundKey& key, uint32_t piece) const {
  const Round& round = rounds_.at(key);
  return round.units[UnitOf(round, piece)].is_reduced;
}

bool UnitQueue::IsWhole(const RoundKey& key) const {
  const Round& round = rounds_.at(key);
  return round.whole == round.units.size();
}

RankSet UnitQueue::HomesOf(const RoundKey& key, uint32_t piece) const {
  const Round& round = rounds_.at(key);
  const Unit& unit = round.units[UnitOf(round, piece)];
  RankSet homes = 0;
  for (const plan::DeviceGroup& group : groups_) {
    const std::vector<plan::PieceRun> runs = plan::DealPieces(unit.pieces, group.weights);
    for (size_t i = 0; i < runs.size(); ++i) {
      const uint32_t at = piece - unit.first;
      if (at >= runs[i].first && at - runs[i].first < runs[i].count) homes |= Bit(group.ranks[i]);
    }
  }
  return homes;
}

size_t UnitQueue::UnitOf(const Round& round, uint32_t piece) {
  auto next = std::ranges::upper_bound(round.units, piece, {}, &Unit::first);
  return static_cast<size_t>(next - round.units.begin()) - 1;
}

// Returns the bytes of the first `pieces` pieces of the unit.
size_t UnitQueue::BytesBefore(const Round& round, const Unit& unit, uint32_t pieces) {
  size_t bytes = 0;
  uint32_t begin = round.first_piece;
  for (const GroupRound::Run& run : round.facts.pieces) {
    const uint32_t from = std::max(begin, unit.first);
    const uint32_t to = std::min(begin + run.count, unit.first + pieces);
    if (to > from) bytes += size_t{to - from} * run.bytes;
    begin += run.count;
  }
  return bytes;
}

UnitQueue::Said UnitQueue::Say(Kind kind, const RoundKey& key, const Round& round,
                               const Unit& unit) const {
  Said said;
  for (const plan::DeviceGroup& group : groups_) {
    UnitLaunch& launch = said.emplace_back(
        UnitLaunch{key, kind, unit.first, unit.pieces, round.facts.type, round.facts.how, {}});
    if (kind == Kind::kReduceAll) launch.runs.push_back({0, 0, unit.bytes});
    uint32_t home = 0;
    for (const plan::PieceRun& run : plan::DealPieces(unit.pieces, group.weights)) {
      const size_t first = BytesBefore(round, unit, run.first);
      const size_t bytes = BytesBefore(round, unit, run.first + run.count) - first;
      if (bytes > 0) launch.runs.push_back({home, first, bytes});
      ++home;
    }
  }
  return said;
}

}  // namespace byteps::machine
