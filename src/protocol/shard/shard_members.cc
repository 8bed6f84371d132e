// The shard's members: views, connections, numbered answers, and who holds which verdict.
#include <algorithm>

#include "src/protocol/shard/shard.h"
#include "src/protocol/view_parts.h"

namespace byteps::protocol {

void Shard::OnView(const wire::View& view, ShardId self) {
  uint64_t old_epoch = epoch_;
  bool begins = view.generation != generation_;
  epoch_ = view.epoch;
  self_ = self;
  ownership_ = OwnershipOf(view);
  everybody_.all = WorkersOf(view);
  if (begins) BeginGeneration(view);
  present_count_ = 0;
  left_count_ = 0;
  std::vector<bool> was_present(members_.size());
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    was_present[slot] = std::exchange(members_[slot].present, false);
  }
  for (const wire::WorkerInfo& worker : view.workers) {
    members_[worker.slot].present = true;
    members_[worker.slot].left = worker.left;
    ++present_count_;
    if (worker.left) ++left_count_;
  }
  ReviewGroups();
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    if (!was_present[slot] || members_[slot].present) continue;
    if (options_.mistake != ShardMistake::kNoFence) OnLost(slot);
  }
  if (!begins) ReviewPieces(old_epoch);
  for (Slot slot = 0; slot < members_.size(); ++slot) Replay(slot);
}

void Shard::BeginGeneration(const wire::View& view) {
  generation_ = view.generation;
  pieces_.clear();
  groups_.clear();
  everybody_.open_rounds = 0;
  last_join_ = 0;
  retired_.clear();
  while (!waiting_.empty()) waiting_.pop_front();
  while (!asked_.empty()) asked_.pop_front();
  open_rounds_ = 0;
  unstable_verdicts_ = 0;
  stable_due_.reset();
  Slot end = 0;
  for (const wire::WorkerInfo& worker : view.workers) end = std::max(end, worker.slot + 1);
  // What waits for this very view must not be lost.
  std::vector<Member> members(end);
  for (Slot slot = 0; slot < std::min<size_t>(end, members_.size()); ++slot) {
    members[slot].held = std::move(members_[slot].held);
    members[slot].held_bytes = members_[slot].held_bytes;
  }
  members_ = std::move(members);
  wanted_.resize(members_.size());
}

// Pieces that went to others are theirs, and what I knew of a piece before it went away and came
// back is worth nothing: others have decided about it meanwhile.
void Shard::ReviewPieces(uint64_t old_epoch) {
  // Answers about pieces that go away here count as stable, and may have held back news of others.
  if (!stable_due_.has_value()) stable_due_ = now_ + options_.stable_after;
  for (auto it = pieces_.begin(); it != pieces_.end();) {
    Piece& piece = it->second;
    auto tensor = static_cast<TensorId>(it->first >> 32);
    auto index = static_cast<uint32_t>(it->first);
    plan::Owner owner{self_ + 1, 0};
    if (ownership_.any()) owner = ownership_.OwnerOf(piece.home, tensor, index);
    bool stays = owner.shard == self_ && owner.since <= old_epoch;
    if (options_.mistake == ShardMistake::kIgnoreSince) stays = true;
    if (stays) {
      ++it;
      continue;
    }
    if (!piece.stable) --unstable_verdicts_;
    DropRound(piece);
    it = pieces_.erase(it);
  }
  for (auto& [key, piece] : pieces_) {
    if (!piece.stable) Recount(piece);
    if (piece.round == nullptr) continue;
    piece.round->missing = 0;
    for (Slot slot = 0; slot < members_.size(); ++slot) {
      bool here = piece.round->contributions[slot].arrived;
      if (!here && TakesPart(*piece.round->group, slot)) ++piece.round->missing;
    }
    DecideIfPossible(piece);
  }
}

// Who takes no part in a round is not in its receipt, and has no use for its verdict. Who has
// joined since has only the join open: it has the verdict, or never pushed.
bool Shard::Needs(const Piece& piece, Slot slot) const {
  const Member& member = members_[slot];
  return member.present && !member.left && piece.members->Contains(slot) &&
         (piece.combine == Combine::kLast || member.joined <= wire::JoinsOf(piece.decided));
}

void Shard::Recount(Piece& piece) {
  piece.lacking = 0;
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    if (Needs(piece, slot) && !piece.held.Contains(slot)) ++piece.lacking;
  }
  if (piece.lacking == 0) return BecomeStable(piece);
  AnswerIdle(piece);
}

