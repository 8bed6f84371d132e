// What members say after a piece moved here or a connection broke, and what must wait for a view
// that is not here yet. docs/membership.md has the rules by number.
#include <cassert>
#include <utility>

#include "src/protocol/shard/shard.h"

namespace byteps::protocol {
namespace {

Status Wrong(const std::string& what) {
  return {StatusCode::kProtocol, "verdict refused: " + what};
}

// Its sender wanted nothing of the piece, so it has only the receipt.
bool IsHollow(const wire::DataHeader& header, size_t payload_bytes) {
  return header.status == StatusCode::kOk && header.piece_bytes > 0 && header.want_bytes == 0 &&
         payload_bytes == header.receipt;
}

}  // namespace

// A message of a newer view waits, and so does everything behind it on its connection.
bool Shard::MustWait(const Member& member, uint64_t epoch) const {
  if (options_.mistake == ShardMistake::kJudgeByTheOldView) return false;
  return epoch > epoch_ || !member.held.empty();
}

// One frame more than the limit at most.
Status Shard::CheckHeld(Slot from) const {
  if (from >= members_.size() || members_[from].held_bytes <= options_.held_bytes_max) {
    return Status::Ok();
  }
  return {StatusCode::kExhausted,
          "worker " + std::to_string(from) + " sent " + std::to_string(members_[from].held_bytes) +
              " bytes for a view that is not here yet; they are read when it is"};
}

void Shard::Keep(Member& member, Held held) {
  member.held_bytes += held.bytes();
  member.held.push_back(std::move(held));
}

Result<ByteSpan> Shard::Hold(Slot from, wire::FrameKind kind, const wire::DataHeader& header,
                             size_t payload_bytes) {
  Status checked = CheckHeld(from);
  if (!checked.ok()) return checked;
  Member& member = members_[from];
  Held held;
  held.kind = kind;
  held.header = header;
  held.payload = pool_.Take(payload_bytes);
  held.payload_bytes = payload_bytes;
  held.complete = false;
  held.epoch = header.epoch;
  ByteSpan place(held.payload.data(), payload_bytes);
  Keep(member, std::move(held));
  member.receiving = true;
  member.fate = Fate::kHeld;
  return place;
}

void Shard::Replay(Slot slot) {
  Member& member = members_[slot];
  while (!member.held.empty()) {
    if (member.held.front().epoch > epoch_ || !member.held.front().complete) return;
    Held held = std::move(member.held.front());
    member.held.pop_front();
    member.held_bytes -= held.bytes();
    // What is replayed must not find itself behind what still waits.
    std::deque<Held> rest = std::exchange(member.held, {});
    ReplayOne(slot, std::move(held));
    member.held = std::move(rest);
  }
}

// A message that no correct worker sends is dropped here: its sender's connection is beyond reach
// from inside a view change, and the sender will hang on its own mistake only.
void Shard::ReplayOne(Slot slot, Held held) {
  Member& member = members_[slot];
  switch (held.kind) {
    case wire::FrameKind::kAck: return TakeAck(slot, held.header.count);
    case wire::FrameKind::kHave: return OnHave(slot, held.epoch, held.pieces);
    case wire::FrameKind::kResync: return OnResync(slot, held.epoch);
    case wire::FrameKind::kAbort: return OnAbort(slot, held.header, held.text);
    case wire::FrameKind::kJoined: return OnJoined(slot, {held.header.count, held.epoch});
    case wire::FrameKind::kGroup:
      static_cast<void>(OnGroup(slot, {held.header.count, held.epoch}, held.bitmap));
      return;
    default: break;
  }
  TakeAck(slot, held.header.count);
  bool receiving = std::exchange(member.receiving, false);
  Fate fate = member.fate;
  bool verdict = held.kind == wire::FrameKind::kVerdict;
  Result<ByteSpan> place = verdict ? PlaceOfVerdict(slot, held.header, held.payload_bytes)
                                   : PlaceOfPush(slot, held.header, held.payload_bytes, now_);
  if (place.ok()) {
    arithmetic_.Copy(place.value().data(), held.payload.data(), held.payload_bytes);
    OnPayload(slot);
  }
  member.receiving = receiving;
  member.fate = fate;
}

// A push or verdict counts when both sides agree who owns the piece, and since when.
bool Shard::Counts(const wire::DataHeader& header, plan::Owner& owner) const {
  if (!ownership_.any()) return false;
  owner = ownership_.OwnerOf(header.home, header.ref.tensor, header.ref.piece);
  if (options_.mistake == ShardMistake::kIgnoreSince) return owner.shard == self_;
  return owner.shard == self_ && header.epoch >= owner.since;
}

Result<ByteSpan> Shard::OnVerdictHeader(Slot from, const wire::DataHeader& header,
                                        size_t payload_bytes, Time now) {
  Status checked = CheckSender(from, header);
  if (!checked.ok()) return checked;
  now_ = std::max(now_, now);
  Member& member = members_[from];
  if (MustWait(member, header.epoch)) {
    return Hold(from, wire::FrameKind::kVerdict, header, payload_bytes);
  }
  TakeAck(from, header.count);
  return PlaceOfVerdict(from, header, payload_bytes);
}

Result<ByteSpan> Shard::PlaceOfVerdict(Slot from, const wire::DataHeader& header,
                                       size_t payload_bytes) {
  Member& member = members_[from];
  if (header.generation != generation_) return Wrong("it belongs to another generation");
  bool whole = header.status != StatusCode::kOk || IsHollow(header, payload_bytes) ||
               header.piece_bytes + header.receipt == payload_bytes;
  if (!whole || header.receipt > payload_bytes ||
      payload_bytes > options_.piece_bytes_max + size_t{wire::kMembersMax}) {
    return Wrong("it is not the whole verdict");
  }
  member.incoming = header;
  member.epoch = std::max(member.epoch, header.epoch);
  plan::Owner owner;
  if (retired_.contains(header.ref.tensor) || !Counts(header, owner)) {
    return Discard(member, Fate::kDropped, payload_bytes);
  }
  if (AlwaysMine(owner.since) && header.ref.round > DecidedRoundOf(header.ref)) {
    return Wrong("worker " + std::to_string(from) + " tells the verdict of round " +
                 std::to_string(header.ref.round) + ", which nobody has decided");
  }
  member.receiving_into = pool_.Take(payload_bytes);
  member.receiving_bytes = payload_bytes;
  member.receiving = true;
  member.fate = Fate::kVerdict;
  return ByteSpan(member.receiving_into.data(), payload_bytes);
}

// 0: none yet.
uint64_t Shard::DecidedRoundOf(const wire::PieceRef& ref) const {
  auto found = pieces_.find(KeyOf(ref));
  return found == pieces_.end() ? 0 : found->second.decided;
}

// A verdict in hand wins over contributions; contributions to the next round stay, their senders
// hold this one.
void Shard::TakeVerdict(Slot from) {
  Member& member = members_[from];
  const wire::DataHeader header = member.incoming;
  plan::Owner owner;
  if (!Counts(header, owner)) return;  // a view came while the payload did
  Piece& piece = pieces_[KeyOf(header.ref)];
  piece.home = header.home;
  piece.since = owner.since;
  if (options_.mistake == ShardMistake::kVerdictIsAContribution && piece.round != nullptr &&
      piece.round->ref == header.ref && !piece.round->contributions[from].arrived &&
      member.receiving_bytes == header.receipt + header.piece_bytes) {
    Contribution& contribution = piece.round->contributions[from];
    contribution.buffer = pool_.Take(header.piece_bytes);
    arithmetic_.Copy(contribution.buffer.data(), member.receiving_into.data() + header.receipt,
                     header.piece_bytes);
    contribution.arrived = true;
    --piece.round->missing;
    return DecideIfPossible(piece);
  }
  if (header.ref.round > piece.decided) Adopt(piece, from, header);
  if (header.ref.round == piece.decided && !piece.stable) MarkHeld(piece, from);
  if (!piece.stable && piece.lacking == 0) BecomeStable(piece);
  AnswerIdle(piece);
  Acknowledge(piece, from);
}

void Shard::Adopt(Piece& piece, Slot from, const wire::DataHeader& header) {
  Member& member = members_[from];
  std::unique_ptr<Round> open = std::move(piece.round);
  uint32_t skip = header.receipt;
  Receipt members = everybody_.all;
  if (skip > 0) {
    ConstByteSpan bitmap(member.receiving_into.data(), skip);
    auto named = std::make_shared<SlotSet>(SlotSet::FromBitmap(bitmap));
    if (!(*named == *members)) members = std::move(named);
  }
  piece.combine = header.combine;
  piece.dtype = header.dtype;
  SetVerdict(piece, header.ref.round, members, std::nullopt);
  AdoptBytes(piece, header, member, skip);
  if (open == nullptr) return;
  if (open->ref.round > header.ref.round) {
    bool drop = options_.mistake == ShardMistake::kVerdictDropsNextRound;
    for (Slot slot = 0; slot < open->contributions.size(); ++slot) {
      if (open->contributions[slot].arrived && !drop) piece.held.Insert(slot);
    }
    piece.round = std::move(open);
    if (drop) return DropRound(piece);
    return Recount(piece);
  }
  // Everybody who pushed this round, or an earlier one of errors in a row, waits for it; their
  // answers need what they asked for.
  for (Slot slot = 0; slot < open->contributions.size(); ++slot) {
    const Contribution& contribution = open->contributions[slot];
    bool waits = Covers(piece, open->ref.round) && contribution.arrived && members_[slot].present &&
                 !members_[slot].left;
    if (waits) AnswerWhenDue(piece, open->ref, slot, contribution);
  }
  NoteWhoHasAll(piece, *open);
  piece.round = std::move(open);
  DropRound(piece);
}

void Shard::AdoptBytes(Piece& piece, const wire::DataHeader& header, const Member& member,
                       uint32_t skip) {
  size_t bytes = member.receiving_bytes - skip;
  piece.errors.Clear();
  piece.verdict = BufferRef();
  piece.verdict_bytes = 0;
  if (header.status != StatusCode::kOk) {
    ConstByteSpan errors(member.receiving_into.data() + skip, bytes);
    Result<wire::ErrorRow> row = wire::ErrorRow::Decode(errors, header.ref.round);
    if (row.ok()) piece.errors = std::move(row.value());
    if (!row.ok()) piece.errors.Add(header.ref.round, {header.status, "no reason was given"});
    return;
  }
  piece.hollow = IsHollow(header, member.receiving_bytes);
  piece.verdict_bytes = piece.hollow ? header.piece_bytes : static_cast<uint32_t>(bytes);
  piece.verdict = member.receiving_into;
  if (skip == 0) return;
  piece.verdict = pool_.Take(bytes);
  arithmetic_.Copy(piece.verdict.data(), member.receiving_into.data() + skip, bytes);
}

// Tells the sender of a verdict under which number its stability will be told.
void Shard::Acknowledge(Piece& piece, Slot to) {
  wire::DataHeader header;
  header.ref = members_[to].incoming.ref;
  Number(members_[to], piece, header);
  driver_.SendAnswer(to, header, {}, {});
}

void Shard::OnHave(Slot from, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces) {
  if (from >= members_.size()) return;
  Member& member = members_[from];
  if (MustWait(member, epoch)) {
    Held held;
    held.kind = wire::FrameKind::kHave;
    held.epoch = epoch;
    held.pieces = pieces;
    Keep(member, std::move(held));
    return;
  }
  for (const wire::HeldPiece& held : pieces) {
    wire::DataHeader header;
    header.ref = held.ref;
    header.home = held.home;
    header.epoch = epoch;
    plan::Owner owner;
    bool counts = held.home < ownership_.shards().size() && Counts(header, owner);
    if (counts && !retired_.contains(held.ref.tensor)) TakeHave(from, held, owner);
  }
}

// What one member knows to be stable is so for all: whoever brings the verdict need not wait. Of a
// piece that nobody else has ever owned, this shard has told everybody what is stable: news is only
// that the sender has a verdict which is for it alone.
void Shard::TakeHave(Slot from, const wire::HeldPiece& held, const plan::Owner& owner) {
  if (AlwaysMine(owner.since)) {
    auto found = pieces_.find(KeyOf(held.ref));
    bool lacks =
        found != pieces_.end() && found->second.decided == held.ref.round && !found->second.stable;
    if (lacks) MarkHeld(found->second, from);
    return;
  }
  Piece& piece = pieces_[KeyOf(held.ref)];
  piece.home = held.home;
  piece.since = owner.since;
  if (piece.round != nullptr && piece.round->ref.round <= held.ref.round) return;
  if (held.ref.round < piece.decided) return;
  piece.decided = held.ref.round;
  if (!piece.stable) BecomeStable(piece);
}

void Shard::OnResync(Slot from, uint64_t epoch) {
  if (from >= members_.size()) return;
  Member& member = members_[from];
  if (MustWait(member, epoch)) {
    Held held;
    held.kind = wire::FrameKind::kResync;
    held.epoch = epoch;
    Keep(member, std::move(held));
    return;
  }
  member.epoch = std::max(member.epoch, epoch);
  member.resynced = std::max(member.resynced, epoch);
  for (auto& [key, piece] : pieces_) {
    if (piece.round != nullptr) DecideIfPossible(piece);
  }
}

void Shard::OnAbort(Slot from, const wire::DataHeader& push, const std::string& why) {
  if (from >= members_.size()) return;
  Member& member = members_[from];
  if (MustWait(member, push.epoch)) {
    Held held;
    held.kind = wire::FrameKind::kAbort;
    held.epoch = push.epoch;
    held.header = push;
    held.text = why;
    Keep(member, std::move(held));
    return;
  }
  Round* round = OpenRoundOf(push.ref);
  if (round == nullptr || round->abort.has_value()) return;
  auto found = pieces_.find(KeyOf(push.ref));
  if (push.epoch < found->second.since) return;
  std::string missing = Missing(found->second, false);
  std::string whom = missing.empty() ? "" : "; it has no part of rank " + missing;
  round->abort = Status(StatusCode::kDeadlineExceeded, why + whom);
  DecideIfPossible(found->second);
}

}  // namespace byteps::protocol
