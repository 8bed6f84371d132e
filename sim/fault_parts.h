// What scripts of faults are made of.
#pragma once

#include <cstdint>

#include "sim/dice.h"
#include "sim/faults.h"

namespace byteps::sim {

uint32_t Workers(const FaultScript& script);
uint32_t Servers(const FaultScript& script);
uint32_t Shards(const FaultScript& script);

// One fault of this kind, against some node of the script, at some time.
FaultEvent FaultOf(Fault fault, Dice& dice, const FaultScript& script);
// How long after another thing: at once, within a message's way, within a round, later.
Duration Soon(Dice& dice);
Moment SomeMoment(Dice& dice);
FaultEvent Trigger(Moment moment, uint64_t nth, uint32_t by);
// A fault of this kind right after a moment of the protocol.
FaultEvent After(Moment moment, uint32_t nth, Fault fault, Target target, Dice& dice,
                 const FaultScript& script);
// Adds a fault that comes this long after the `nth` time of something.
FaultEvent& Add(FaultScript& script, const FaultEvent& trigger, Fault fault, uint32_t whom,
                Duration at, Dice& dice);

void MakeTwoServers(Dice& dice, ClusterOptions& cluster);
// Enough members that a job survives the loss of two of them.
void MakeLarge(Dice& dice, FaultScript& script);
// So that a round of it has no other cause to wait.
void MakeOneTensor(Dice& dice, FaultScript& script);

}  // namespace byteps::sim
