// The data that the parts of a lane share: surroundings, view, and each part's state. The lane owns
// it. Each part changes only what its own header says.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/buffer_pool.h"
#include "src/plan/exchange_meter.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/worker/lane/early_wants.h"
#include "src/protocol/worker/lane/lane.h"
#include "src/protocol/worker/lane/links.h"
#include "src/protocol/worker/lane/pieces.h"
#include "src/protocol/worker/lane/receipts.h"
#include "src/protocol/worker/lane/send_queue.h"

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
        send_queue(lane_options.credit) {}

  const LaneOptions options;
  const LaneRules& rules;
  BufferPool& pool;
  Arithmetic& arithmetic;
  LaneDriver& driver;

  uint64_t epoch = 0;
  uint32_t generation = 0;
  Slot slot = kNoSlot;
  Time now{};  // time of the last answer
  // A view is here, but the pieces that it has moved to this lane are not. Until they are here, the
  // lane sends nothing new, and reads only answers of earlier views: answers of the new view may be
  // about these pieces.
  bool awaits_take_over = false;
  uint64_t readable_epoch = 0;
  bool stopped = false;  // the lane never sends anything new again

  Pieces pieces;
  Links links;
  SendQueue send_queue;
  Receipts receipts;
  EarlyWants wants;
  plan::ExchangeMeter meter;

  // REQUIRES: the piece's exchange is open.
  void Tell(PieceMoment moment, const LaneTensor& tensor, uint32_t number) const {
    if (options.watch == nullptr) return;
    const LanePiece& piece = tensor.pieces[number];
    size_t bytes = std::max(piece.spans.push.size(), piece.spans.want.size());
    options.watch->On({moment,
                       {tensor.facts.id, number, piece.round},
                       tensor.exchange->name,
                       piece.owner,
                       static_cast<uint32_t>(bytes)});
  }
};

}  // namespace byteps::protocol
