// Tells a lane on its loop that stages of its pieces have ended. Stages may end on any thread.
//
// The copies of resume()'s result may outlive this object; then they do nothing. The thread that
// owns the loop calls everything else. REQUIRES: the loop does not run any more when this is
// destroyed.
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

  // Calls `take` on the loop's thread, with all ends that have come together.
  PieceResumer(transport::Loop& loop, std::function<void(const std::vector<Ended>&)> take);
  ~PieceResumer();

  // Returns a function that any thread may call. If the function has no memory to tell the lane, it
  // stops the loop, because the piece could never go on.
  protocol::ResumePiece resume() const;

 private:
  struct Gate;
  Inbox<Ended> inbox_;
  const std::shared_ptr<Gate> gate_;  // shared with the copies of resume()
};

}  // namespace byteps::runtime
