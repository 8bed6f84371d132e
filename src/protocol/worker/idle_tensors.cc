#include "src/protocol/worker/idle_tensors.h"

#include <algorithm>

namespace byteps::protocol {

void IdleTensors::Clear() { *this = IdleTensors(patience_min_, patience_max_); }

uint64_t IdleTensors::Begin(uint64_t last) {
  ++begun_;
  if (last != 0) {
    longest_pause_ = std::max(longest_pause_, begun_ - last);
    ended_.erase(last);
    probes_.erase(last);
  }
  return begun_;
}

void IdleTensors::End(uint64_t number, TensorId tensor) { ended_[number] = tensor; }

uint64_t IdleTensors::patience() const {
  return std::clamp(2 * longest_pause_, patience_min_, patience_max_);
}

// In batches: each costs a message.
std::vector<TensorId> IdleTensors::TakeIdle() {
  if (begun_ < look_at_) return {};
  look_at_ = begun_ + std::max<uint64_t>(1, patience_min_ / 32);
  const uint64_t limit = patience();
  std::vector<TensorId> idle;
  while (!ended_.empty() && ended_.begin()->first + limit < begun_) {
    auto oldest = ended_.extract(ended_.begin());
    if (++taken_ % kProbeOneIn == 0) {
      probes_.insert(std::move(oldest));
    } else {
      idle.push_back(oldest.mapped());
    }
  }
  while (!probes_.empty() && probes_.begin()->first + kProbeFactor * limit < begun_) {
    idle.push_back(probes_.extract(probes_.begin()).mapped());
  }
  return idle;
}

}  // namespace byteps::protocol
