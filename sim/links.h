// Shows how fast the placement follows links without a declared rate, in virtual time.
#pragma once

#include <cstdint>

namespace byteps::sim {

struct LinksOptions {
  uint32_t workers = 4;
  uint32_t servers = 4;  // on hosts of their own
  double mbit = 100;
  uint32_t steps = 12;  // of each rate
};

// Gives one server's link a half, then a quarter, and then all of the rate again. Prints the time
// of every step divided by the least possible one. Returns 1 if the last step with a slow link is
// above 1.06.
int RunLinks(const LinksOptions& options);

}  // namespace byteps::sim
