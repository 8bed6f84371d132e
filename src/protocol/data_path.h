// The way of a tensor, in order. This list stands here and nowhere else; the worker walks it
// (worker.cc), and a stage never knows its neighbours. A stage that has nothing to do for an
// operation is absent from its path.
//
//   declare     name, shape, dtype and operation are the same on every rank, or every rank fails
//   layout      sizes that differ by rank are told first, so that bytes land in their final place
//               (allgather: each rank's rows; alltoall: its rows for each other one)
//   partition   pieces small enough to pipeline and to spread evenly over shards; what goes to
//               several receivers (reducescatter, alltoall) is cut at the borders between them
//   exchange    for each piece, most urgent first, bounded bytes in flight:
//                 push to the shard that owns it (shard.h: combine in slot order, divide an
//                 average, answer everybody), receive the answer into the user's memory; who
//                 wants nothing of a piece is answered when those who want it have it
//   deliver     exactly once, with a Status; what others may still lack is kept
//
// A job of one has no servers; there the input is the result:
//
//   keep        copy input to output
//   deliver
//
// docs/decisions/0005-data-path-in-protocol.md says why this lives beside the state machines.
#pragma once

#include <cstdint>
#include <span>

#include "src/wire/control.h"

namespace byteps::protocol {

enum class Stage : uint8_t { kDeclare, kLayout, kPartition, kExchange, kKeep, kDeliver };

// What a stage says when it has been entered with an operation.
enum class StageVerdict : uint8_t {
  kDone,     // go on with the next stage
  kPending,  // an event will resume the path behind this stage
  kFailed,   // the operation has ended with an error
};

// The path of an operation, in order. `alone`: a job of one worker without servers.
inline std::span<const Stage> PathOf(wire::Op op, bool alone) {
  using enum Stage;
  static constexpr Stage kAlone[] = {kKeep, kDeliver};
  static constexpr Stage kPlain[] = {kDeclare, kPartition, kExchange, kDeliver};
  static constexpr Stage kGathered[] = {kDeclare, kLayout, kPartition, kExchange, kDeliver};
  if (alone) return kAlone;
  if (op == wire::Op::kAllgather || op == wire::Op::kAlltoall) return kGathered;
  return kPlain;
}

}  // namespace byteps::protocol
