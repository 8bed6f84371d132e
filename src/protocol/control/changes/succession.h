// Functions over the whole state of the coordinator: one view follows another. They know when the
// next view is due and what it is, and what follows everywhere when it is in force.
#pragma once

#include <cstdint>

#include "src/protocol/control/changes/state.h"

namespace byteps::protocol {

enum class ViewStep : uint8_t {
  kNone,   // it has to wait, or there is nothing to do
  kDone,   // more may be possible now
  kFound,  // the view in force is known again: what waited for that can be judged
};

// Does one step of what can be done now. REQUIRES: the job is not over.
ViewStep AdvanceViews(CoordinatorState& state);

}  // namespace byteps::protocol
