// Faults that come together, at instants that the protocol chooses.
#pragma once

#include <cstdint>

#include "sim/dice.h"
#include "sim/faults.h"

namespace byteps::sim {

// Two kinds close together: `pair` counts through all of them.
void PlanPair(Dice& dice, uint64_t pair, FaultScript& script);

// One of the histories in which a mistake of the protocol would do harm. May change the script's
// cluster, too.
void PlanHistory(Dice& dice, FaultScript& script);

}  // namespace byteps::sim
