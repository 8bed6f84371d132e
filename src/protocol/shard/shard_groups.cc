// Who takes part in a round: the members of its group, without those that have joined. And who of
// them is answered later, because it wants nothing. docs/decisions/0011-rounds-of-some.md.
#include <algorithm>
#include <iterator>
#include <utility>

#include "src/protocol/shard/shard.h"

namespace byteps::protocol {
namespace {

Status Wrong(const std::string& what) {
  return {StatusCode::kProtocol, what + "; add the same ranks under the same number everywhere"};
}

std::string ListOf(const SlotSet& slots) {
  constexpr size_t kNamedMax = 16;
  std::vector<Slot> all = slots.List();
  std::string text;
  for (size_t i = 0; i < std::min(all.size(), kNamedMax); ++i) {
    text += (text.empty() ? "" : ", ") + std::to_string(all[i]);
  }
  if (all.size() > kNamedMax) text += " and " + std::to_string(all.size() - kNamedMax) + " more";
  return text;
}

}  // namespace

Shard::Group* Shard::GroupOf(uint32_t number) {
  if (number == 0) return &everybody_;
  auto found = groups_.find(number);
  return found == groups_.end() ? nullptr : &found->second;
}

bool Shard::InGroup(const Group& group, Slot slot) const {
  return &group == &everybody_ || group.slots.Contains(slot);
}

// It is waited for, unless it is exempt.
bool Shard::TakesPart(const Group& group, Slot slot) const {
  return members_[slot].present && InGroup(group, slot);
}

// REQUIRES: who is present is known.
void Shard::ReviewGroups() {
  everybody_.present = present_count_;
  for (auto& [number, group] : groups_) CountPresent(group);
}

void Shard::CountPresent(Group& group) const {
  group.all = std::make_shared<SlotSet>(group.slots.And(*everybody_.all));
  group.present = group.all->count();
}

Status Shard::OnGroup(Slot from, const wire::Progress& number, ConstByteSpan bitmap) {
  if (from >= members_.size()) return Status::Ok();
  Member& member = members_[from];
  if (MustWait(member, number.epoch)) {
    Held held;
    held.kind = wire::FrameKind::kGroup;
    held.epoch = number.epoch;
    held.header.count = number.count;
    held.bitmap.assign(bitmap.begin(), bitmap.end());
    Keep(member, std::move(held));
    return Status::Ok();
  }
  bool valid = number.count > 0 && number.count <= UINT32_MAX;
  if (valid && bitmap.empty()) {
    RemoveTeller(from, static_cast<uint32_t>(number.count));
    return Status::Ok();
  }
  // Slots that this generation has not are in no round.
  SlotSet slots =
      SlotSet::FromBitmap(bitmap.first(std::min(bitmap.size(), (members_.size() + 7) / 8)));
  if (!valid || !slots.Contains(from)) {
    return Wrong("worker " + std::to_string(from) + " tells of process set " +
                 std::to_string(number.count) + ", which it is not in");
  }
  return AddTeller(from, static_cast<uint32_t>(number.count), std::move(slots));
}

// Of two who contradict each other nobody can say who is right: both are named.
Status Shard::AddTeller(Slot from, uint32_t number, SlotSet slots) {
  auto found = groups_.find(number);
  bool known = found != groups_.end();
  if (known && found->second.tellers.Contains(from) && found->second.slots == slots) {
    return Status::Ok();
  }
  const std::string who = "worker " + std::to_string(from);
  if (known && !(found->second.slots == slots)) {
    std::vector<Slot> tellers = found->second.tellers.List();
    std::string other = tellers.empty() ? "another one" : "worker " + std::to_string(tellers[0]);
    return Wrong("process set " + std::to_string(number) + " has slots " + ListOf(slots) + " on " +
                 who + " and " + ListOf(found->second.slots) + " on " + other);
  }
  if (members_[from].groups >= wire::kGroupsMax) {
    return {StatusCode::kProtocol, who + " is in more than " + std::to_string(wire::kGroupsMax) +
                                       " process sets at a time"};
  }
  Group& group = groups_[number];
  group.tellers.Insert(from);
  ++members_[from].groups;
  if (known) return Status::Ok();
  group.number = number;
  group.slots = std::move(slots);
  CountPresent(group);
  return Status::Ok();
}

// A number is never used again, and all tell before they push: nothing of a set must be remembered
// that is in no round and that nobody may push for.
bool Shard::IsNeeded(const Group& group) const {
  return &group == &everybody_ || group.open_rounds > 0 || !group.tellers.empty();
}

void Shard::RemoveTeller(Slot from, uint32_t number) {
  auto found = groups_.find(number);
  if (found == groups_.end() || !found->second.tellers.Remove(from)) return;
  --members_[from].groups;
  if (!IsNeeded(found->second)) groups_.erase(found);
}

void Shard::ForgetTellerOfAll(Slot from) {
  if (std::exchange(members_[from].groups, 0) == 0) return;
  for (auto it = groups_.begin(); it != groups_.end();) {
    Group& group = it->second;
    bool told = group.tellers.Remove(from);
    it = told && !IsNeeded(group) ? groups_.erase(it) : std::next(it);
  }
}

void Shard::OnJoined(Slot from, const wire::Progress& number) {
  if (from >= members_.size()) return;
  Member& member = members_[from];
  if (MustWait(member, number.epoch)) {
    Held held;
    held.kind = wire::FrameKind::kJoined;
    held.epoch = number.epoch;
    held.header.count = number.count;
    Keep(member, std::move(held));
    return;
  }
  member.joined = std::max(member.joined, number.count);
  last_join_ = std::max(last_join_, number.count);
  for (auto& [key, piece] : pieces_) {
    if (!piece.stable) Recount(piece);
    if (piece.round != nullptr) DecideIfPossible(piece);
  }
}

// Cheap: false in all rounds of jobs in which nobody has joined or all have.
bool Shard::MayBeExempt(const Round& round) const {
  return last_join_ > wire::JoinsOf(round.ref.round) && round.combine != Combine::kLast;
}

// It joined before this round, and so holds no verdict of it: that is certain when it has said all
// it holds since the piece came here. What others say of their joins counts for them alone.
// REQUIRES: the piece has a round.
bool Shard::IsExempt(const Piece& piece, Slot slot) const {
  const Member& member = members_[slot];
  bool joined = member.joined == uint64_t{wire::JoinsOf(piece.round->ref.round)} + 1;
  if (!joined || !MayBeExempt(*piece.round)) return false;
  return AlwaysMine(piece.since) || member.resynced >= piece.since;
}

bool Shard::OnlyExemptMissing(const Piece& piece) const {
  if (!MayBeExempt(*piece.round)) return false;
  return ExemptCount(piece) == piece.round->missing;
}

// Members that are not waited for although they are in the group: averages count them.
uint32_t Shard::ExemptCount(const Piece& piece) const {
  if (!MayBeExempt(*piece.round)) return 0;
  uint32_t count = 0;
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    bool missing =
        TakesPart(*piece.round->group, slot) && !piece.round->contributions[slot].arrived;
    if (missing && IsExempt(piece, slot)) ++count;
  }
  return count;
}

