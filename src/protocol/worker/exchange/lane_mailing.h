// The front's mail to its lanes. While a view moves pieces between lanes, nothing begins. Each lane
// hands over the pieces that leave it. When all lanes have done so, each lane gets the pieces that
// come to it. Mail of the front that must follow the move waits until then. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "src/protocol/worker/exchange/mail.h"

namespace byteps::protocol {

class LaneMailing {
 public:
  using Send = std::function<void(uint32_t lane, LaneMail mail)>;
  LaneMailing(uint32_t lanes, Send send) : lanes_(lanes), send_(std::move(send)) {}

  // Sends the view and drops all mail that waits, because a generation begins.
  void BeginGeneration(const to_lane::View& view);
  // Sends a later view of the generation, which may move pieces.
  void ChangeView(const to_lane::View& view);
  // Takes the pieces that a lane hands over. Returns true if all lanes have handed over. The caller
  // then calls FinishMove.
  bool OnHandOver(to_front::HandOver hand_over);
  void FinishMove();

  // Sends mail to every lane, in its turn.
  void Begin(const to_lane::Begin& mail) { Queue(mail); }
  void Repeat(const to_lane::Repeat& mail) { Queue(mail); }
  // Abort waits for the end of a move, because neither lane would abort a piece that is between
  // them.
  void Abort(const to_lane::Abort& mail) { Queue(mail); }
  // Sends mail to every lane at once. A piece that is being moved is withdrawn, retired or
  // forgotten when it arrives, too.
  void Withdraw(const Exchange& exchange);
  void Retire(const std::vector<TensorId>& tensors);
  void Forget(const std::vector<TensorId>& tensors);
  template <typename Mail>
  void Tell(const Mail& mail) {
    for (uint32_t lane = 0; lane < lanes_; ++lane) send_(lane, mail);
  }

  uint32_t lanes() const { return lanes_; }

 private:
  template <typename Mail>
  void Queue(const Mail& mail) {
    if (moving_) {
      waiting_.emplace_back(mail);
    } else {
      Tell(mail);
    }
  }
  void StartMove(const to_lane::View& view);

  const uint32_t lanes_;
  const Send send_;
  bool moving_ = false;
  uint64_t epoch_ = 0;                           // epoch of the view that moves pieces
  uint32_t awaited_ = 0;                         // number of lanes that have not handed over
  std::vector<std::vector<MovedPiece>> pieces_;  // pieces by the lane that they go to
  std::vector<const Exchange*> withdrawn_;       // exchanges withdrawn during the move
  std::deque<LaneMail> waiting_;
};

}  // namespace byteps::protocol
