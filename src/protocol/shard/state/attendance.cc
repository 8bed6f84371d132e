#include "src/protocol/shard/state/attendance.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "src/protocol/never_complete.h"

namespace byteps::protocol {

uint32_t Attendance::CountMissing(const Round& round) const {
  uint32_t missing = 0;
  for (Slot slot = 0; slot < members_.size(); ++slot) missing += IsMissing(round, slot) ? 1 : 0;
  return missing;
}

bool Attendance::AnyMemberIn(const Round& round) const {
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    const Contribution& contribution = round.contributions()[slot];
    if (members_.IsPresent(slot) && (contribution.begun || contribution.arrived)) return true;
  }
  return false;
}

std::string Attendance::PusherOf(const Round& round) const {
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    const Contribution& contribution = round.contributions()[slot];
    if (contribution.begun || contribution.arrived) return members_.NameOf(slot);
  }
  return "another one";
}

bool Attendance::MayBeExempt(const Round& round) const {
  return members_.last_join() > wire::JoinsOf(round.ref().round) &&
         round.combine() != Combine::kLast;
}

bool Attendance::IsExempt(const Piece& piece, Slot slot) const {
  bool joined = members_.joined(slot) == uint64_t{wire::JoinsOf(piece.round->ref().round)} + 1;
  if (!joined || !MayBeExempt(*piece.round)) return false;
  for (uint32_t rank : members_.RanksOf(slot)) {
    if (piece.round->set().IncludesRank(rank) && !members_.HasJoined(slot, rank)) return false;
  }
  return view_.AlwaysMine(piece.since) || members_.resynced(slot) >= piece.since;
}

uint32_t Attendance::ExemptCount(const Piece& piece) const {
  if (!MayBeExempt(*piece.round)) return 0;
  uint32_t count = 0;
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    if (IsMissing(*piece.round, slot) && IsExempt(piece, slot)) ++count;
  }
  return count;
}

bool Attendance::OnlyExemptMissing(const Piece& piece) const {
  return MayBeExempt(*piece.round) && ExemptCount(piece) == piece.round->missing();
}

bool Attendance::IsWaitedFor(const Piece& piece, Slot slot) const {
  bool waited_for = IsMissing(*piece.round, slot) && members_.IsServed(slot);
  return waited_for && !IsExempt(piece, slot);
}

std::string Attendance::MissingRanks(const Piece& piece, bool exempt) const {
  constexpr size_t kNamedMax = 16;
  const ProcessSet& set = piece.round->set();
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < members_.rank_count(); ++rank) {
    Slot slot = members_.SlotOf(rank);
    if (slot == kNoSlot || !set.IncludesRank(rank) || !IsMissing(*piece.round, slot)) continue;
    if (IsExempt(piece, slot) == exempt) missing.push_back(rank);
  }
  const size_t named = std::min(missing.size(), kNamedMax);
  auto together = [&](size_t one, size_t other) {
    return other < named && members_.SlotOf(missing[one]) == members_.SlotOf(missing[other]);
  };
  bool has_brackets = false;
  std::string who;
  for (size_t i = 0; i < named; ++i) {
    const bool opens = !exempt && together(i, i + 1) && (i == 0 || !together(i, i - 1));
    const bool closes = !exempt && i > 0 && together(i, i - 1) && !together(i, i + 1);
    who += (i == 0 ? "" : ", ") + std::string(opens ? "(" : "") + std::to_string(missing[i]) +
           (closes ? ")" : "");
    has_brackets = has_brackets || opens;
  }
  if (missing.size() > named) who += " and " + std::to_string(missing.size() - named) + " more";
  if (has_brackets) who += "; of ranks in brackets, which sum together, one at least is missing";
  return who;
}

bool Attendance::AllHaveSaid(uint64_t since) const {
  if (view_.AlwaysMine(since)) return true;
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    if (members_.IsServed(slot) && members_.resynced(slot) < since) return false;
  }
  return true;
}

uint32_t Attendance::DivisorOf(const Piece& piece) const {
  const Round& round = *piece.round;
  bool may_be_exempt = MayBeExempt(round);
  uint32_t ranks = 0;
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    bool exempt = may_be_exempt && IsMissing(round, slot) && IsExempt(piece, slot);
    if (round.HasArrived(slot) || exempt) ranks += round.set().RanksOf(slot);
  }
  return ranks;
}

bool Attendance::IsWholeSet(const Round& round) const {
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    if (round.HasArrived(slot) != TakesPart(round.set(), slot)) return false;
  }
  return true;
}

Receipt Attendance::ReceiptOf(const Round& round) const {
  auto receipt = std::make_shared<SlotSet>();
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    if (round.HasArrived(slot)) receipt->Insert(slot);
  }
  return receipt;
}

Receipt Attendance::ConcernedBy(const Piece& piece) const {
  const Round& round = *piece.round;
  if (ExemptCount(piece) == 0) return round.set().all();
  auto concerned = std::make_shared<SlotSet>();
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    bool exempt = !round.HasArrived(slot) && IsExempt(piece, slot);
    if (TakesPart(round.set(), slot) && !exempt) concerned->Insert(slot);
  }
  return concerned;
}

std::optional<Status> Attendance::ErrorOf(const Piece& piece) const {
  const Round& round = *piece.round;
  for (Slot slot = 0; members_.AnyHasLeft() && slot < members_.size(); ++slot) {
    if (!IsMissing(round, slot) || IsExempt(piece, slot)) continue;
    uint32_t rank = round.set().LeftRankOf(slot, members_);
    if (rank == UINT32_MAX) continue;
    return ErrorOfLeftRank(rank);
  }
  return round.failure();
}

std::optional<Status> Attendance::NobodyBrings(const Piece& piece) const {
  const Round& round = *piece.round;
  bool empty = round.combine() == Combine::kOverlay && round.piece_bytes() > 0 &&
               round.pushed_bytes() == 0 && ExemptCount(piece) > 0;
  if (!empty) return std::nullopt;
  return ErrorOfJoinedRoot(MissingRanks(piece, true));
}

}  // namespace byteps::protocol