// The numbers of those who have not pushed; of those who need not, or of the others.
std::string Shard::Missing(const Piece& piece, bool exempt) const {
  constexpr int kNamedMax = 16;
  std::string who;
  int count = 0;
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    bool here = piece.round->contributions[slot].arrived;
    bool missing = TakesPart(*piece.round->group, slot) && !here;
    if (!missing || IsExempt(piece, slot) != exempt) continue;
    if (++count <= kNamedMax) who += (who.empty() ? "" : ", ") + std::to_string(slot);
  }
  if (count > kNamedMax) who += " and " + std::to_string(count - kNamedMax) + " more";
  return who;
}

// A broadcast from one that has joined.
std::optional<Status> Shard::NobodyBrings(const Piece& piece) const {
  const Round& round = *piece.round;
  bool empty = round.combine == Combine::kOverlay && round.piece_bytes > 0 &&
               round.pushed_bytes == 0 && ExemptCount(piece) > 0;
  if (!empty) return std::nullopt;
  return Status(StatusCode::kInvalidArgument,
                "nobody brings the bytes, because rank " + Missing(piece, true) +
                    " has joined: it has no more data; a rank that has joined cannot be the root");
}

// Whom an error must reach.
Receipt Shard::ConcernedBy(const Piece& piece) const {
  const Round& round = *piece.round;
  if (ExemptCount(piece) == 0) return round.group->all;
  auto concerned = std::make_shared<SlotSet>();
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    bool exempt = !round.contributions[slot].arrived && IsExempt(piece, slot);
    if (TakesPart(*round.group, slot) && !exempt) concerned->Insert(slot);
  }
  return concerned;
}

// The root of a broadcast wants nothing either, but has it all.
bool Shard::IsIdle(const wire::DataHeader& header, size_t payload_bytes) {
  bool has_all = header.combine == Combine::kOverlay && payload_bytes == header.piece_bytes;
  return header.want_bytes == 0 && header.piece_bytes > 0 && !has_all;
}

// At once, unless it is to know by its answer that others have theirs.
void Shard::AnswerWhenDue(Piece& piece, const wire::PieceRef& ref, Slot slot,
                          const Contribution& contribution) {
  if (!piece.errors.empty()) return AnswerError(piece, ref, slot, contribution.priority);
  uint64_t want_end = uint64_t{contribution.want_offset} + contribution.want_bytes;
  // Of a verdict that another one brought: no correct worker wants what is not in it.
  bool there = want_end <= (piece.hollow ? 0 : piece.verdict_bytes);
  if (contribution.want_bytes > 0 && !there) return;
  if (!contribution.idle) {
    return Answer(piece, ref, slot, contribution.want_offset, contribution.want_bytes,
                  contribution.priority);
  }
  if (piece.idle == nullptr) piece.idle = std::make_unique<Idle>();
  piece.idle->ref = ref;
  piece.idle->slots.Insert(slot);
  piece.idle->priority = contribution.priority;
}

// Members that pushed the whole piece have the bytes, whether they know that it is decided or not.
void Shard::NoteWhoHasAll(Piece& piece, const Round& round) {
  for (Slot slot = 0; piece.idle != nullptr && slot < round.contributions.size(); ++slot) {
    const Contribution& contribution = round.contributions[slot];
    bool has_all = contribution.arrived && contribution.want_bytes == 0 && !contribution.idle;
    if (has_all) piece.idle->have_all.Insert(slot);
  }
}

// Everybody who is concerned holds the verdict, or wants nothing of it.
void Shard::AnswerIdle(Piece& piece) {
  if (piece.idle == nullptr) return;
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    bool settled = piece.held.Contains(slot) || piece.idle->slots.Contains(slot) ||
                   piece.idle->have_all.Contains(slot);
    if (Needs(piece, slot) && !settled) return;
  }
  AnswerIdleNow(piece);
}

void Shard::AnswerIdleNow(Piece& piece) {
  if (piece.idle == nullptr) return;
  std::unique_ptr<Idle> idle = std::move(piece.idle);
  for (Slot slot : idle->slots.List()) {
    bool here = slot < members_.size() && members_[slot].present && !members_[slot].left;
    if (here) Answer(piece, idle->ref, slot, 0, 0, idle->priority);
  }
}

}  // namespace byteps::protocol
