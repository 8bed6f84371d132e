#include "src/machine/serverless/local_rounds.h"

#include <bit>
#include <utility>

#include "src/protocol/never_complete.h"

namespace byteps::machine {
namespace {

using protocol::ErrorOfJoinedRoot;
using protocol::ErrorOfLeftRank;

constexpr uint32_t kCarrier = 0;

}  // namespace

void LocalRounds::OnBegun(uint32_t rank, const Begun& begun) {
  const bool is_join = begun.facts.how == Combine::kLast;
  Round* round = book_.Begin(rank, begun.key, begun.facts.ranks, is_join, begun.operations);
  if (round == nullptr) return;
  State& state = round->extra;
  if (state.facts.ranks == 0) state.facts = begun.facts;
  if (begun.part.place != kNoPlace) {
    if (state.parts.size() <= rank) state.parts.resize(size_t{rank} + 1);
    state.parts[rank] = begun.part;
  }
  if (begun.on_device) state.on_device |= Bit(rank);
  if (!state.failure.ok()) {
    events_.failed(begun.key, Bit(rank), state.failure);
  } else if (!begun.no_input.ok()) {
    return OnAbort(rank, {begun.key, begun.no_input});
  }
  Look(begun.key);
}

void LocalRounds::OnJoined(uint32_t rank) {
  book_.Join(rank);
  LookAtAll();
}

void LocalRounds::OnLeft(uint32_t rank) {
  book_.Leave(rank);
  LookAtAll();
  // A complete round needs this rank's bytes, which are there for a moment only.
  for (const RoundKey& key : book_.Keys()) {
    const Round& round = *book_.Find(key);
    if (!round.is_decided || (round.begun & Bit(rank)) == 0 || !events_.break_off(key)) continue;
    events_.failed(key, round.begun & ~book_.left(), ErrorOfLeftRank(rank));
    Erase(key, round);
  }
}

void LocalRounds::OnAbort(uint32_t rank, const Abort& abort) {
  Round* round = book_.Find(abort.key);
  if (round == nullptr || (round->begun & Bit(rank)) == 0) return;
  if (!round->extra.failure.ok()) return;
  if (!round->is_decided) {
    const RankSet missing = book_.Missing(*round);
    std::string whom =
        missing == 0 ? "" : "; the tensor has nothing from rank " + RanksText(missing);
    return Fail(abort.key, *round, {abort.why.code(), abort.why.message() + whom});
  }
  if (!events_.break_off(abort.key)) return;
  events_.failed(abort.key, round->begun, abort.why);
  Erase(abort.key, *round);
}

void LocalRounds::Retire(TensorId tensor, uint64_t use) {
  book_.Retire(tensor, use);
  for (const RoundKey& key : book_.KeysOf(tensor, use)) {
    const Round& round = *book_.Find(key);
    // The names tell each rank of the disagreement, and the rank withdraws.
    if (!round.is_decided || events_.break_off(key)) Erase(key, round);
  }
}

void LocalRounds::LookAtAll() {
  for (const RoundKey& key : book_.Keys()) Look(key);
}

void LocalRounds::Look(const RoundKey& key) {
  Round& round = *book_.Find(key);
  if (round.is_decided) return;
  State& state = round.extra;
  // Nobody gives blocks to any round when the carrier has left.
  const RankSet gone = book_.Gone(round) | (book_.left() & Bit(kCarrier));
  if (state.failure.ok() && gone != 0) {
    return Fail(key, round, ErrorOfLeftRank(static_cast<uint32_t>(std::countr_zero(gone))));
  }
  if (!state.failure.ok()) {
    if (book_.IsLast(round)) Erase(key, round);
    return;
  }
  if (book_.Missing(round) != 0) return;
  const uint32_t root = state.facts.root;
  if (root != kNoRank && (round.begun & Bit(root)) == 0) {
    return Fail(key, round, ErrorOfJoinedRoot(std::to_string(root)));
  }
  CompleteRound complete{
      state.facts, round.ranks & round.begun, round.last.who(), {}, state.on_device};
  if (events_.waits != nullptr && events_.waits(complete)) return;
  complete.parts = std::move(state.parts);
  round.is_decided = true;
  if (round.is_join) book_.EndJoin();
  if (events_.complete(key, complete)) Erase(key, round);
}

void LocalRounds::Fail(const RoundKey& key, Round& round, const Status& why) {
  round.extra.failure = why;
  ++errors_;
  events_.failed(key, round.begun, why);
  Look(key);
}

void LocalRounds::Erase(const RoundKey& key, const Round& round) {
  if (!round.extra.failure.ok()) --errors_;
  book_.Erase(key);
}

}  // namespace byteps::machine
