// Histories in which a mistake of the protocol would do harm. Each function writes one into a
// script, and may change the script's cluster, too.
#pragma once

#include "sim/dice.h"
#include "sim/faults.h"

namespace byteps::sim {

// Histories of rounds and their owners: data_histories.cc.
void OwnerLost(Dice& dice, FaultScript& script);
void StableForSome(Dice& dice, FaultScript& script);
void MovedAndBack(Dice& dice, FaultScript& script);
void GivenUp(Dice& dice, FaultScript& script);
void AnswerWithheld(Dice& dice, FaultScript& script);
void Disagreed(Dice& dice, FaultScript& script);
void Zombie(Dice& dice, FaultScript& script);
void Leaver(Dice& dice, FaultScript& script);
void MovedWhileAway(Dice& dice, FaultScript& script);
void VerdictAfterPush(Dice& dice, FaultScript& script);
void SumInOneHand(Dice& dice, FaultScript& script);

// Histories of views and coordinators: control_histories.cc.
void Interregnum(Dice& dice, FaultScript& script);
void LateMajority(Dice& dice, FaultScript& script);
void Overtaken(Dice& dice, FaultScript& script);
void TwoCoordinators(Dice& dice, FaultScript& script);
void Sleeper(Dice& dice, FaultScript& script);

}  // namespace byteps::sim
