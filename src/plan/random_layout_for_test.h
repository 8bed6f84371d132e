// Random layouts of ranks over machines, and process sets of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "src/plan/follows_ranks.h"

namespace byteps::plan {

struct RandomLayout {
  std::vector<Summands> contributors;  // the ranks of a random set; none is empty
  uint32_t group = 1;
};

// Deals up to 16 ranks to machines at random, one after the other, or in turn, and leaves out about
// a quarter of them. The contributors come in any order.
inline RandomLayout DealAtRandom(std::mt19937& random) {
  const auto below = [&random](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  const uint32_t ranks = 2 + below(15), machines = 1 + below(ranks), style = below(3);
  RandomLayout made;
  made.contributors.resize(ranks);
  made.group = std::array<uint32_t, 5>{1, 1, 3, 5, 6}[below(5)];
  uint32_t machine = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (style == 0) machine = below(machines);
    if (style == 1) machine = rank % machines;
    if (style == 2 && rank > 0 && below(4) == 0) ++machine;
    if (below(4) != 0) made.contributors[machine].push_back(rank);
  }
  std::erase_if(made.contributors, [](const Summands& one) { return one.empty(); });
  std::ranges::shuffle(made.contributors, random);
  return made;
}

}  // namespace byteps::plan
