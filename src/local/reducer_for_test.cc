#include "src/local/reducer_for_test.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "src/base/check.h"

namespace byteps::local {

Reducer::Reducer(Window& window, const WindowShape& shape, uint32_t rank)
    : window_(window), shape_(shape), rank_(rank) {
  if (rank != 0) return;
  std::vector<uint32_t> places(shape.ranks);
  std::iota(places.begin(), places.end(), 0U);
  window.SetPlaces(places);
}

Status Reducer::Run(const Reduction& what, Time deadline) {
  BYTEPS_CHECK(what.input.size() == what.output.size());
  ++round_;
  cut_ = CutOf(what.input.size(), what.type);
  taken_up_ = 0;
  uint32_t read = 0;
  while (read < cut_.pieces) {
    window_.WakeSleepers();
    uint32_t events = window_.Events();
    if (SumOne()) continue;
    Result<bool> has_read = ReadOne(what);
    if (!has_read.ok()) return GiveUp(has_read.status());
    if (has_read.value()) ++read;
    if (has_read.value() || FillOne(what)) continue;
    Result<bool> has_more = TakeUp(what);
    if (!has_more.ok()) return GiveUp(has_more.status());
    if (has_more.value()) continue;
    AdmittedUse oldest = open_.empty() ? AdmittedUse() : open_.front().at;
    Status waited = window_.Wait(events, oldest, deadline);
    if (!waited.ok()) return GiveUp(std::move(waited));
  }
  window_.WakeSleepers();
  return Status::Ok();
}

Reducer::Cut Reducer::CutOf(size_t bytes, DataType type) const {
  size_t pieces = (bytes + shape_.block_bytes - 1) / shape_.block_bytes;
  if (pieces == 0) return {};
  size_t step = (bytes + pieces - 1) / pieces;
  size_t unit = std::max<size_t>(SizeOf(type), 64);
  return {static_cast<uint32_t>(pieces), (step + unit - 1) / unit * unit};
}

BlockUse Reducer::UseOf(const Reduction& what, uint32_t piece) const {
  BlockUse use;
  use.ranks = what.ranks;
  use.bring = what.ranks;
  use.bytes = std::min(cut_.step, what.input.size() - piece * cut_.step);
  use.type = what.type;
  use.how = what.how;
  use.divisor = what.divisor;
  use.piece = piece;
  use.round = round_;
  return use;
}

// Sums a share of the oldest use first, because others may wait for it.
bool Reducer::SumOne() {
  for (const Open& one : open_) {
    if (!one.is_filled) return false;
    if (window_.SumShare(one.at)) return true;
  }
  return false;
}

Result<bool> Reducer::ReadOne(const Reduction& what) {
  if (open_.empty() || !open_.front().is_filled) return false;
  const AdmittedUse& at = open_.front().at;
  Decision decision = window_.decision(at);
  if (decision == Decision::kOpen) return false;
  if (decision == Decision::kError) {
    Status loss = window_.Loss();
    if (!loss.ok()) return loss;
    return Status(StatusCode::kDeadlineExceeded,
                  "another rank of this machine waited in vain and gave up; its error says for "
                  "whom");
  }
  ConstByteSpan result = window_.ResultOf(at);
  std::memcpy(what.output.data() + at.use.piece * cut_.step, result.data(), result.size());
  window_.Release(at);
  open_.pop_front();
  return true;
}

bool Reducer::FillOne(const Reduction& what) {
  auto next = std::find_if(open_.begin(), open_.end(), [](const Open& o) { return !o.is_filled; });
  if (next == open_.end() || !window_.IsOurs(next->at)) return false;
  ByteSpan part = window_.Part(next->at);
  std::memcpy(part.data(), what.input.data() + next->at.use.piece * cut_.step, part.size());
  window_.Filled(next->at);
  next->is_filled = true;
  return true;
}

// The carrier admits the next piece; the other ranks look for it in the window.
Result<bool> Reducer::TakeUp(const Reduction& what) {
  if (taken_up_ == cut_.pieces) return false;
  BlockUse expected = UseOf(what, taken_up_);
  std::optional<AdmittedUse> at;
  if (rank_ == 0) {
    at = window_.Admit(expected);
  } else {
    Result<std::optional<AdmittedUse>> next = window_.NextAfter(last_use_);
    if (!next.ok()) return next.status();
    at = next.value();
  }
  if (!at.has_value()) return false;
  last_use_ = at->number;
  open_.push_back({*at});
  ++taken_up_;
  const BlockUse& said = at->use;
  if (said.bytes == expected.bytes && said.type == expected.type && said.how == expected.how &&
      said.ranks == expected.ranks && said.divisor == expected.divisor &&
      said.piece == expected.piece) {
    return true;
  }
  return Status(StatusCode::kMismatch,
                "ranks of this machine combine different tensors: local rank 0 has " +
                    std::to_string(said.bytes) + " bytes of " + NameOf(said.type) +
                    ", local rank " + std::to_string(rank_) + " has " +
                    std::to_string(expected.bytes) + " bytes of " + NameOf(expected.type));
}

// Tells the others at once, so that they do not wait for their own deadlines.
Status Reducer::GiveUp(Status why) {
  for (const Open& one : open_) {
    if (window_.IsOurs(one.at)) window_.Withdraw(one.at);
  }
  open_.clear();
  window_.WakeSleepers();
  return why;
}

}  // namespace byteps::local
