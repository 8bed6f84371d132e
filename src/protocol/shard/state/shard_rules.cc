#include "src/protocol/shard/state/shard_rules.h"

#include "src/protocol/shard/state/attendance.h"
#include "src/protocol/shard/state/told_verdict.h"

namespace byteps::protocol {

const ShardRules& ShardRules::Default() {
  static const ShardRules rules;
  return rules;
}

bool ShardRules::IsComplete(const Attendance& attendance, const Piece& piece) const {
  return piece.round->missing() == 0 || attendance.OnlyExemptMissing(piece);
}

bool ShardRules::Adopts(Piece& piece, Slot, const ToldVerdict& told) const {
  return told.header.ref.round > piece.verdict.round();
}

bool ShardRules::ErrorMayFollow(const Verdict& before) const {
  return before.stable() || before.IsError();
}

uint32_t ShardRules::RankInSum(const ProcessSet& set, const Members&, Slot slot) const {
  return set.FirstOf(slot);
}

bool ShardRules::NobodyHoldsASum(const Attendance& attendance, uint64_t since) const {
  return attendance.AllHaveSaid(since);
}

}  // namespace byteps::protocol
