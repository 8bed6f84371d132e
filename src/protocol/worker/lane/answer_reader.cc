#include "src/protocol/worker/lane/answer_reader.h"

#include <algorithm>
#include <utility>

namespace byteps::protocol {

void AnswerReader::Reset(ShardId shard) {
  Link fresh;
  fresh.scratch = std::move(links_[shard].scratch);
  links_[shard] = std::move(fresh);
}

Result<ByteSpan> AnswerReader::Assign(ShardId from, Answer& answer, std::vector<std::byte>& scratch,
                                      Target& target) {
  answer.landing = Landing::kNowhere;
  Result<Place> place = target.PlaceFor(from, answer.header, answer.payload_bytes);
  if (!place.ok()) return place.status();
  answer.landing = place->landing;
  switch (answer.landing) {
    case Landing::kInPlace: return place->bytes;
    case Landing::kNumberOnly: return ByteSpan();
    case Landing::kStaged:
      answer.staged = (place->pool != nullptr ? *place->pool : pool_).Take(answer.payload_bytes);
      return ByteSpan(answer.staged.data(), answer.payload_bytes);
    case Landing::kNowhere: break;
  }
  scratch.resize(std::max(scratch.size(), answer.payload_bytes));
  return ByteSpan(scratch.data(), answer.payload_bytes);
}

Result<ByteSpan> AnswerReader::OnHeader(ShardId from, const wire::DataHeader& header,
                                        size_t payload_bytes, uint64_t epoch, Target& target) {
  Link& link = links_[from];
  link.receiving = true;
  link.postpones = header.epoch > epoch || !link.postponed.empty();
  link.incoming.header = header;
  link.incoming.payload_bytes = payload_bytes;
  if (!link.postpones) return Assign(from, link.incoming, link.scratch, target);
  link.postponed.push_back({header, pool_.Take(payload_bytes), payload_bytes});
  return ByteSpan(link.postponed.back().payload.data(), payload_bytes);
}

void AnswerReader::OnPayload(ShardId from, uint64_t epoch, Time now, Target& target) {
  Link& link = links_[from];
  link.receiving = false;
  if (link.postpones) {
    link.postponed.back().complete = true;
    return TakePostponed(from, epoch, now, target);  // its view may be here by now
  }
  target.Take(from, link.incoming, now);
  links_[from].incoming.staged = BufferRef();
}

void AnswerReader::TakePostponed(ShardId from, uint64_t epoch, Time now, Target& target) {
  std::deque<Postponed>& postponed = links_[from].postponed;
  while (!postponed.empty() && postponed.front().complete &&
         postponed.front().header.epoch <= epoch) {
    Postponed next = std::move(postponed.front());
    postponed.pop_front();
    Answer answer;
    answer.header = next.header;
    answer.payload_bytes = next.payload_bytes;
    Result<ByteSpan> place = Assign(from, answer, links_[from].scratch, target);
    if (!place.ok()) continue;
    arithmetic_.Copy(place.value().data(), next.payload.data(), next.payload_bytes);
    target.Take(from, answer, now);
  }
}

bool AnswerReader::Divert(TensorId tensor, uint32_t number) {
  bool diverted = false;
  for (Link& link : links_) {
    const wire::PieceRef& ref = link.incoming.header.ref;
    bool lands = link.receiving && !link.postpones && link.incoming.landing == Landing::kInPlace;
    if (!lands || ref.tensor != tensor || ref.piece != number) continue;
    link.incoming.landing = Landing::kNowhere;
    diverted = true;
  }
  return diverted;
}

}  // namespace byteps::protocol
