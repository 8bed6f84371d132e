// Computes the inputs of a script's operations, and the expected results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/script.h"

namespace byteps::sim {

// Returns an input. Any bytes are legal; they depend only on the arguments.
std::vector<std::byte> InputOf(const Script& script, uint64_t seed, uint32_t worker,
                               uint32_t tensor, uint32_t round);

// Returns the result of a worker that takes part, if all workers that do agree.
std::vector<std::byte> ExpectedOf(const Script& script, uint64_t seed, uint32_t worker,
                                  uint32_t tensor, uint32_t round);

}  // namespace byteps::sim
