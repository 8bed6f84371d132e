// The facts that a shard decides by: its view, the members and what they have said of themselves,
// their process sets, and the pieces.
#pragma once

#include "src/base/time.h"
#include "src/protocol/shard/state/attendance.h"
#include "src/protocol/shard/state/members.h"
#include "src/protocol/shard/state/piece_table.h"
#include "src/protocol/shard/state/process_sets.h"
#include "src/protocol/shard/state/shard_rules.h"
#include "src/protocol/shard/state/shard_view.h"

namespace byteps::protocol {

// The parts refer to each other, so the facts stay where they were built. One thread at a time.
struct ShardFacts {
  // `rules` must outlive this object.
  explicit ShardFacts(const ShardRules& rules) : view(rules) {}
  ShardFacts(const ShardFacts&) = delete;
  ShardFacts& operator=(const ShardFacts&) = delete;

  Time now{};  // the latest time that the shard's driver has named
  ShardView view;
  Members members;
  ProcessSets sets{members};
  PieceTable pieces;
  Attendance attendance{members, view};
};

}  // namespace byteps::protocol
