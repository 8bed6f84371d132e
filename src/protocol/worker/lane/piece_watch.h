// Hears where the pieces of a lane are, for timelines. The lane decides nothing by it, and has no
// clock: an implementation reads its own clock.
#pragma once

#include <cstdint>
#include <string_view>

#include "src/base/types.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// The moments in the order in which a piece passes them. If the piece is pushed again, the last
// three come again.
enum class PieceMoment : uint8_t {
  kQueued,        // it waits for credit
  kSetOut,        // it has credit; stages before its exchange begin
  kPushed,        // the transport has its push
  kAnswerBegins,  // the header of its answer is here
  kAnswered,      // the bytes of its answer are here, too
};

struct PieceEvent {
  PieceMoment moment = PieceMoment::kQueued;
  wire::PieceRef ref;
  std::string_view name;  // name of its tensor; valid during the call
  ShardId shard = 0;      // its owner, or the shard that answers
  uint32_t bytes = 0;     // the bytes it brings or the bytes it wants, whichever are more
};

class PieceWatch {
 public:
  virtual ~PieceWatch() = default;
  // Hears an event on the lane's thread. Does not block, and does not call back into the lane.
  virtual void On(const PieceEvent& event) = 0;
};

}  // namespace byteps::protocol