// A verdict stands in the piece; nobody is known to hold it.
void Shard::SetVerdict(Piece& piece, uint64_t round, const Receipt& members,
                       std::optional<uint32_t> group) {
  if (piece.stable) ++unstable_verdicts_;
  piece.stable = false;
  piece.hollow = false;
  piece.decided = round;
  SetReceipt(piece.members, members);
  piece.group = group;
  piece.held.Clear();
  piece.idle.reset();
  bool none_joined = last_join_ <= wire::JoinsOf(round) || piece.combine == Combine::kLast;
  if (piece.members == everybody_.all && none_joined) {
    piece.lacking = present_count_ - left_count_;
    return;
  }
  piece.lacking = 0;
  for (Slot slot = 0; slot < members_.size(); ++slot) piece.lacking += Needs(piece, slot) ? 1 : 0;
}

void Shard::MarkHeld(Piece& piece, Slot by) {
  if (!piece.held.Insert(by)) return;  // a repeat was answered too
  if (!Needs(piece, by)) return;
  if (--piece.lacking == 0) return BecomeStable(piece);
  AnswerIdle(piece);
}

void Shard::BecomeStable(Piece& piece) {
  piece.stable = true;
  piece.errors.Clear();
  piece.verdict = BufferRef();
  piece.idle.reset();
  --unstable_verdicts_;
  if (!stable_due_.has_value()) stable_due_ = now_ + options_.stable_after;
  // An error may have waited for this.
  if (piece.round != nullptr) DecideIfPossible(piece);
}

bool Shard::IsStable(const Answered& answered) const {
  auto found = pieces_.find(KeyOf(answered.ref));
  if (found == pieces_.end()) return true;
  const Piece& piece = found->second;
  return piece.since != answered.since || piece.stable || !Covers(piece, answered.ref.round);
}

// The number up to which the answers to this member are stable.
uint64_t Shard::StableCount(Member& member) {
  while (!member.answered.empty() && IsStable(member.answered.front())) {
    member.answered.pop_front();
  }
  return member.answers_sent - member.answered.size();
}

void Shard::Number(Member& member, const Piece& piece, wire::DataHeader& header) {
  member.answered.push_back({header.ref, piece.since});
  header.epoch = epoch_;
  header.generation = generation_;
  header.count = ++member.answers_sent;
  member.stable_told = StableCount(member);  // this one too, if it only confirms what is stable
  header.unstable = static_cast<uint32_t>(header.count - member.stable_told);
  header.home = piece.home;
  header.combine = piece.combine;
  header.dtype = piece.dtype;
  header.piece_bytes = piece.verdict_bytes;
}

// The receipt is everybody of the tensor's group in this view. Where the group is not known, or not
// any more, it cannot be smaller than the receipt.
bool Shard::IsAll(const Piece& piece) const {
  const Receipt& everybody = everybody_.all;
  if (piece.members == everybody || *piece.members == *everybody) return true;
  if (piece.group.value_or(0) == 0) return false;
  auto found = groups_.find(*piece.group);
  if (found == groups_.end()) return false;
  const Receipt& all = found->second.all;
  return piece.members == all || *piece.members == *all;
}

void Shard::Answer(Piece& piece, const wire::PieceRef& ref, Slot to, uint32_t want_offset,
                   uint32_t want_bytes, int32_t priority) {
  Member& member = members_[to];
  wire::DataHeader header;
  header.ref = ref;
  header.priority = priority;
  Number(member, piece, header);
  header.offset = want_offset;
  header.want_offset = want_offset;
  header.want_bytes = want_bytes;
  header.encoded_bytes = want_bytes;
  if (want_bytes == piece.verdict_bytes) {  // the whole verdict needs no range on the wire
    header.offset = header.want_offset = 0;
  }
  Send(piece, to, header, ConstByteSpan(piece.verdict.data() + want_offset, want_bytes),
       piece.verdict);
}

// The row up to that round: whoever holds its last error can tell all of it to another owner.
void Shard::AnswerError(Piece& piece, const wire::PieceRef& ref, Slot to, int32_t priority) {
  std::vector<std::byte> row = piece.errors.Encode(ref.round);
  BufferRef payload = pool_.Take(row.size());
  std::copy(row.begin(), row.end(), payload.data());
  wire::DataHeader header;
  header.ref = ref;
  header.priority = priority;
  Number(members_[to], piece, header);
  header.status = piece.errors.Of(ref.round)->code();
  header.piece_bytes = header.want_bytes = static_cast<uint32_t>(row.size());
  header.encoded_bytes = header.piece_bytes;
  Send(piece, to, header, ConstByteSpan(payload.data(), row.size()), payload);
}

void Shard::Send(const Piece& piece, Slot to, wire::DataHeader& header, ConstByteSpan bytes,
                 const BufferRef& keep) {
  // Who skips a view never learns who was in it.
  bool all = members_[to].epoch == epoch_ && IsAll(piece);
  if (all) return driver_.SendAnswer(to, header, bytes, keep);
  // The receipt goes before the bytes.
  header.receipt = static_cast<uint32_t>(piece.members->bitmap_bytes());
  BufferRef both = pool_.Take(header.receipt + bytes.size());
  piece.members->ToBitmap(ByteSpan(both.data(), header.receipt));
  arithmetic_.Copy(both.data() + header.receipt, bytes.data(), bytes.size());
  driver_.SendAnswer(to, header, ConstByteSpan(both.data(), header.receipt + bytes.size()), both);
}

