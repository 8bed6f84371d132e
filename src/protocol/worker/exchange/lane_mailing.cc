#include "src/protocol/worker/exchange/lane_mailing.h"

#include <algorithm>
#include <iterator>

namespace byteps::protocol {

void LaneMailing::BeginGeneration(const to_lane::View& view) {
  moving_ = false;
  waiting_.clear();
  Tell(view);
}

void LaneMailing::ChangeView(const to_lane::View& view) {
  if (moving_) {
    waiting_.emplace_back(view);
  } else {
    StartMove(view);
  }
}

void LaneMailing::StartMove(const to_lane::View& view) {
  moving_ = true;
  epoch_ = view.view->epoch;
  awaited_ = lanes_;
  pieces_.assign(lanes_, {});
  withdrawn_.clear();
  Tell(view);
}

bool LaneMailing::OnHandOver(to_front::HandOver hand_over) {
  if (!moving_ || hand_over.epoch != epoch_) return false;  // from a generation that is over
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    std::ranges::move(hand_over.pieces[lane], std::back_inserter(pieces_[lane]));
  }
  return --awaited_ == 0;
}

void LaneMailing::FinishMove() {
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    to_lane::TakeOver take_over{epoch_, std::move(pieces_[lane])};
    for (MovedPiece& moved : take_over.pieces) {
      bool withdrawn = std::ranges::find(withdrawn_, moved.exchange) != withdrawn_.end();
      if (withdrawn) moved.exchange = nullptr;
    }
    send_(lane, std::move(take_over));
  }
  moving_ = false;
  while (!waiting_.empty() && !moving_) {
    LaneMail mail = std::move(waiting_.front());
    waiting_.pop_front();
    if (const auto* view = std::get_if<to_lane::View>(&mail)) {
      StartMove(*view);
    } else {
      Tell(mail);
    }
  }
}

void LaneMailing::Withdraw(const Exchange& exchange) {
  if (moving_) withdrawn_.push_back(&exchange);
  // No lane has seen an exchange that still waits to begin.
  std::erase_if(waiting_, [&](const LaneMail& mail) {
    const auto* begin = std::get_if<to_lane::Begin>(&mail);
    const auto* repeat = std::get_if<to_lane::Repeat>(&mail);
    return (begin != nullptr && begin->exchange == &exchange) ||
           (repeat != nullptr && repeat->exchange == &exchange);
  });
  Tell(to_lane::Withdraw{&exchange});
}

void LaneMailing::Retire(const std::vector<TensorId>& tensors) {
  if (tensors.empty()) return;
  Tell(to_lane::Retire{tensors});
  if (moving_) waiting_.emplace_back(to_lane::Retire{tensors});
}

void LaneMailing::Forget(const std::vector<TensorId>& tensors) {
  if (tensors.empty()) return;
  Tell(to_lane::Forget{tensors});
  if (moving_) waiting_.emplace_back(to_lane::Forget{tensors});
}

}  // namespace byteps::protocol
