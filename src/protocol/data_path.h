// The way of a tensor, in order. These lists stand here and nowhere else. A stage never knows its
// neighbours, and a stage that has nothing to do is absent from the path.
//
// The path of an operation; the front walks it (worker/front/front.cc):
//
//   declare     name, shape, dtype and operation are the same on every rank, or every rank fails
//   layout      ranks tell sizes that differ by rank first, so that bytes land in their final place
//               (allgather: each rank's rows; alltoall: its rows for each other one)
//   partition   pieces small enough to pipeline and to spread evenly over shards; bytes for several
//               receivers (reducescatter, alltoall) are cut at the borders between these
//   copy        the own part of a result, input that the exchange would overwrite, a root's result;
//               in slices, so that nobody waits for a large tensor
//   exchange    each piece goes its own way, most urgent first, bounded bytes in flight
//   deliver     exactly once, with a Status; the lanes keep verdicts that others may still lack
//
// A job of one has no servers; there the input is the result:
//
//   keep        copy input to output
//   deliver
//
// The path of a piece, once it has credit or its owner wants it; a lane walks it
// (worker/lane/piece_walk.cc). Each stage takes the result of the stage before it, and may wait for
// an event (worker/lane/piece_path.h). Stages with two stars are in src/machine/ (decision 24);
// those with three copy from and to a device, at workers that are members by themselves
// (runtime/worker/device_paths.h, decision 59):
//
//   collect **  the machine's ranks put the piece into a block of the window: sum.
//               All of them have begun the operation: a gate before the operation's exchange, and
//               so before credit, has waited for the last one (decision 18, rule 1)
//   fetch ***   device memory to host
//   encode *    a codec makes the contribution
//   exchange *  push to the shard that owns it (shard/shard.h: combine, divide an
//               average, answer all workers), take its answer; a worker that wants nothing of a
//               piece is answered when the workers that want it have it
//   decode *    a codec makes the result of the verdict
//   store ***   host memory to device
//   spread **   the machine's ranks read the answer from a block
//
// docs/decisions/0005-data-path-in-protocol.md says why this lives beside the state machines.
#pragma once

#include <cstdint>
#include <span>

namespace byteps::protocol {

enum class Stage : uint8_t { kDeclare, kLayout, kPartition, kCopy, kExchange, kKeep, kDeliver };

// The answer of a stage that the path has entered.
enum class StageVerdict : uint8_t {
  kDone,     // go on with the next stage
  kPending,  // an event will resume the path behind this stage
  kFailed,   // it ends with an error
};

// The path of an operation, in order. `sizes_first`: operations::Row has it. `alone`: a job of one
// worker without servers.
inline std::span<const Stage> PathOf(bool sizes_first, bool alone) {
  using enum Stage;
  static constexpr Stage kAlone[] = {kKeep, kDeliver};
  static constexpr Stage kPlain[] = {kDeclare, kPartition, kCopy, kExchange, kDeliver};
  static constexpr Stage kSizesFirst[] = {kDeclare, kLayout,   kPartition,
                                          kCopy,    kExchange, kDeliver};
  if (alone) return kAlone;
  if (sizes_first) return kSizesFirst;
  return kPlain;
}

}  // namespace byteps::protocol
