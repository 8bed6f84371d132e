// Tells a lane on its loop that stages of its pieces have ended, from whatever thread they end on.
//
// The copies of what resume() returns may outlive this; then they do nothing. All else on the
// thread that owns the loop; the loop does not run any more when this goes.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "src/protocol/worker/lane/piece_path.h"
#include "src/runtime/inbox.h"

namespace byteps::runtime {

class PieceResumer {
 public:
  struct Ended {
    protocol::PieceTicket ticket;
    protocol::StageVerdict how = protocol::StageVerdict::kDone;
    Status error;
  };

  // `take` is called on the loop's thread, with all that have come together.
  PieceResumer(transport::Loop& loop, std::function<void(const std::vector<Ended>&)> take);
  ~PieceResumer();

  // Where there is no memory for it, the loop stops: the piece could never go on.
  protocol::ResumePiece resume() const;

 private:
  struct Gate;
  Inbox<Ended> inbox_;
  const std::shared_ptr<Gate> gate_;  // shared with the copies
};

}  // namespace byteps::runtime
