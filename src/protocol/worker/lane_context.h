// What the parts of a lane share: where they run, by which view, and what is kept by whom. The lane
// owns it; each part changes only what its own header says.
#pragma once

#include <cstdint>

#include "src/base/buffer_pool.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/worker/early_wants.h"
#include "src/protocol/worker/lane.h"
#include "src/protocol/worker/links.h"
#include "src/protocol/worker/outbox.h"
#include "src/protocol/worker/pieces.h"
#include "src/protocol/worker/receipts.h"

namespace byteps::protocol {

struct LaneContext {
  LaneContext(const LaneOptions& lane_options, BufferPool& lane_pool, Arithmetic& lane_arithmetic,
              LaneDriver& lane_driver)
      : options(lane_options),
        rules(*lane_options.rules),
        pool(lane_pool),
        arithmetic(lane_arithmetic),
        driver(lane_driver),
        pieces(lane_options.lane, lane_options.lanes),
        outbox(lane_options.credit) {}

  const LaneOptions options;
  const LaneRules& rules;
  BufferPool& pool;
  Arithmetic& arithmetic;
  LaneDriver& driver;

  uint64_t epoch = 0;
  uint32_t generation = 0;
  Slot slot = kNoSlot;
  Time now{};  // of the last answer
  // Between a view and what it has moved here nothing new is sent, and what shards say in the new
  // view waits: it may be about pieces that are not here yet.
  bool awaits_take_over = false;
  uint64_t readable_epoch = 0;
  bool stopped = false;  // nor is it ever again

  Pieces pieces;
  Links links;
  Outbox outbox;
  Receipts receipts;
  EarlyWants wants;
};

}  // namespace byteps::protocol
