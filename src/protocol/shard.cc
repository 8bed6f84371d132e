#include "src/protocol/shard.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace byteps::protocol {
namespace {

Status Wrong(const std::string& what) { return {StatusCode::kProtocol, "push refused: " + what}; }

}  // namespace

Shard::Shard(const ShardOptions& options, BufferPool& pool, Arithmetic& arithmetic,
             ShardDriver& driver)
    : options_(options), pool_(pool), arithmetic_(arithmetic), driver_(driver) {}

void Shard::OnView(const wire::View& view) {
  epoch_ = view.epoch;
  if (view.generation == generation_) return;
  generation_ = view.generation;
  pieces_.clear();
  retired_.clear();
  while (!waiting_.empty()) waiting_.pop_front();
  while (!asked_.empty()) asked_.pop_front();
  open_rounds_ = 0;
  unstable_verdicts_ = 0;
  members_.clear();
  left_why_.clear();
  left_count_ = 0;
  member_count_ = static_cast<uint32_t>(view.workers.size());
  for (const wire::WorkerInfo& worker : view.workers) {
    if (worker.slot >= members_.size()) {
      members_.resize(worker.slot + 1);
      left_why_.resize(worker.slot + 1);
    }
    members_[worker.slot].present = true;
  }
  wanted_.resize(members_.size());
}

Status Shard::CheckPush(Slot from, const wire::DataHeader& header, size_t payload_bytes) const {
  if (from >= members_.size() || !members_[from].present) {
    return Wrong("slot " + std::to_string(from) + " is not in the view");
  }
  if (members_[from].receiving) return Wrong("a push began inside another one");
  if (header.generation != generation_) return Wrong("it belongs to another generation");
  if (header.piece_bytes > options_.piece_bytes_max) return Wrong("the piece is too large");
  if (header.status != StatusCode::kOk || header.receipt != 0) return Wrong("it is no push");
  if (header.ref.round == 0) return Wrong("rounds count from 1");
  if (header.combine == Combine::kOverlay) return Status::Ok();
  if (header.offset != 0 || payload_bytes != header.piece_bytes ||
      header.piece_bytes % SizeOf(header.dtype) != 0) {
    return Wrong("only a part of the piece was pushed");
  }
  return Status::Ok();
}

// What declarations guarantee is checked again where it is cheap: the piece must be one thing.
Status Shard::CheckRound(const Round& round, Slot from, const wire::DataHeader& header) const {
  if (round.combine != header.combine || round.dtype != header.dtype ||
      round.piece_bytes != header.piece_bytes) {
    return Wrong("worker " + std::to_string(from) + " pushed " +
                 std::to_string(header.piece_bytes) + " bytes of " + NameOf(header.dtype) +
                 " where another pushed " + std::to_string(round.piece_bytes) + " bytes of " +
                 NameOf(round.dtype));
  }
  return Status::Ok();
}

// The kept verdict answers a repeat, so the repeat must be of the same piece.
Status Shard::CheckRepeat(const Piece& piece, const wire::DataHeader& header) const {
  if (piece.status != StatusCode::kOk) return Status::Ok();  // the answer is a text
  if (header.ref.round < piece.decided) return Wrong("its round is over for everybody");
  if (header.combine != piece.combine || header.dtype != piece.dtype ||
      header.piece_bytes != piece.verdict_bytes) {
    return Wrong("a repeat differs from what was decided");
  }
  return Status::Ok();
}

Result<ByteSpan> Shard::OnPushHeader(Slot from, const wire::DataHeader& header,
                                     size_t payload_bytes, Time now) {
  Status checked = CheckPush(from, header, payload_bytes);
  if (!checked.ok()) return checked;
  Member& member = members_[from];
  OnAck(from, header.count);
  member.incoming = header;
  if (retired_.contains(header.ref.tensor)) return Ignore(member, payload_bytes);
  Piece& piece = pieces_[KeyOf(header.ref)];
  if (header.ref.round <= piece.decided) {
    checked = CheckRepeat(piece, header);
    if (!checked.ok()) return checked;
    return Ignore(member, payload_bytes);
  }
  if (piece.round == nullptr) {
    if (open_rounds_ >= options_.open_rounds_max) {
      return Status(StatusCode::kExhausted, "push refused: too many rounds are open");
    }
    OpenRound(piece, header, now);
  }
  Round& round = *piece.round;
  if (header.ref.round != round.ref.round) return Wrong("another round of the piece is open");
  checked = CheckRound(round, from, header);
  if (!checked.ok()) return checked;
  if (round.contributions[from].arrived) return Ignore(member, payload_bytes);
  member.receiving = true;
  member.ignored = false;
  return PlaceFor(round, from, header, payload_bytes);
}

