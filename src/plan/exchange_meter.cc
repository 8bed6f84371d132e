#include "src/plan/exchange_meter.h"

#include <utility>

namespace byteps::plan {
namespace {

// In a longer pause a process stood still, which says nothing about a link.
constexpr Duration kPauseMax = milliseconds(250);

}  // namespace

void ExchangeMeter::Begin(size_t shards) {
  open_.assign(shards, 0);
  Restart();
}

void ExchangeMeter::Restart() {
  measured_ = {};
  measured_.shards.resize(open_.size());
  last_.reset();
  burst_.reset();
  after_restart_ = true;
}

void ExchangeMeter::Drop(ShardId shard) {
  if (shard < open_.size()) open_[shard] = 0;
}

void ExchangeMeter::OnPush(ShardId shard) {
  if (shard < open_.size()) ++open_[shard];
}

// Ignores an answer to a push from before Begin, which is not in `open_`.
void ExchangeMeter::OnMoved(ShardId shard) {
  if (shard < open_.size() && open_[shard] > 0) --open_[shard];
}

void ExchangeMeter::OnIdle() {
  open_.assign(open_.size(), 0);
  last_.reset();
  after_restart_ = false;
  if (!burst_.has_value()) return;
  measured_.burst_bytes += burst_->bytes;
  measured_.bursts += burst_->end - burst_->begin;
  burst_.reset();
}

void ExchangeMeter::AddToBurst(uint64_t bytes, bool full, Time now) {
  if (burst_.has_value()) {
    burst_->bytes += bytes;
    burst_->end = now;
  } else if (full && !after_restart_) {
    burst_ = Burst{now, now, 0};
  }
}

void ExchangeMeter::OnAnswered(ShardId shard, uint64_t bytes, bool full, Time now) {
  if (shard >= open_.size()) return;
  AddToBurst(bytes, full, now);
  if (!full) {
    last_.reset();
  } else {
    if (last_.has_value() && now - *last_ <= kPauseMax) {
      const Duration passed = now - *last_;
      measured_.active += passed;
      for (ShardId i = 0; i < open_.size(); ++i) {
        if (open_[i] > 0) measured_.shards[i].busy += passed;
      }
      measured_.shards[shard].bytes += bytes;
    }
    last_ = now;
  }
  OnMoved(shard);
}

std::optional<ExchangeMeter::Measurement> ExchangeMeter::Take() {
  if (measured_.active < length_) return std::nullopt;
  Measurement taken = std::exchange(measured_, {});
  measured_.shards.resize(open_.size());
  return taken;
}

}  // namespace byteps::plan
