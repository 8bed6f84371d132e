// The front's mail to its lanes. While a view moves pieces between lanes nothing begins: the lanes
// hand over what leaves them, each gets what comes to it when all have, and what the front sends
// meanwhile waits. One thread at a time.
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

  // A generation begins: whatever waited is void.
  void BeginGeneration(const to_lane::View& view);
  // A later view of the generation: pieces may move.
  void ChangeView(const to_lane::View& view);
  // True when all lanes have handed over: FinishMove goes on.
  bool OnHandOver(to_front::HandOver hand_over);
  void FinishMove();

  // To every lane, in its turn.
  void Begin(const to_lane::Begin& mail) { Queue(mail); }
  void Repeat(const to_lane::Repeat& mail) { Queue(mail); }
  // A piece between two lanes would be aborted by neither.
  void Abort(const to_lane::Abort& mail) { Queue(mail); }
  // To every lane, at once; what is being moved is withdrawn, retired or forgotten when it is
  // there, too.
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
  uint64_t epoch_ = 0;                           // of the view that moves pieces
  uint32_t awaited_ = 0;                         // lanes that have not handed over
  std::vector<std::vector<MovedPiece>> pieces_;  // by the lane they go to
  std::vector<const Exchange*> withdrawn_;       // meanwhile
  std::deque<LaneMail> waiting_;
};

}  // namespace byteps::protocol
