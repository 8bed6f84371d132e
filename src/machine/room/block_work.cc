#include "src/machine/room/block_work.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "src/machine/room/group_uses.h"

namespace byteps::machine {

using local::Decision;
using State = BlockWork::Taken::State;

// Copies from and to devices come first, so that they are under way while this thread sums. Then it
// sums, because other ranks wait for sums; then takes, because they wait for blocks. Fills last.
Result<bool> BlockWork::Step() {
  if (GoOnWithCopies() || SumOne() || TakeOne() || FillOne()) return true;
  return TakeUp();
}

// Follows a copy that has ended, or begins one from a device.
bool BlockWork::GoOnWithCopies() {
  if (mover_ == nullptr) return false;
  for (auto taken = taken_.begin(); taken != taken_.end(); ++taken) {
    if (taken->state == State::kWaits && taken->exchange != nullptr &&
        taken->exchange->memory == Memory::kDevice && window_.IsOurs(taken->at)) {
      if (!MayFill(*taken)) continue;
      Fill(*taken);
      return true;
    }
    if (taken->state != State::kFilling && taken->state != State::kTaking) continue;
    const std::optional<Status> how = mover_->EndOf(taken->at.block);
    if (!how.has_value()) continue;
    if (taken->state == State::kFilling) {
      EndFill(*taken, *how);
    } else {
      taken->state = State::kFilled;
      if (taken->exchange != nullptr) lane_.taken(*taken, *how);
      if (taken->state != State::kKept) Release(taken);
    }
    return true;
  }
  return false;
}

void BlockWork::EndFill(Taken& taken, const Status& how) {
  taken.state = State::kFilled;
  if (taken.exchange == nullptr) return;  // it was withdrawn
  if (how.ok()) {
    window_.Filled(taken.at);
  } else {
    taken.state = State::kLacking;
    lane_.fill_failed(taken, how);
  }
}

bool BlockWork::SumOne() {
  return std::ranges::any_of(taken_, [this](const Taken& taken) {
    return taken.state == State::kFilled && window_.SumShare(taken.at);
  });
}

bool BlockWork::TakeOne() {
  for (auto taken = taken_.begin(); taken != taken_.end(); ++taken) {
    if (taken->state == State::kKept && taken->exchange == nullptr) return Release(taken);
    if (taken->state != State::kFilled && taken->state != State::kLacking) continue;
    Decision decision = window_.decision(taken->at);
    if (decision == Decision::kOpen) continue;
    lane_.take(*taken, decision == Decision::kSum);
    if (taken->state == State::kTaking) return true;
    return Release(taken);
  }
  return false;
}

// Returns true.
bool BlockWork::Release(std::deque<Taken>::iterator taken) {
  window_.Release(taken->at);
  taken_.erase(taken);
  return true;
}

// Returns true even if there was nothing to fill: the use may be decided already, and its decision
// causes no other event.
bool BlockWork::FillOne() {
  for (Taken& taken : taken_) {
    if (taken.state != State::kWaits || !window_.IsOurs(taken.at) || !MayFill(taken)) continue;
    Fill(taken);
    return true;
  }
  return false;
}

bool BlockWork::MayFill(Taken& taken) {
  const bool is_open = window_.decision(taken.at) == Decision::kOpen;
  if (lane_.input == nullptr || taken.exchange == nullptr || !is_open) return true;
  const Input input = lane_.input(taken);
  if (input == Input::kNever) taken.state = State::kLacking;
  return input == Input::kHere;
}

void BlockWork::Fill(Taken& taken) {
  taken.state = State::kFilled;
  lane_.fill(taken);
}

Result<bool> BlockWork::TakeUp() {
  Result<std::optional<local::AdmittedUse>> next = window_.NextAfter(last_use_);
  if (!next.ok()) return next.status();
  if (!next->has_value()) return false;
  Taken taken;
  taken.at = *next.value();
  last_use_ = taken.at.number;
  taken.exchange = lane_.find(taken.at);
  if (taken.exchange != nullptr && !Decides(taken.at.use)) {
    protocol::Spans spans = taken.exchange->spans->SpansOf(taken.at.use.piece);
    if (spans.piece_bytes != taken.at.use.bytes) {
      return Status(StatusCode::kInternal, "the ranks of this machine cut tensor '" +
                                               std::string(taken.exchange->name) +
                                               "' in different ways: restart the job");
    }
  }
  taken_.push_back(taken);
  return true;
}

void BlockWork::Forget(const protocol::Exchange& exchange) {
  for (Taken& taken : taken_) {
    if (taken.exchange != &exchange) continue;
    const bool is_filling = taken.state == State::kFilling;
    if (taken.is_lent || is_filling || taken.state == State::kLacking) {
      (void)window_.Withdraw(taken.at);
    }
    if (is_filling || taken.state == State::kTaking) mover_->CallOff(taken.at.block);
    taken.exchange = nullptr;
  }
}

void BlockWork::Withdraw(const std::function<bool(const local::BlockUse&)>& which) {
  for (const Taken& taken : taken_) {
    if (which(taken.at.use) && window_.IsOurs(taken.at)) (void)window_.Withdraw(taken.at);
  }
}

void BlockWork::CopyIn(Taken& taken, bool from_output) {
  const protocol::Exchange& exchange = *taken.exchange;
  protocol::Spans spans = exchange.spans->SpansOf(taken.at.use.piece);
  if (from_output) {
    spans.push = spans.want;
    spans.push_offset = spans.want_offset;
  }
  if (exchange.memory == Memory::kHost || spans.push.empty()) {
    taken.is_lent = window_.Bring(taken.at, spans.push_offset, spans.push);
    return;
  }
  taken.state = State::kFilling;
  mover_->Begin(taken.at.block, exchange.device,
                {Mover::Way::kDown, window_.Part(taken.at).data() + spans.push_offset,
                 spans.push.data(), spans.push.size()});
}

bool BlockWork::CopyOut(Taken& taken) {
  const protocol::Exchange& exchange = *taken.exchange;
  protocol::Spans spans = exchange.spans->SpansOf(taken.at.use.piece);
  if (spans.want.empty()) return true;
  const std::byte* const result = window_.ResultOf(taken.at).data() + spans.want_offset;
  if (exchange.memory == Memory::kHost) {
    std::memcpy(spans.want.data(), result, spans.want.size());
    return true;
  }
  taken.state = State::kTaking;
  mover_->Begin(taken.at.block, exchange.device,
                {Mover::Way::kUp, spans.want.data(), result, spans.want.size()});
  return false;
}

}  // namespace byteps::machine
