// What random scripts are made with.
#pragma once

#include <cstdint>
#include <random>

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

}  // namespace byteps::sim