ByteSpan Shard::Ignore(Member& member, size_t payload_bytes) {
  member.receiving = true;
  member.ignored = true;
  member.scratch.resize(std::max(member.scratch.size(), payload_bytes));
  return ByteSpan(member.scratch.data(), payload_bytes);
}

ByteSpan Shard::PlaceFor(Round& round, Slot from, const wire::DataHeader& header,
                         size_t payload_bytes) {
  if (round.combine == Combine::kOverlay) {
    if (!round.overlay) round.overlay = pool_.Take(round.piece_bytes);
    members_[from].receiving_into = round.overlay;
    return ByteSpan(round.overlay.data() + header.offset, payload_bytes);
  }
  Contribution& contribution = round.contributions[from];
  contribution.buffer = pool_.Take(payload_bytes);
  members_[from].receiving_into = contribution.buffer;
  return ByteSpan(contribution.buffer.data(), payload_bytes);
}

void Shard::OpenRound(Piece& piece, const wire::DataHeader& header, Time now) {
  if (spare_rounds_.empty()) {
    piece.round = std::make_unique<Round>();
  } else {
    piece.round = std::move(spare_rounds_.back());
    spare_rounds_.pop_back();
  }
  Round& round = *piece.round;
  round.ref = header.ref;
  round.combine = header.combine;
  round.dtype = header.dtype;
  round.attempt = header.attempt;
  round.piece_bytes = header.piece_bytes;
  round.arrived = 0;
  round.contributions.assign(members_.size(), Contribution());
  round.order_of_arrival.clear();
  ++open_rounds_;
  waiting_.push_back({header.ref, now});
}

void Shard::DropRound(Piece& piece) {
  if (piece.round == nullptr) return;
  for (Contribution& contribution : piece.round->contributions) contribution.buffer = BufferRef();
  piece.round->overlay = BufferRef();
  spare_rounds_.push_back(std::move(piece.round));
  --open_rounds_;
  ForgetDecided(waiting_);
  ForgetDecided(asked_);
}

void Shard::OnPush(Slot from) {
  Member& member = members_[from];
  assert(member.receiving);
  member.receiving = false;
  member.receiving_into = BufferRef();
  if (member.ignored) return AnswerAgain(from);
  const wire::DataHeader& header = member.incoming;
  auto found = pieces_.find(KeyOf(header.ref));
  if (found == pieces_.end()) return;  // retired while the payload came in
  Piece& piece = found->second;
  if (header.ref.round <= piece.decided) return AnswerAgain(from);  // decided meanwhile: an error
  Contribution& contribution = piece.round->contributions[from];
  contribution.arrived = true;
  contribution.priority = header.priority;
  contribution.want_offset = header.want_offset;
  contribution.want_bytes = header.want_bytes;
  piece.round->order_of_arrival.push_back(from);
  ++piece.round->arrived;
  DecideIfPossible(piece);
}

// A push of a decided round gets the verdict that is kept; a retired tensor needs none.
void Shard::AnswerAgain(Slot to) {
  const wire::DataHeader& header = members_[to].incoming;
  auto found = pieces_.find(KeyOf(header.ref));
  if (found == pieces_.end() || retired_.contains(header.ref.tensor)) return;
  Piece& piece = found->second;
  if (header.ref.round > piece.decided || piece.stable) return;
  uint32_t wanted = piece.status == StatusCode::kOk ? header.want_bytes : piece.verdict_bytes;
  uint32_t offset = piece.status == StatusCode::kOk ? header.want_offset : 0;
  Answer(piece, header.ref, to, offset, wanted, header.priority);
}

std::optional<Slot> Shard::MissingLeaver(const Round& round) const {
  if (left_count_ == 0) return std::nullopt;  // nearly always, and asked after every push
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    if (members_[slot].left && !round.contributions[slot].arrived) return slot;
  }
  return std::nullopt;
}

void Shard::DecideIfPossible(Piece& piece) {
  uint32_t needed = member_count_;
  if (options_.mistake == ShardMistake::kAnswerBeforeTheLast) needed = std::max(needed, 2u) - 1;
  if (piece.round->arrived >= needed) return Decide(piece);
  std::optional<Slot> leaver = MissingLeaver(*piece.round);
  if (leaver.has_value()) DecideError(piece, left_why_[*leaver]);
}

