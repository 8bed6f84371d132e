// The workers of a simulated job are contributors. Each has a carrier, which carries out its user's
// operations and talks to the shards, and perhaps siblings, which are members of the control plane
// only. A carrier's contribution stands for all of its processes.
//
// Processes have numbers from worker to worker, the carrier first. The processes with which the job
// begins have these numbers as ranks; a later one gets the rank of one that is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace byteps::sim {

class Processes {
 public:
  // `sizes`: the number of processes of each of the `workers`; one for workers that the list does
  // not have.
  Processes(const std::vector<uint32_t>& sizes, size_t workers) : first_(1, 0) {
    for (size_t worker = 0; worker < workers; ++worker) {
      first_.push_back(first_.back() + (worker < sizes.size() ? sizes[worker] : 1));
    }
  }

  uint32_t count() const { return first_.back(); }
  uint32_t SizeOf(uint32_t worker) const { return first_[worker + 1] - first_[worker]; }
  // Returns the number of the worker's carrier; its siblings' numbers follow. REQUIRES: worker <=
  // workers.
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
