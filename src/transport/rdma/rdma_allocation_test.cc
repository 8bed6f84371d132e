// The steady state of a connection over RDMA allocates nothing. The stand-in for libibverbs may
// allocate, because it is no part of the product.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "src/base/allocation_count_for_test.h"
#include "src/transport/rdma/over_standin_for_test.h"
#include "src/transport/tcp/steady_state_for_test.h"

namespace byteps::transport {
namespace {

// Finds the code of the stand-in in this process.
void DoNotCountTheStandin() {
  uintptr_t begin = UINTPTR_MAX;
  uintptr_t end = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("verbs_standin") == std::string::npos) continue;
    size_t used = 0;
    begin = std::min<uintptr_t>(begin, std::stoull(line, &used, 16));
    end = std::max<uintptr_t>(end, std::stoull(line.substr(used + 1), nullptr, 16));
  }
  ASSERT_LT(begin, end);
  DoNotCountCallers(begin, end);
}

OverStandin AtOnce() {
  RdmaOptions options;
  options.offers_at_once = true;
  return OverStandin(options);
}

TEST(RdmaAllocationTest, TheSteadyStateAllocatesNothing) {
  auto transport = AtOnce();
  DoNotCountTheStandin();
  ExpectTheSteadyStateAllocatesNothing(transport, "rdma standin0");
}

TEST(RdmaAllocationTest, TheSteadyStateWithBuffersOfThePoolAllocatesNothing) {
  auto transport = AtOnce();
  DoNotCountTheStandin();
  ExpectTheSteadyStateAllocatesNothing(transport, "rdma standin0", true);
}

}  // namespace
}  // namespace byteps::transport
