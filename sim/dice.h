// The dice with which random scripts are made.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "sim/cluster.h"
#include "src/base/time.h"

namespace byteps::sim {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15 + 1) {}
  uint64_t Below(uint64_t end) { return random_() % end; }
  uint64_t From(uint64_t first, uint64_t last) { return first + Below(last - first + 1); }
  uint32_t Below32(size_t end) { return static_cast<uint32_t>(Below(end)); }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  Duration Between(Duration least, Duration most) {
    return least +
           Duration(static_cast<int64_t>(Below(static_cast<uint64_t>((most - least).count()) + 1)));
  }
  std::mt19937_64& engine() { return random_; }

 private:
  std::mt19937_64 random_;
};

// Rolls the number of lanes and the delay of mail, with dice of their own, so that the seeds
// otherwise keep their schedules. A third of the seeds have workers of one lane and no late mail.
inline void RollLanes(uint64_t seed, ClusterOptions& cluster) {
  Dice dice(seed ^ 0x1a4e5);
  if (dice.OneIn(3)) return;
  cluster.lanes = static_cast<uint32_t>(dice.From(1, 3));
  if (!dice.OneIn(3)) cluster.mail_delay_max = dice.Between(microseconds(5), milliseconds(3));
}

inline std::string DescribeLanes(const ClusterOptions& cluster) {
  std::string text = cluster.lanes == 1 ? "" : ", " + std::to_string(cluster.lanes) + " lanes";
  if (cluster.mail_delay_max == Duration::zero()) return text;
  return text + ", mail up to " + std::to_string(ToSeconds(cluster.mail_delay_max)) + " s late";
}

}  // namespace byteps::sim
