#include "src/protocol/worker/front/idle_tensors.h"

#include <algorithm>

namespace byteps::protocol {

void IdleTensors::Clear() { *this = IdleTensors(patience_min_, patience_max_); }

uint64_t IdleTensors::Begin(uint64_t last) {
  ++begun_;
  if (last != 0) {
    longest_pause_ = std::max(longest_pause_, begun_ - last);
    for (ByNumber& ended : ended_) ended.erase(last);
  }
  return begun_;
}

void IdleTensors::End(uint64_t number, TensorId tensor) { ended_[0][number] = tensor; }

uint64_t IdleTensors::patience() const {
  return std::clamp(2 * longest_pause_, patience_min_, patience_max_);
}

// Returns tensors in batches, because each batch costs a message.
std::vector<TensorId> IdleTensors::TakeIdle() {
  if (begun_ < look_at_) return {};
  look_at_ = begun_ + std::max<uint64_t>(1, patience_min_ / 32);
  std::vector<TensorId> idle;
  uint64_t limit = patience();
  for (size_t stay = 0; stay < ended_.size(); ++stay, limit *= kProbeFactor) {
    ByNumber& ended = ended_[stay];
    while (!ended.empty() && ended.begin()->first + limit < begun_) {
      auto oldest = ended.extract(ended.begin());
      const bool stays = stay + 1 < ended_.size() && ++taken_[stay] % kProbeOneIn == 0;
      if (stays) {
        ended_[stay + 1].insert(std::move(oldest));
      } else {
        idle.push_back(oldest.mapped());
      }
    }
  }
  return idle;
}

}  // namespace byteps::protocol
