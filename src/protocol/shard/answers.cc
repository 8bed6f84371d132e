#include "src/protocol/shard/answers.h"

#include <algorithm>
#include <utility>

namespace byteps::protocol {

void Answers::SetSlots(Slot slots, bool begins) {
  if (begins) {
    sent_.clear();
    due_.reset();
  }
  sent_.resize(slots);
}

bool Answers::IsStable(const Answered& answered) const {
  const Piece* piece = facts_.pieces.Find(answered.ref);
  if (piece == nullptr) return true;
  return piece->since != answered.since || !piece->verdict.Covers(answered.ref.round) ||
         piece->verdict.IsWithAll(answered.ref.round, facts_.members);
}

// Returns the number up to which the answers to this member are stable.
uint64_t Answers::StableCount(Slot to) {
  return sent_[to].ForgetStable([this](const Answered& answered) { return IsStable(answered); });
}

void Answers::Number(const Piece& piece, Slot to, wire::DataHeader& header) {
  NumberedAnswers& sent = sent_[to];
  header.epoch = facts_.view.epoch();
  header.generation = facts_.view.generation();
  header.count = sent.Add({header.ref, piece.since});
  sent.NoteStableTold(StableCount(to));  // also this one, if it only confirms a stable verdict
  header.unstable = static_cast<uint32_t>(header.count - sent.stable_told());
  header.home = piece.home;
  header.combine = piece.verdict.terms().combine;
  header.dtype = piece.verdict.terms().dtype;
  header.codec = piece.verdict.terms().codec;
  header.piece_bytes = piece.verdict.terms().piece_bytes;
}

void Answers::Send(const Piece& piece, const wire::PieceRef& ref, Slot to, const Portion& portion) {
  const Verdict& verdict = piece.verdict;
  wire::DataHeader header;
  header.ref = ref;
  header.priority = portion.priority;
  Number(piece, to, header);
  header.want_bytes = portion.bytes;
  ConstByteSpan bytes = verdict.bytes();
  if (portion.bytes != verdict.terms().piece_bytes) {  // the whole needs no range on the wire
    header.offset = header.want_offset = portion.offset;
    bytes = portion.bytes == 0 ? ConstByteSpan() : bytes.subspan(portion.offset, portion.bytes);
  }
  header.encoded_bytes = static_cast<uint32_t>(bytes.size());
  SendWithReceipt(verdict, to, header, bytes, verdict.buffer());
}

void Answers::SendError(const Piece& piece, const wire::PieceRef& ref, Slot to, int32_t priority) {
  const wire::ErrorRow& errors = piece.verdict.errors();
  std::vector<std::byte> row = errors.Encode(ref.round);
  BufferRef payload = pool_.Take(row.size());
  std::copy(row.begin(), row.end(), payload.data());
  wire::DataHeader header;
  header.ref = ref;
  header.priority = priority;
  Number(piece, to, header);
  header.status = errors.Of(ref.round)->code();
  header.piece_bytes = header.want_bytes = static_cast<uint32_t>(row.size());
  header.encoded_bytes = header.piece_bytes;
  SendWithReceipt(piece.verdict, to, header, ConstByteSpan(payload.data(), row.size()), payload);
}

void Answers::Confirm(const Piece& piece, const wire::PieceRef& ref, Slot to) {
  wire::DataHeader header;
  header.ref = ref;
  Number(piece, to, header);
  driver_.SendData(to, {wire::FrameKind::kAnswer, header, {}, {}});
}

// Returns whether the receipt names all contributors of the tensor's process set in this view. A
// set that is not known, or not any more, cannot be smaller than the receipt.
bool Answers::IsEverybody(const Verdict& verdict) const {
  const Receipt& receipt = verdict.receipt();
  const Receipt& everybody = facts_.members.everybody();
  if (receipt == everybody || *receipt == *everybody) return true;
  if (verdict.terms().set.value_or(0) == 0) return false;
  const ProcessSet* set = facts_.sets.Find(*verdict.terms().set);
  return set != nullptr && (receipt == set->all() || *receipt == *set->all());
}

void Answers::SendWithReceipt(const Verdict& verdict, Slot to, wire::DataHeader& header,
                              ConstByteSpan bytes, const BufferRef& keep) {
  // A member that skips a view never learns which members were in it.
  bool all = facts_.members.epoch(to) == facts_.view.epoch() && IsEverybody(verdict);
  if (all) return driver_.SendData(to, {wire::FrameKind::kAnswer, header, bytes, keep});
  // The receipt goes before the bytes.
  const SlotSet& receipt = *verdict.receipt();
  header.receipt = static_cast<uint32_t>(receipt.bitmap_bytes());
  BufferRef both = pool_.Take(header.receipt + bytes.size());
  receipt.ToBitmap(ByteSpan(both.data(), header.receipt));
  arithmetic_.Copy(both.data() + header.receipt, bytes.data(), bytes.size());
  ConstByteSpan payload(both.data(), header.receipt + bytes.size());
  driver_.SendData(to, {wire::FrameKind::kAnswer, header, payload, std::move(both)});
}

void Answers::NoteStable() {
  if (!due_.has_value()) due_ = facts_.now + stable_after_;
}

// Answers carry the news of stability. A member that gets no answer is told. It is told one call
// later, so that a busy connection carries nothing extra.
void Answers::Tick(Time now) {
  if (!due_.has_value() || *due_ > now) return;
  due_.reset();
  for (Slot slot = 0; slot < sent_.size(); ++slot) {
    if (!facts_.members.IsServed(slot)) continue;
    NumberedAnswers& sent = sent_[slot];
    uint64_t stable = StableCount(slot);
    bool busy = sent.LookForNew();
    if (stable == sent.stable_told()) continue;
    if (busy) {
      due_ = now + stable_after_;
      continue;
    }
    sent.NoteStableTold(stable);
    driver_.Send(slot, wire::Stable{stable, facts_.view.epoch()});
  }
}

}  // namespace byteps::protocol
