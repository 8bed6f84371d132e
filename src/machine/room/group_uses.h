// The bits of BlockUse::generation by which groups of devices use the window. The rest of the
// generation is the first piece of the round.
#pragma once

#include <cstdint>

#include "src/local/block_use.h"

namespace byteps::machine {

// Groups of devices sum the round. Only the homes of a piece bring it, and only they read the sum.
inline constexpr uint32_t kByGroup = uint32_t{1} << 30;
// The use has no bytes: its decision is that of the whole round. A rank fills it when its launches
// are over, and it has the sum.
inline constexpr uint32_t kDecides = uint32_t{1} << 29;

inline bool IsByGroup(const local::BlockUse& use) { return (use.generation & kByGroup) != 0; }
inline bool Decides(const local::BlockUse& use) { return (use.generation & kDecides) != 0; }

}  // namespace byteps::machine