// What it did not take, because the piece has moved in a view that is not here yet, counts too: so
// the news waits for that view, in which the piece is nothing of ours.
void Shard::OnAck(Slot from, const wire::Progress& ack, Time now) {
  now_ = std::max(now_, now);
  if (from >= members_.size()) return;
  Member& member = members_[from];
  if (!MustWait(member, ack.epoch)) {
    member.epoch = std::max(member.epoch, ack.epoch);
    return TakeAck(from, ack.count);
  }
  Held held;
  held.kind = wire::FrameKind::kAck;
  held.epoch = ack.epoch;
  held.header.count = ack.count;
  Keep(member, std::move(held));
}

void Shard::TakeAck(Slot from, uint64_t count) {
  Member& member = members_[from];
  count = std::min(count, member.answers_sent);
  while (member.answers_acknowledged < count) {
    uint64_t number = ++member.answers_acknowledged;
    uint64_t first_kept = member.answers_sent - member.answered.size() + 1;
    if (number < first_kept) continue;
    const Answered answered = member.answered[number - first_kept];
    auto found = pieces_.find(KeyOf(answered.ref));
    if (found == pieces_.end()) continue;
    Piece& piece = found->second;
    bool current = piece.decided == answered.ref.round && piece.since == answered.since;
    if (current && !piece.stable) MarkHeld(piece, from);
  }
}

void Shard::OnLost(Slot from) {
  if (from >= members_.size()) return;
  Member& member = members_[from];
  member.receiving_into = BufferRef();
  member.answers_sent = 0;
  member.answers_acknowledged = 0;
  member.stable_told = 0;
  member.sent_before_tick = 0;
  member.epoch = 0;
  member.resynced = 0;
  member.held.clear();
  member.held_bytes = 0;
  ForgetTellerOfAll(from);
  while (!member.answered.empty()) member.answered.pop_front();
  if (!std::exchange(member.receiving, false) || member.fate != Fate::kContribution) return;
  auto found = pieces_.find(KeyOf(member.incoming.ref));
  if (found == pieces_.end() || found->second.round == nullptr) return;
  if (from >= found->second.round->contributions.size()) return;
  Contribution& contribution = found->second.round->contributions[from];
  if (!contribution.arrived) contribution.buffer = BufferRef();
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
  std::optional<Time> next = stable_due_;
  auto consider = [&](Time due) { next = next.has_value() ? std::min(*next, due) : due; };
  if (options_.mistake == ShardMistake::kNeverAsk) return next;
  if (!waiting_.empty()) consider(waiting_.front().second + options_.want_after);
  if (!asked_.empty()) consider(asked_.front().second + options_.want_again_after);
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
      bool waited_for = TakesPart(*round->group, slot) && !members_[slot].left &&
                        !round->contributions[slot].arrived;
      bool exempt = MayBeExempt(*round) && IsExempt(pieces_.at(KeyOf(ref)), slot);
      if (waited_for && !exempt) wanted_[slot].push_back(ref);
    }
  }
}

void Shard::SendWants() {
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    for (size_t at = 0; at < wanted_[slot].size(); at += wire::kWantCountMax) {
      auto first = wanted_[slot].begin() + static_cast<ptrdiff_t>(at);
      size_t count = std::min(wire::kWantCountMax, wanted_[slot].size() - at);
      driver_.SendWant(slot, {first, first + static_cast<ptrdiff_t>(count)});
    }
  }
}

// Answers carry the news; members that get none are told. One look later, so that a busy
// connection carries nothing extra.
void Shard::TellStable(Time now) {
  stable_due_.reset();
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    Member& member = members_[slot];
    if (!member.present || member.left) continue;
    uint64_t stable = StableCount(member);
    bool busy = std::exchange(member.sent_before_tick, member.answers_sent) != member.answers_sent;
    if (stable == member.stable_told) continue;
    if (busy) {
      stable_due_ = now + options_.stable_after;
      continue;
    }
    member.stable_told = stable;
    driver_.SendStable(slot, {stable, epoch_});
  }
}

void Shard::OnTick(Time now) {
  now_ = std::max(now_, now);
  if (stable_due_.has_value() && *stable_due_ <= now) TellStable(now);
  for (auto& wanted : wanted_) wanted.clear();
  CollectWants(asked_, options_.want_again_after, now);
  CollectWants(waiting_, options_.want_after, now);
  SendWants();
}

}  // namespace byteps::protocol
