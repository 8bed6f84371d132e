#include "src/machine/room/block_work.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

namespace byteps::machine {

using local::Decision;

// Sums first, because other ranks wait for sums; then takes, because they wait for blocks. Fills
// last.
Result<bool> BlockWork::Step() {
  if (SumOne() || TakeOne() || FillOne()) return true;
  return TakeUp();
}

bool BlockWork::SumOne() {
  return std::ranges::any_of(
      taken_, [this](const Taken& taken) { return taken.is_filled && window_.SumShare(taken.at); });
}

bool BlockWork::TakeOne() {
  for (auto taken = taken_.begin(); taken != taken_.end(); ++taken) {
    if (!taken->is_filled) continue;
    Decision decision = window_.decision(taken->at);
    if (decision == Decision::kOpen) continue;
    lane_.take(*taken, decision == Decision::kSum);
    window_.Release(taken->at);
    taken_.erase(taken);
    return true;
  }
  return false;
}

// Returns true even if there was nothing to fill: the use may be decided already, and its decision
// causes no other event.
bool BlockWork::FillOne() {
  for (Taken& taken : taken_) {
    if (taken.is_filled || !window_.IsOurs(taken.at)) continue;
    taken.is_filled = true;
    lane_.fill(taken);
    return true;
  }
  return false;
}

Result<bool> BlockWork::TakeUp() {
  Result<std::optional<local::AdmittedUse>> next = window_.NextAfter(last_use_);
  if (!next.ok()) return next.status();
  if (!next->has_value()) return false;
  Taken taken;
  taken.at = *next.value();
  last_use_ = taken.at.number;
  taken.exchange = lane_.find(taken.at);
  if (taken.exchange != nullptr) {
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
    if (taken.is_lent) (void)window_.Withdraw(taken.at);
    taken.exchange = nullptr;
  }
}

void BlockWork::CopyIn(Taken& taken) {
  protocol::Spans spans = taken.exchange->spans->SpansOf(taken.at.use.piece);
  taken.is_lent = window_.Bring(taken.at, spans.push_offset, spans.push);
}

void BlockWork::CopyOut(const Taken& taken) const {
  protocol::Spans spans = taken.exchange->spans->SpansOf(taken.at.use.piece);
  if (spans.want.empty()) return;
  ConstByteSpan result = window_.ResultOf(taken.at);
  std::memcpy(spans.want.data(), result.data() + spans.want_offset, spans.want.size());
}

}  // namespace byteps::machine
