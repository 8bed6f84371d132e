#include "src/machine/serverless/rounds.h"

#include <bit>
#include <iterator>
#include <utility>

#include "src/protocol/never_complete.h"

namespace byteps::machine {
namespace {

using protocol::ErrorOfJoinedRoot;
using protocol::ErrorOfLeftRank;

constexpr uint32_t kCarrier = 0;

}  // namespace

void Rounds::OnBegun(uint32_t rank, const Begun& begun) {
  auto retired = retired_.find(begun.key.tensor);
  if (retired != retired_.end() && begun.key.use >= retired->second) return;
  auto [place, is_new] = rounds_.try_emplace(begun.key);
  Round& round = place->second;
  if (is_new) round.facts = begun.facts;
  round.begun |= Bit(rank);
  round.last.Take(rank, begun.operations);
  if (begun.part.place != kNoPlace) {
    if (round.parts.size() <= rank) round.parts.resize(size_t{rank} + 1);
    round.parts[rank] = begun.part;
  }
  if (!round.failure.ok()) events_.failed(begun.key, Bit(rank), round.failure);
  Look(place);
}

void Rounds::OnJoined(uint32_t rank) {
  joined_ |= Bit(rank);
  LookAtAll();
}

void Rounds::OnLeft(uint32_t rank) {
  left_ |= Bit(rank);
  for (auto& [key, round] : rounds_) {
    if (!round.is_complete) round.begun &= ~Bit(rank);
  }
  LookAtAll();
  // A complete round needs this rank's bytes, which are there for a moment only.
  for (auto place = rounds_.begin(); place != rounds_.end();) {
    auto next = std::next(place);
    const Round& round = place->second;
    bool concerned = round.is_complete && (round.begun & Bit(rank)) != 0;
    if (concerned && events_.break_off(place->first)) {
      events_.failed(place->first, round.begun & ~left_, ErrorOfLeftRank(rank));
      Erase(place);
    }
    place = next;
  }
}

void Rounds::OnAbort(uint32_t rank, const Abort& abort) {
  auto place = rounds_.find(abort.key);
  if (place == rounds_.end() || (place->second.begun & Bit(rank)) == 0) return;
  Round& round = place->second;
  if (!round.failure.ok()) return;
  if (!round.is_complete) {
    RankSet missing = Missing(round);
    std::string whom = missing == 0 ? "" : "; the tensor has no part of rank " + RanksText(missing);
    return Fail(place, {abort.why.code(), abort.why.message() + whom});
  }
  if (!events_.break_off(abort.key)) return;
  events_.failed(abort.key, round.begun, abort.why);
  Erase(place);
}

void Rounds::Retire(TensorId tensor, uint64_t use) {
  retired_.try_emplace(tensor, use);
  for (auto place = rounds_.lower_bound({tensor, use, 0});
       place != rounds_.end() && place->first.tensor == tensor;) {
    auto next = std::next(place);
    // The names tell each rank of the end, and the rank withdraws.
    if (!place->second.is_complete || events_.break_off(place->first)) Erase(place);
    place = next;
  }
}

// Returns the ranks that the round waits for. A join waits for every rank.
RankSet Rounds::Missing(const Round& round) const {
  RankSet exempt = round.facts.how == Combine::kLast ? 0 : joined_;
  return round.facts.ranks & ~round.begun & ~exempt;
}

void Rounds::LookAtAll() {
  for (auto place = rounds_.begin(); place != rounds_.end();) {
    auto next = std::next(place);
    Look(place);
    place = next;
  }
}

void Rounds::Look(Place place) {
  Round& round = place->second;
  if (round.is_complete) return;
  RankSet missing = Missing(round);
  // When the carrier has left, nobody gives out blocks any more.
  RankSet gone = (missing & left_) | (left_ & Bit(kCarrier));
  if (round.failure.ok() && gone != 0) {
    return Fail(place, ErrorOfLeftRank(static_cast<uint32_t>(std::countr_zero(gone))));
  }
  if (!round.failure.ok()) {
    if ((missing & ~left_) == 0) Erase(place);  // no rank is left that needs the error
    return;
  }
  if (missing != 0) return;
  const uint32_t root = round.facts.root;
  if (root != kNoRank && (round.begun & Bit(root)) == 0)
    return Fail(place, ErrorOfJoinedRoot(std::to_string(root)));
  round.is_complete = true;
  if (round.facts.how == Combine::kLast) joined_ = 0;
  const RankSet ranks = round.facts.ranks & round.begun;
  if (events_.complete(place->first,
                       {round.facts, ranks, round.last.who(), std::move(round.parts)})) {
    Erase(place);
  }
}

void Rounds::Fail(Place place, const Status& why) {
  Round& round = place->second;
  round.failure = why;
  ++errors_;
  events_.failed(place->first, round.begun, why);
  Look(place);
}

void Rounds::Erase(Place place) {
  if (!place->second.failure.ok()) --errors_;
  rounds_.erase(place);
}

}  // namespace byteps::machine
