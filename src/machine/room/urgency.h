// The order in which the rounds of a machine get what is scarce: the most urgent one first.
#pragma once

#include <compare>
#include <cstdint>

#include "src/machine/room/words.h"

namespace byteps::machine {

struct Urgency {
  int64_t before = 0;  // the priority, negated
  uint32_t order = 0;
  RoundKey key;
  friend auto operator<=>(const Urgency&, const Urgency&) = default;
};

}  // namespace byteps::machine
