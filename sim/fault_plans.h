// Plans faults that come together, at instants that the protocol chooses.
#pragma once

#include <cstdint>

#include "sim/dice.h"
#include "sim/faults.h"

namespace byteps::sim {

// Plans two kinds of faults close together; `pair` counts through all pairs.
void PlanPair(Dice& dice, uint64_t pair, FaultScript& script);

// Plans one of the histories in which a mistake of the protocol would do harm. May change the
// script's cluster, too.
void PlanHistory(Dice& dice, FaultScript& script);

}  // namespace byteps::sim
