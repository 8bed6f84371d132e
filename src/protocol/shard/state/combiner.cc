#include "src/protocol/shard/state/combiner.h"

#include <algorithm>
#include <utility>

#include "src/base/sum_place.h"
#include "src/wire/join_word.h"

namespace byteps::protocol {
namespace {

// Returns the operations that a contribution to a join counts; 0 if a peer has sent no such word.
uint32_t OperationsOf(const Contribution& contribution) {
  return wire::OperationsOfJoin(ConstByteSpan(contribution.buffer.data(), contribution.bytes));
}

}  // namespace

// Brings the contributors into the order of their places, and plans their tree. Slots nearly always
// have that order, but a newcomer's slot is behind all others, and its rank may be below theirs.
void Combiner::Order(const Round& round) {
  order_.clear();
  for (Slot slot = 0; slot < round.contributions().size(); ++slot) {
    if (!round.contributions()[slot].arrived) continue;
    const uint32_t rank = rules_.RankInSum(round.set(), members_, slot);
    order_.emplace_back(PlaceOf(rank, members_.sum_group()), slot);
  }
  if (!std::is_sorted(order_.begin(), order_.end())) std::sort(order_.begin(), order_.end());
  places_.clear();
  for (const auto& [place, slot] : order_) places_.push_back(place);
  tree_.Plan(places_, kernels::NodesFor(members_.same_bits()));
}

// Collects the inputs in order. Encoded inputs are decoded.
Status Combiner::Collect(const Round& round) {
  const Codec* codec = round.codec() == 0 ? nullptr : codecs_.Find(round.codec());
  inputs_.clear();
  for (const auto& [place, slot] : order_) {
    const Contribution& contribution = round.contributions()[slot];
    if (codec == nullptr) {
      inputs_.push_back(contribution.buffer.data());
      continue;
    }
    decoded_.push_back(pool_.Take(round.piece_bytes()));
    ByteSpan piece(decoded_.back().data(), round.piece_bytes());
    ConstByteSpan encoded(contribution.buffer.data(), contribution.bytes);
    Status status = codec->Decode(round.dtype(), encoded, piece);
    if (!status.ok()) {
      return {status.code(),
              "what " + members_.NameOf(slot) + " pushed cannot be decoded: " + status.message()};
    }
    inputs_.push_back(piece.data());
  }
  return Status::Ok();
}

Result<Combiner::Combined> Combiner::Combine(const Round& round, uint32_t divisor) {
  if (round.combine() == byteps::Combine::kOverlay)
    return Combined{round.overlay(), round.piece_bytes()};
  if (round.combine() == byteps::Combine::kLast) return LastOf(round);
  Order(round);
  Status collected = Collect(round);
  if (!collected.ok()) {
    decoded_.clear();
    return collected;
  }
  const BufferRef* target =
      decoded_.empty() ? &round.contributions()[order_.front().second].buffer : &decoded_.front();
  size_t bytes = round.piece_bytes();
  // One contribution is combined, too: like the sum of several, it has one kind of NaN.
  if (bytes > 0 && round.combine() == byteps::Combine::kAverage) {
    arithmetic_.Average(round.dtype(), target->data(), inputs_, tree_, bytes, divisor);
  } else if (bytes > 0) {
    arithmetic_.Combine(round.combine(), round.dtype(), target->data(), inputs_, tree_, bytes);
  }
  if (decoded_.empty()) return Combined{*target, round.piece_bytes()};
  const Codec& codec = *codecs_.Find(round.codec());
  Combined encoded;
  size_t room = codec.EncodedBytesMax(round.dtype(), bytes);
  encoded.buffer = pool_.Take(room);
  encoded.bytes = static_cast<uint32_t>(codec.Encode(
      round.dtype(), ConstByteSpan(target->data(), bytes), ByteSpan(encoded.buffer.data(), room)));
  decoded_.clear();
  return encoded;
}

// Returns the contribution whose rank has taken part in the most operations; among equals, the last
// to arrive. Members that are still present go before others.
Combiner::Combined Combiner::LastOf(const Round& round) const {
  auto standing = [&](Slot slot) {
    return std::pair(members_.IsPresent(slot), OperationsOf(round.contributions()[slot]));
  };
  Slot last = round.order_of_arrival().front();
  for (Slot slot : round.order_of_arrival()) {
    if (standing(slot) >= standing(last)) last = slot;
  }
  const Contribution& contribution = round.contributions()[last];
  return {contribution.buffer, contribution.bytes};
}

}  // namespace byteps::protocol
