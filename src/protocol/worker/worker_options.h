// The options of a worker, and what of them its front and each of its lanes get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "src/protocol/worker/front/front.h"
#include "src/protocol/worker/lane/lane.h"

namespace byteps::protocol {

struct WorkerOptions {
  uint32_t lanes = 1;
  // The credit is 2 MB at most. Pieces that are in flight together finish together, so the last
  // piece of a step waits for a whole credit. docs/performance.md has the cost of larger credits in
  // the simulator.
  plan::CreditOptions credit{.bytes_max = uint64_t{2} << 20};
  Duration acknowledge_after = LaneOptions().acknowledge_after;
  uint64_t gathered_bytes_max = FrontOptions().gathered_bytes_max;
  Duration overdue_after = FrontOptions().overdue_after;
  const Codecs* codecs = &Codecs::None();  // must outlive the worker
  // See LaneOptions. Called once for each lane. The carrier of a machine replaces it.
  MakePiecePaths paths;
  // Returns the watch of a lane, which must outlive the worker. Null: no watch hears of pieces.
  std::function<PieceWatch*(uint32_t lane)> watch;
  size_t copy_slice_bytes = FrontOptions().copy_slice_bytes;
  uint64_t first_round = 1;  // only tests change this value and these rules:
  IdleTensors idle;          // see FrontOptions
  const LaneRules* lane_rules = &kLaneRules;
  const FrontRules* front_rules = &kFrontRules;
};

FrontOptions FrontOptionsOf(const WorkerOptions& options);
LaneOptions LaneOptionsOf(const WorkerOptions& options, uint32_t lane);

}  // namespace byteps::protocol