void Shard::Decide(Piece& piece) {
  Round& round = *piece.round;
  if (round.combine != Combine::kOverlay) CombineContributions(round);
  piece.status = StatusCode::kOk;
  piece.verdict = std::move(round.overlay);
  piece.verdict_bytes = round.piece_bytes;
  AnswerAll(piece);
}

// Slot order, whatever the order of arrival: same inputs, same bits.
void Shard::CombineContributions(Round& round) {
  inputs_.clear();
  const std::vector<Slot>& by_arrival = round.order_of_arrival;
  BufferRef target;
  for (Slot slot = 0; slot < round.contributions.size(); ++slot) {
    Slot source =
        options_.mistake == ShardMistake::kCombineInOrderOfArrival && slot < by_arrival.size()
            ? by_arrival[slot]
            : slot;
    Contribution& contribution = round.contributions[source];
    if (!contribution.arrived) continue;
    if (!target) target = contribution.buffer;
    inputs_.push_back(contribution.buffer.data());
  }
  if (options_.mistake == ShardMistake::kLeaveOneOut && inputs_.size() > 1) inputs_.pop_back();
  if (inputs_.size() > 1 && round.piece_bytes > 0) {
    arithmetic_.Combine(round.combine, round.dtype, target.data(), inputs_, round.piece_bytes);
  }
  round.overlay = std::move(target);
}

void Shard::DecideError(Piece& piece, const Status& why) {
  piece.status = why.code();
  const std::string& text = why.message();
  piece.verdict = pool_.Take(text.size());
  std::memcpy(piece.verdict.data(), text.data(), text.size());
  piece.verdict_bytes = static_cast<uint32_t>(text.size());
  for (Contribution& contribution : piece.round->contributions) {
    contribution.want_offset = 0;
    contribution.want_bytes = piece.verdict_bytes;
  }
  AnswerAll(piece);
}

// The verdict stands in the piece; everybody who has pushed is told.
void Shard::AnswerAll(Piece& piece) {
  std::unique_ptr<Round> round = std::move(piece.round);
  if (piece.stable) ++unstable_verdicts_;
  piece.stable = false;
  piece.decided = round->ref.round;
  piece.holders = 0;
  piece.held.assign((members_.size() + 63) / 64, 0);
  piece.combine = round->combine;
  piece.dtype = round->dtype;
  piece.attempt = round->attempt;
  bool forget = options_.mistake == ShardMistake::kForgetToAnswerOne;
  for (Slot slot = 0; slot < round->contributions.size(); ++slot) {
    const Contribution& contribution = round->contributions[slot];
    if (members_[slot].left) MarkHeld(piece, slot);  // nobody is there to be answered
    if (members_[slot].left || !contribution.arrived) continue;
    if (std::exchange(forget, false) && piece.decided % 3 == 0) continue;
    Answer(piece, round->ref, slot, contribution.want_offset, contribution.want_bytes,
           contribution.priority);
    if (options_.mistake == ShardMistake::kAnswerTwice) {
      Answer(piece, round->ref, slot, contribution.want_offset, contribution.want_bytes,
             contribution.priority);
    }
  }
  piece.round = std::move(round);
  DropRound(piece);
}

void Shard::Answer(Piece& piece, const wire::PieceRef& ref, Slot to, uint32_t want_offset,
                   uint32_t want_bytes, int32_t priority) {
  Member& member = members_[to];
  while (!member.answered.empty() && IsStable(member.answered.front())) {
    member.answered.pop_front();
  }
  member.answered.push_back(ref);
  wire::DataHeader header;
  header.ref = ref;
  header.epoch = epoch_;
  header.generation = generation_;
  header.count = ++member.answers_sent;
  header.unstable = static_cast<uint32_t>(std::min<size_t>(member.answered.size(), UINT32_MAX));
  header.priority = priority;
  header.combine = piece.combine;
  header.dtype = piece.dtype;
  header.attempt = piece.attempt;
  header.status = piece.status;
  header.piece_bytes = piece.verdict_bytes;
  header.offset = want_offset;
  header.want_offset = want_offset;
  header.want_bytes = want_bytes;
  if (want_bytes == piece.verdict_bytes) {  // the whole verdict needs no range on the wire
    header.offset = header.want_offset = 0;
  }
  driver_.SendAnswer(to, header, ConstByteSpan(piece.verdict.data() + want_offset, want_bytes),
                     piece.verdict);
}

