#include "src/runtime/worker/piece_resumer.h"

#include <new>
#include <utility>

#include "src/base/thread_annotations.h"

namespace byteps::runtime {

// The copies of resume() reach the lane through the gate, as long as the lane exists.
struct PieceResumer::Gate {
  Gate(Inbox<Ended>& open, transport::Loop& lane_loop) : inbox(&open), loop(lane_loop) {}

  Mutex mutex;
  Inbox<Ended>* inbox BYTEPS_GUARDED_BY(mutex);  // null: the lane is gone
  transport::Loop& loop BYTEPS_GUARDED_BY(mutex);
};

PieceResumer::PieceResumer(transport::Loop& loop,
                           std::function<void(const std::vector<Ended>&)> take)
    : inbox_(loop, [take = std::move(take)](std::vector<Ended>& all) { take(all); }),
      gate_(std::make_shared<Gate>(inbox_, loop)) {}

PieceResumer::~PieceResumer() {
  MutexLock lock(gate_->mutex);
  gate_->inbox = nullptr;
}

protocol::ResumePiece PieceResumer::resume() const {
  return [gate = gate_](const protocol::PieceTicket& ticket, protocol::StageVerdict how,
                        const Status& error) {
    MutexLock lock(gate->mutex);
    if (gate->inbox == nullptr) return;
    try {
      gate->inbox->Put({ticket, how, error});
    } catch (const std::bad_alloc&) {
      gate->loop.Stop();
    }
  };
}

}  // namespace byteps::runtime
