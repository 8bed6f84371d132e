// How fast the placement follows links that nobody has declared, in virtual time.
#pragma once

#include <cstdint>

namespace byteps::sim {

struct LinksOptions {
  uint32_t workers = 4;
  uint32_t servers = 4;  // on hosts of their own
  double mbit = 100;
  uint32_t steps = 12;  // of each rate
};

// One server's link has a half, then a quarter, and then all of the rate again. Prints the time of
// every step over the least possible one; returns 1 if the last step with a slow link is above
// 1.06.
int RunLinks(const LinksOptions& options);

}  // namespace byteps::sim