void Shard::OnAck(Slot from, uint64_t count) {
  if (from >= members_.size()) return;
  Member& member = members_[from];
  count = std::min(count, member.answers_sent);
  while (member.answers_acknowledged < count) {
    uint64_t number = ++member.answers_acknowledged;
    uint64_t first_kept = member.answers_sent - member.answered.size() + 1;
    if (number < first_kept) continue;
    const wire::PieceRef& ref = member.answered[number - first_kept];
    auto found = pieces_.find(KeyOf(ref));
    bool current = found != pieces_.end() && found->second.decided == ref.round;
    if (current && !found->second.stable) MarkHeld(found->second, from);
  }
}

void Shard::MarkHeld(Piece& piece, Slot by) {
  uint64_t& word = piece.held[by / 64];
  uint64_t bit = uint64_t{1} << (by % 64);
  if ((word & bit) != 0) return;  // a repeat was answered too
  word |= bit;
  if (++piece.holders < member_count_) return;
  piece.stable = true;
  piece.verdict = BufferRef();
  --unstable_verdicts_;
}

bool Shard::IsStable(const wire::PieceRef& ref) const {
  auto found = pieces_.find(KeyOf(ref));
  return found == pieces_.end() || found->second.decided > ref.round || found->second.stable;
}

void Shard::OnLost(Slot from) {
  if (from >= members_.size()) return;
  Member& member = members_[from];
  member.receiving_into = BufferRef();
  member.answers_sent = 0;
  member.answers_acknowledged = 0;
  while (!member.answered.empty()) member.answered.pop_front();
  if (!std::exchange(member.receiving, false) || member.ignored) return;
  auto found = pieces_.find(KeyOf(member.incoming.ref));
  if (found == pieces_.end() || found->second.round == nullptr) return;
  Contribution& contribution = found->second.round->contributions[from];
  if (!contribution.arrived) contribution.buffer = BufferRef();
}

void Shard::OnLeft(Slot slot, const Status& why) {
  if (slot >= members_.size() || members_[slot].left) return;
  members_[slot].left = true;
  ++left_count_;
  left_why_[slot] = why;
  for (auto& [key, piece] : pieces_) {
    if (!piece.stable) MarkHeld(piece, slot);
    if (piece.round != nullptr) DecideIfPossible(piece);
  }
}

void Shard::Retire(TensorId tensor) {
  retired_.insert(tensor);
  for (auto it = pieces_.begin(); it != pieces_.end();) {
    if (it->first >> 32 != tensor) {
      ++it;
      continue;
    }
    if (!it->second.stable) --unstable_verdicts_;
    DropRound(it->second);
    it = pieces_.erase(it);
  }
}

Shard::Round* Shard::OpenRoundOf(const wire::PieceRef& ref) {
  auto found = pieces_.find(KeyOf(ref));
  if (found == pieces_.end() || found->second.round == nullptr) return nullptr;
  Round* round = found->second.round.get();
  return round->ref == ref ? round : nullptr;
}

void Shard::ForgetDecided(Waiters& waiters) {
  while (!waiters.empty() && OpenRoundOf(waiters.front().first) == nullptr) waiters.pop_front();
}

std::optional<Time> Shard::NextTick() {
  ForgetDecided(waiting_);
  ForgetDecided(asked_);
  if (options_.mistake == ShardMistake::kNeverAsk) return std::nullopt;
  std::optional<Time> next;
  if (!waiting_.empty()) next = waiting_.front().second + options_.want_after;
  if (!asked_.empty()) {
    Time again = asked_.front().second + options_.want_again_after;
    next = next.has_value() ? std::min(*next, again) : again;
  }
  return next;
}

void Shard::CollectWants(Waiters& waiters, Duration after, Time now) {
  while (!waiters.empty() && waiters.front().second + after <= now) {
    wire::PieceRef ref = waiters.front().first;
    waiters.pop_front();
    const Round* round = OpenRoundOf(ref);
    if (round == nullptr) continue;
    asked_.push_back({ref, now});
    for (Slot slot = 0; slot < members_.size(); ++slot) {
      const Member& member = members_[slot];
      if (member.present && !member.left && !round->contributions[slot].arrived) {
        wanted_[slot].push_back(ref);
      }
    }
  }
}

void Shard::OnTick(Time now) {
  for (auto& wanted : wanted_) wanted.clear();
  CollectWants(asked_, options_.want_again_after, now);
  CollectWants(waiting_, options_.want_after, now);
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    for (size_t at = 0; at < wanted_[slot].size(); at += wire::kWantCountMax) {
      auto first = wanted_[slot].begin() + static_cast<ptrdiff_t>(at);
      size_t count = std::min(wire::kWantCountMax, wanted_[slot].size() - at);
      driver_.SendWant(slot, {first, first + static_cast<ptrdiff_t>(count)});
    }
  }
}

}  // namespace byteps::protocol
