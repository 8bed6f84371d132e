// Sends a lane's contributions, each to the shard that owns the piece now. If the piece has failed
// on this rank, the shard gets a request to end the round in an error instead of the push. One
// thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "src/protocol/worker/lane/lane_context.h"
#include "src/protocol/worker/lane/piece_path.h"

namespace byteps::protocol {

class PieceSender {
 public:
  explicit PieceSender(LaneContext& lane) : lane_(lane) {}

  // Pushes a piece that waits for its verdict. If its shard has no connection, nothing is sent: the
  // lane pushes the piece again when the connection stands. While the lane waits for its take-over,
  // nothing is sent either, because the shard must hear of verdicts first: SendDelayed does it
  // then. REQUIRES: tensor.IsOpen(number).
  void Send(const LaneTensor& tensor, uint32_t number);
  // Sends the delayed pieces that still wait for a verdict of their round, because the lane has
  // taken over.
  void SendDelayed();

 private:
  wire::DataHeader HeaderOf(const LaneTensor& tensor, uint32_t number) const;

  LaneContext& lane_;
  std::vector<PieceTicket> delayed_;
};

}  // namespace byteps::protocol
