// Rounds: contributions come in, a verdict goes out. shard_members.cc has views, connections and
// who holds what; shard_recovery.cc what members say after a piece moved or a connection broke.
#include "src/protocol/shard/shard.h"

#include <algorithm>
#include <cassert>

namespace byteps::protocol {
namespace {

Status Wrong(const std::string& what) { return {StatusCode::kProtocol, "push refused: " + what}; }

}  // namespace

Shard::Shard(const ShardOptions& options, BufferPool& pool, Arithmetic& arithmetic,
             ShardDriver& driver)
    : options_(options), pool_(pool), arithmetic_(arithmetic), driver_(driver) {}

Status Shard::CheckSender(Slot from, const wire::DataHeader& header) const {
  bool fenced = options_.mistake != ShardMistake::kNoFence;
  if (from >= members_.size() || (fenced && !members_[from].present)) {
    return Wrong("slot " + std::to_string(from) + " is not in the view");
  }
  if (members_[from].receiving) return Wrong("a push began inside another one");
  if (header.piece_bytes > options_.piece_bytes_max) return Wrong("the piece is too large");
  if (header.ref.round == 0) return Wrong("rounds count from 1");
  if (header.codec != 0) return Wrong("this server has no codec");
  if (header.home >= ownership_.shards().size()) return Wrong("its home is no shard of the view");
  return Status::Ok();
}

Status Shard::CheckPush(const wire::DataHeader& header, size_t payload_bytes) const {
  if (header.generation != generation_) return Wrong("it belongs to another generation");
  if (header.status != StatusCode::kOk) return Wrong("it is no push");
  if (header.combine == Combine::kOverlay) return Status::Ok();
  if (header.offset != 0 || payload_bytes != header.piece_bytes ||
      header.piece_bytes % SizeOf(header.dtype) != 0) {
    return Wrong("only a part of the piece was pushed");
  }
  return Status::Ok();
}

// Of two who contradict each other nobody can say who is right: both are named.
std::string Shard::PusherOf(const Round& round) const {
  for (Slot slot = 0; slot < round.contributions.size(); ++slot) {
    const Member& member = members_[slot];
    bool pushes = member.receiving && member.fate == Fate::kContribution &&
                  member.receiving_for == round.serial;
    if (pushes || round.contributions[slot].arrived) return "worker " + std::to_string(slot);
  }
  return "another";
}

// What declarations guarantee is checked again where it is cheap: the piece must be one thing.
Status Shard::CheckRound(const Round& round, const Group& group, Slot from,
                         const wire::DataHeader& header) const {
  auto who = [&] { return "worker " + std::to_string(from); };
  if (header.ref.round != round.ref.round) {
    return Wrong(who() + " pushed round " + std::to_string(header.ref.round) + " where " +
                 PusherOf(round) + " pushed round " + std::to_string(round.ref.round) +
                 ": tensor " + std::to_string(header.ref.tensor) + ", piece " +
                 std::to_string(header.ref.piece));
  }
  if (round.group != &group) {
    return Wrong(who() + " pushed for process set " + std::to_string(header.process_set) +
                 " what " + PusherOf(round) + " pushed for process set " +
                 std::to_string(round.group->number));
  }
  if (round.combine != header.combine || round.dtype != header.dtype ||
      round.piece_bytes != header.piece_bytes) {
    return Wrong(who() + " pushed " + std::to_string(header.piece_bytes) + " bytes of " +
                 NameOf(header.dtype) + " where " + PusherOf(round) + " pushed " +
                 std::to_string(round.piece_bytes) + " bytes of " + NameOf(round.dtype));
  }
  return Status::Ok();
}

// The kept verdict answers a repeat, so the repeat must be of the same piece.
Status Shard::CheckRepeat(const Piece& piece, const wire::DataHeader& header) const {
  if (!piece.errors.empty() || piece.stable) return Status::Ok();
  if (header.ref.round < piece.decided) return Wrong("its round is over for everybody");
  if (header.combine != piece.combine || header.dtype != piece.dtype ||
      header.piece_bytes != piece.verdict_bytes) {
    return Wrong("a repeat differs from what was decided");
  }
  if (piece.hollow && header.want_bytes > 0) {
    return Wrong("it wants what all who wanted it are said to have");
  }
  return Status::Ok();
}

Result<ByteSpan> Shard::OnPushHeader(Slot from, const wire::DataHeader& header,
                                     size_t payload_bytes, Time now) {
  Status checked = CheckSender(from, header);
  if (!checked.ok()) return checked;
  now_ = std::max(now_, now);
  Member& member = members_[from];
  if (MustWait(member, header.epoch)) {
    return Hold(from, wire::FrameKind::kPush, header, payload_bytes);
  }
  TakeAck(from, header.count);
  return PlaceOfPush(from, header, payload_bytes, now);
}

Result<ByteSpan> Shard::PlaceOfPush(Slot from, const wire::DataHeader& header, size_t payload_bytes,
                                    Time now) {
  Status checked = CheckPush(header, payload_bytes);
  if (!checked.ok()) return checked;
  Member& member = members_[from];
  member.incoming = header;
  member.receiving_bytes = payload_bytes;
  member.epoch = std::max(member.epoch, header.epoch);
  plan::Owner owner;
  if (retired_.contains(header.ref.tensor) || !Counts(header, owner)) {
    return Discard(member, Fate::kDropped, payload_bytes);
  }
  Group* group = GroupOf(header.process_set);
  bool told = header.process_set == 0 || (group != nullptr && group->tellers.Contains(from));
  if (!told) {
    return Wrong("worker " + std::to_string(from) + " has not told of process set " +
                 std::to_string(header.process_set));
  }
  Piece& piece = pieces_[KeyOf(header.ref)];
  piece.home = header.home;
  piece.since = owner.since;
  if (header.ref.round <= piece.decided) {
    checked = CheckRepeat(piece, header);
    if (!checked.ok()) return checked;
    return Discard(member, Fate::kRepeat, payload_bytes);
  }
  // Who was left behind may have gone on alone, with answers that no member has: to another round,
  // or with other rows of an allgather.
  bool overtaken = piece.round != nullptr && !AnyMemberIn(*piece.round) &&
                   !CheckRound(*piece.round, *group, from, header).ok();
  if (overtaken) DropRound(piece);
  if (piece.round == nullptr) {
    if (open_rounds_ / 2 >= options_.open_rounds_max) return TooManyRounds();
    OpenRound(piece, *group, header, now);
    // It fails on every rank, and with a reason: who is only cut off comes back with the same push.
    if (open_rounds_ > options_.open_rounds_max) piece.round->abort = TooManyRounds();
  }
  Round& round = *piece.round;
  checked = CheckRound(round, *group, from, header);
  if (!checked.ok()) return checked;
  if (round.contributions[from].arrived) {
    return Discard(member, Fate::kRepeat, payload_bytes);
  }
  member.receiving = true;
  member.fate = Fate::kContribution;
  member.receiving_for = round.serial;
  return PlaceFor(round, from, header, payload_bytes);
}

Status Shard::TooManyRounds() const {
  return {
      StatusCode::kExhausted,
      "more than " + std::to_string(options_.open_rounds_max) +
          " pieces wait for other ranks on shard " + std::to_string(self_) +
          "; begin fewer operations before the other ranks do, or raise BYTEPS_PARTITION_BYTES"};
}

ByteSpan Shard::Discard(Member& member, Fate fate, size_t payload_bytes) {
  member.receiving = true;
  member.fate = fate;
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

void Shard::OpenRound(Piece& piece, Group& group, const wire::DataHeader& header, Time now) {
  if (spare_rounds_.empty()) {
    piece.round = std::make_unique<Round>();
  } else {
    piece.round = std::move(spare_rounds_.back());
    spare_rounds_.pop_back();
  }
  Round& round = *piece.round;
  round.serial = ++rounds_begun_;
  round.ref = header.ref;
  round.combine = header.combine;
  round.dtype = header.dtype;
  round.piece_bytes = header.piece_bytes;
  round.contributions.assign(members_.size(), Contribution());
  round.group = &group;
  round.missing = group.present;
  round.pushed_bytes = 0;
  round.order_of_arrival.clear();
  round.abort.reset();
  ++open_rounds_;
  ++group.open_rounds;
  waiting_.push_back({header.ref, now});
}

void Shard::DropRound(Piece& piece) {
  if (piece.round == nullptr) return;
  for (Contribution& contribution : piece.round->contributions) contribution.buffer = BufferRef();
  piece.round->overlay = BufferRef();
  Group& group = *std::exchange(piece.round->group, nullptr);
  --group.open_rounds;
  uint32_t number = group.number;
  if (!IsNeeded(group)) groups_.erase(number);
  spare_rounds_.push_back(std::move(piece.round));
  --open_rounds_;
  ForgetDecided(waiting_);
  ForgetDecided(asked_);
}

void Shard::OnPayload(Slot from) {
  Member& member = members_[from];
  assert(member.receiving);
  member.receiving = false;
  switch (member.fate) {
    case Fate::kContribution: TakeContribution(from); break;
    case Fate::kVerdict: TakeVerdict(from); break;
    case Fate::kRepeat: AnswerAgain(from); break;
    case Fate::kDropped: break;
    case Fate::kHeld:
      member.held.back().complete = true;
      Replay(from);  // its view may have come while the payload did
      break;
  }
  member.receiving_into = BufferRef();
}

void Shard::TakeContribution(Slot from) {
  const wire::DataHeader& header = members_[from].incoming;
  auto found = pieces_.find(KeyOf(header.ref));
  if (found == pieces_.end()) return;  // retired or moved away while the payload came in
  Piece& piece = found->second;
  if (header.ref.round <= piece.decided) return AnswerAgain(from);  // decided meanwhile
  // Dropped, and perhaps begun again, because the piece went away and came back meanwhile, or
  // because somebody pushed what nobody should.
  if (piece.round == nullptr || piece.round->serial != members_[from].receiving_for) return;
  Contribution& contribution = piece.round->contributions[from];
  contribution.arrived = true;
  if (members_[from].present) --piece.round->missing;
  contribution.priority = header.priority;
  contribution.want_offset = header.want_offset;
  contribution.want_bytes = header.want_bytes;
  contribution.idle = IsIdle(header, members_[from].receiving_bytes);
  piece.round->pushed_bytes += members_[from].receiving_bytes;
  piece.round->order_of_arrival.push_back(from);
  if (!piece.stable) MarkHeld(piece, from);  // who pushes the next round has the verdict
  if (piece.round != nullptr) DecideIfPossible(piece);
}

// A push of a decided round gets the verdict that is kept; a retired tensor needs none.
void Shard::AnswerAgain(Slot to) {
  const wire::DataHeader& header = members_[to].incoming;
  auto found = pieces_.find(KeyOf(header.ref));
  if (found == pieces_.end() || retired_.contains(header.ref.tensor)) return;
  Piece& piece = found->second;
  if (!Covers(piece, header.ref.round) || piece.stable) return;
  if (options_.mistake == ShardMistake::kNoAnswerToARepeat) return;
  Contribution repeat;
  repeat.want_offset = header.want_offset;
  repeat.want_bytes = header.want_bytes;
  repeat.priority = header.priority;
  repeat.idle = IsIdle(header, members_[to].receiving_bytes);
  AnswerWhenDue(piece, header.ref, to, repeat);
  AnswerIdle(piece);
}

// Has pushed, or is about to.
bool Shard::AnyMemberIn(const Round& round) const {
  for (Slot slot = 0; slot < round.contributions.size(); ++slot) {
    const Member& member = members_[slot];
    bool pushes = member.receiving && member.fate == Fate::kContribution &&
                  member.receiving_for == round.serial;
    if (member.present && (pushes || round.contributions[slot].arrived)) return true;
  }
  return false;
}

// Everybody of the group must have pushed: who has the verdict already would say so instead.
bool Shard::AllHere(const Piece& piece) const {
  const Round& round = *piece.round;
  if (round.missing == 0 || OnlyExemptMissing(piece)) return true;
  if (options_.mistake == ShardMistake::kAnswerBeforeTheLast) return round.missing == 1;
  if (options_.mistake != ShardMistake::kDecideBeforeAllPushed) return false;
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    bool heard = round.contributions[slot].arrived || members_[slot].resynced < epoch_;
    if (TakesPart(*round.group, slot) && !heard) return false;
  }
  return epoch_ > ownership_.began();
}

// The error that the round should end with: a member that left in order will never push, or
// somebody asked for it.
std::optional<Status> Shard::ErrorOf(const Piece& piece) const {
  for (Slot slot = 0; left_count_ > 0 && slot < members_.size(); ++slot) {
    if (!members_[slot].left || piece.round->contributions[slot].arrived) continue;
    if (!TakesPart(*piece.round->group, slot) || IsExempt(piece, slot)) continue;
    return Status(StatusCode::kPeerLost,
                  "worker " + std::to_string(slot) +
                      " has left the job; operations it does not take part in cannot complete");
  }
  return piece.round->abort;
}

// The kept verdict answers its round and, of errors, those before it in a row.
bool Shard::Covers(const Piece& piece, uint64_t round) {
  if (round == piece.decided) return true;
  return round < piece.decided && piece.errors.Of(round) != nullptr;
}

// An error proves nothing about the round before, and nobody may hold a sum of this one. If that
// one ended in an error too, the two are kept in a row.
bool Shard::MayDecideError(const Piece& piece) const {
  bool sum_before = !piece.stable && piece.errors.empty();
  if (sum_before && options_.mistake != ShardMistake::kErrorBeforeStable) return false;
  if (options_.mistake == ShardMistake::kErrorWithoutResync) return true;
  if (AlwaysMine(piece.since)) return true;
  return std::all_of(members_.begin(), members_.end(), [&](const Member& member) {
    return !member.present || member.left || member.resynced >= piece.since;
  });
}

void Shard::DecideIfPossible(Piece& piece) {
  if (AllHere(piece)) return Decide(piece);
  std::optional<Status> error = ErrorOf(piece);
  if (error.has_value() && MayDecideError(piece)) DecideError(piece, *error);
}

void Shard::Decide(Piece& piece) {
  Round& round = *piece.round;
  bool any = std::any_of(round.contributions.begin(), round.contributions.end(),
                         [](const Contribution& contribution) { return contribution.arrived; });
  if (!any) return DropRound(piece);  // who began it is gone, and nobody else takes part
  std::optional<Status> nobody_brings = NobodyBrings(piece);
  if (nobody_brings.has_value()) return DecideError(piece, *nobody_brings);
  if (round.combine == Combine::kLast) {
    TakeLast(round);
  } else if (round.combine != Combine::kOverlay) {
    CombineContributions(piece, round);
  }
  piece.errors.Clear();
  piece.verdict = std::move(round.overlay);
  piece.verdict_bytes = round.piece_bytes;
  std::unique_ptr<Round> decided = std::move(piece.round);
  piece.combine = decided->combine;
  piece.dtype = decided->dtype;
  SetVerdict(piece, decided->ref.round, ReceiptOf(*decided), decided->group->number);
  AnswerAll(piece, std::move(decided));
}

// Of those who are still there, if there are any.
void Shard::TakeLast(Round& round) {
  Slot last = round.order_of_arrival.back();
  for (Slot slot : round.order_of_arrival) {
    if (members_[slot].present || !members_[last].present) last = slot;
  }
  round.overlay = round.contributions[last].buffer;
}

// Slot order, whatever the order of arrival: same inputs, same bits.
void Shard::CombineContributions(const Piece& piece, Round& round) {
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
  if (round.piece_bytes > 0 && round.combine == Combine::kAverage) {
    auto divisor = static_cast<uint32_t>(inputs_.size()) + ExemptCount(piece);
    arithmetic_.Average(round.dtype, target.data(), inputs_, round.piece_bytes, divisor);
  } else if (round.piece_bytes > 0 && inputs_.size() > 1) {
    arithmetic_.Combine(round.combine, round.dtype, target.data(), inputs_, round.piece_bytes);
  }
  round.overlay = std::move(target);
}

void Shard::DecideError(Piece& piece, const Status& why) {
  piece.errors.Add(piece.round->ref.round, why);
  piece.verdict = BufferRef();
  piece.verdict_bytes = 0;
  Receipt concerned = ConcernedBy(piece);
  std::unique_ptr<Round> round = std::move(piece.round);
  piece.combine = round->combine;
  piece.dtype = round->dtype;
  SetVerdict(piece, round->ref.round, concerned, round->group->number);
  AnswerAll(piece, std::move(round));
}

const Receipt& Shard::ReceiptOf(Round& round) const {
  bool everybody = true;
  for (Slot slot = 0; slot < round.contributions.size(); ++slot) {
    everybody = everybody && round.contributions[slot].arrived == TakesPart(*round.group, slot);
  }
  if (everybody) return round.group->all;
  auto members = std::make_shared<SlotSet>();
  for (Slot slot = 0; slot < round.contributions.size(); ++slot) {
    if (round.contributions[slot].arrived) members->Insert(slot);
  }
  round.partial = std::move(members);
  return round.partial;
}

// The verdict stands in the piece; everybody who has pushed is told.
void Shard::AnswerAll(Piece& piece, std::unique_ptr<Round> round) {
  bool forget = options_.mistake == ShardMistake::kForgetToAnswerOne;
  for (Slot slot = 0; slot < round->contributions.size(); ++slot) {
    const Contribution& contribution = round->contributions[slot];
    if (!contribution.arrived || !members_[slot].present || members_[slot].left) continue;
    if (std::exchange(forget, false) && piece.decided % 3 == 0) continue;
    AnswerWhenDue(piece, round->ref, slot, contribution);
    if (options_.mistake == ShardMistake::kAnswerTwice) {
      AnswerWhenDue(piece, round->ref, slot, contribution);
    }
  }
  NoteWhoHasAll(piece, *round);
  piece.round = std::move(round);
  DropRound(piece);
  AnswerIdle(piece);
  if (piece.lacking == 0) BecomeStable(piece);
}

void Shard::Retire(const std::vector<TensorId>& tensors) {
  std::unordered_set<TensorId> now(tensors.begin(), tensors.end());
  retired_.insert(now.begin(), now.end());
  DropTensors([&](TensorId tensor) { return now.contains(tensor); });
}

void Shard::OnStillKnown(const wire::StillKnown& known) {
  std::unordered_set<TensorId> still(known.tensors.begin(), known.tensors.end());
  DropTensors([&](TensorId tensor) {
    return tensor >= known.first && tensor < known.end && !still.contains(tensor);
  });
}

void Shard::DropTensors(const std::function<bool(TensorId)>& unwanted) {
  for (auto it = pieces_.begin(); it != pieces_.end();) {
    if (!unwanted(static_cast<TensorId>(it->first >> 32))) {
      ++it;
      continue;
    }
    // The round before the one that failed has ended for somebody: it ends for all.
    AnswerIdleNow(it->second);
    if (!it->second.stable) --unstable_verdicts_;
    DropRound(it->second);
    it = pieces_.erase(it);
  }
}

}  // namespace byteps::protocol
