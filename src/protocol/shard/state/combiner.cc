#include "src/protocol/shard/state/combiner.h"

#include <utility>

#include "src/wire/join_word.h"

namespace byteps::protocol {
namespace {

// Returns the operations that a contribution to a join counts; 0 if a peer has sent no such word.
uint32_t OperationsOf(const Contribution& contribution) {
  return wire::OperationsOfJoin(ConstByteSpan(contribution.buffer.data(), contribution.bytes));
}

}  // namespace

// Collects the inputs in slot order. Encoded inputs are decoded.
Status Combiner::Collect(const Round& round) {
  const Codec* codec = round.codec() == 0 ? nullptr : codecs_.Find(round.codec());
  inputs_.clear();
  for (Slot slot = 0; slot < round.contributions().size(); ++slot) {
    const Contribution& contribution = round.contributions()[slot];
    if (!contribution.arrived) continue;
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
  Status collected = Collect(round);
  if (!collected.ok()) {
    decoded_.clear();
    return collected;
  }
  const BufferRef* target = decoded_.empty() ? FirstOf(round) : &decoded_.front();
  size_t bytes = round.piece_bytes();
  if (bytes > 0 && round.combine() == byteps::Combine::kAverage) {
    arithmetic_.Average(round.dtype(), target->data(), inputs_, bytes, divisor);
  } else if (bytes > 0 && inputs_.size() > 1) {
    arithmetic_.Combine(round.combine(), round.dtype(), target->data(), inputs_, bytes);
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

const BufferRef* Combiner::FirstOf(const Round& round) {
  for (const Contribution& contribution : round.contributions()) {
    if (contribution.arrived) return &contribution.buffer;
  }
  return nullptr;
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
