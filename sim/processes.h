// The workers of a simulated job are contributors: each has a carrier, which does what its user
// wants and speaks with the shards, and perhaps siblings, which are members of the control plane
// only. A carrier's contribution is that of all of them.
//
// Processes are numbered from worker to worker, the carrier first. Those with which the job begins
// have these numbers as ranks; who comes later gets the rank of one that is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace byteps::sim {

class Processes {
 public:
  // `sizes`: how many each of the `workers` has; one, if it is not named there.
  Processes(const std::vector<uint32_t>& sizes, size_t workers) : first_(1, 0) {
    for (size_t worker = 0; worker < workers; ++worker) {
      first_.push_back(first_.back() + (worker < sizes.size() ? sizes[worker] : 1));
    }
  }

  uint32_t count() const { return first_.back(); }
  uint32_t SizeOf(uint32_t worker) const { return first_[worker + 1] - first_[worker]; }
  // The number of its carrier; those of its siblings follow. REQUIRES: worker <= workers.
  uint32_t CarrierOf(uint32_t worker) const { return first_[worker]; }
  bool IsCarrier(uint32_t process) const { return CarrierOf(WorkerOf(process)) == process; }
  // REQUIRES: process < count().
  uint32_t WorkerOf(uint32_t process) const {
    uint32_t worker = 0;
    while (first_[worker + 1] <= process) ++worker;
    return worker;
  }

 private:
  std::vector<uint32_t> first_;  // by worker, and the end
};

}  // namespace byteps::sim
