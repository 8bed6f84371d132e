// The parts of scripts of faults.
#pragma once

#include <cstdint>

#include "sim/dice.h"
#include "sim/faults.h"

namespace byteps::sim {

uint32_t Workers(const FaultScript& script);
uint32_t Servers(const FaultScript& script);
uint32_t Shards(const FaultScript& script);

// Makes one fault of this kind, against some node of the script, at some time.
FaultEvent FaultOf(Fault fault, Dice& dice, const FaultScript& script);
// Rolls a time after another event: at once, within a message's way, within a round, or later.
Duration Soon(Dice& dice);
Moment SomeMoment(Dice& dice);
FaultEvent Trigger(Moment moment, uint64_t nth, uint32_t by);
// Makes a fault of this kind right after a moment of the protocol.
FaultEvent After(Moment moment, uint32_t nth, Fault fault, Target target, Dice& dice,
                 const FaultScript& script);
// Adds a fault that comes `at` after the moment of `trigger`.
FaultEvent& Add(FaultScript& script, const FaultEvent& trigger, Fault fault, uint32_t whom,
                Duration at, Dice& dice);

void MakeTwoServers(Dice& dice, ClusterOptions& cluster);
// Makes enough members that the job survives the loss of two of them.
void MakeLarge(Dice& dice, FaultScript& script);
// Leaves one tensor, so that its rounds wait for no other one.
void MakeOneTensor(Dice& dice, FaultScript& script);

}  // namespace byteps::sim
