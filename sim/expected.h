// What workers bring to the operations of a script, and what must come out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/script.h"

namespace byteps::sim {

// Any bytes are legal inputs; they depend on the seed, on who, what and when only.
std::vector<std::byte> InputOf(const Script& script, uint64_t seed, uint32_t worker,
                               uint32_t tensor, uint32_t round);

// The result of a worker that takes part, when all who do agree.
std::vector<std::byte> ExpectedOf(const Script& script, uint64_t seed, uint32_t worker,
                                  uint32_t tensor, uint32_t round);

}  // namespace byteps::sim
