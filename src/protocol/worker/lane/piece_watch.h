// Hears where the pieces of a lane are, for timelines. The lane decides nothing by it, and has no
// clock: who hears looks at his own.
#pragma once

#include <cstdint>
#include <string_view>

#include "src/base/types.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// In the order in which a piece passes them; the last three come again if it is pushed again.
enum class PieceMoment : uint8_t {
  kQueued,        // it waits for credit
  kSetOut,        // it has credit; stages before its exchange begin
  kPushed,        // its push is the transport's
  kAnswerBegins,  // the header of its answer is here
  kAnswered,      // and the bytes, too
};

struct PieceEvent {
  PieceMoment moment = PieceMoment::kQueued;
  wire::PieceRef ref;
  std::string_view name;  // of its tensor; valid during the call
  ShardId shard = 0;      // its owner, or who answers
  uint32_t bytes = 0;     // the larger one of what it brings and what it wants
};

class PieceWatch {
 public:
  virtual ~PieceWatch() = default;
  // On the lane's thread. Does not block, and does not come back into the lane.
  virtual void On(const PieceEvent& event) = 0;
};

}  // namespace byteps::protocol
