#include "src/protocol/worker/worker_options.h"

namespace byteps::protocol {

FrontOptions FrontOptionsOf(const WorkerOptions& options) {
  FrontOptions front;
  front.lanes = options.lanes;
  front.gathered_bytes_max = options.gathered_bytes_max;
  front.overdue_after = options.overdue_after;
  front.copy_slice_bytes = options.copy_slice_bytes;
  front.idle = options.idle;
  front.codecs = options.codecs;
  front.first_round = options.first_round;
  front.rules = options.front_rules;
  return front;
}

LaneOptions LaneOptionsOf(const WorkerOptions& options, uint32_t lane) {
  LaneOptions made;
  made.lane = lane;
  made.lanes = options.lanes;
  made.credit = options.credit;
  made.acknowledge_after = options.acknowledge_after;
  made.codecs = options.codecs;
  made.paths = options.paths;
  if (options.watch) made.watch = options.watch(lane);
  made.rules = options.lane_rules;
  return made;
}

}  // namespace byteps::protocol
