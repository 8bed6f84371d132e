// Sends a lane's contributions: each to the shard that owns the piece now, or, in the place of a
// push, the request to end the round in an error. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "src/protocol/worker/lane_context.h"
#include "src/protocol/worker/piece_path.h"

namespace byteps::protocol {

class Pushes {
 public:
  explicit Pushes(LaneContext& lane) : lane_(lane) {}

  // Of a piece that waits for its verdict. A shard without a connection gets nothing: the piece is
  // pushed again when it has one. While the lane is to take over nothing leaves either, since a
  // shard must first be told of verdicts: SendDelayed does it then.
  // REQUIRES: tensor.IsOpen(number).
  void Send(const LaneTensor& tensor, uint32_t number);
  // The lane has taken over: sends what still waits for its verdict in the same round.
  void SendDelayed();

 private:
  wire::DataHeader HeaderOf(const LaneTensor& tensor, uint32_t number) const;

  LaneContext& lane_;
  std::vector<PieceTicket> delayed_;
};

}  // namespace byteps::protocol
