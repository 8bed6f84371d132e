// Deliberate mistakes in the control plane, for tests that show that the checks find them. Each one
// breaks a rule of docs/membership.md; a product never sets one.
#pragma once

#include <cstdint>

namespace byteps::protocol {

enum class CoordinatorMistake : uint8_t {
  kNone = 0,
  kAdmitWithoutSync,       // a worker joins although not everybody has reached a sync point
  kIgnorePromised,         // restarted: does not complete a proposal that was promised
  kDiscountDeadInReading,  // restarted: half of those that are not dead is enough to read
  kNoQuorum,               // commits without waiting for promises
  kReadOnce,               // restarted: does not read again for the view that it has completed
  kDiscountDespiteStrict,  // does not count the dead although two coordinators may live
  kCountOwnStandstill,     // holds time in which it was stopped against the others
};

enum class MembershipMistake : uint8_t {
  kNone = 0,
  kActOnPropose,   // takes a proposed view for one that is in force
  kObeyLowerTerm,  // does what a coordinator says that has been superseded
};

}  // namespace byteps::protocol
