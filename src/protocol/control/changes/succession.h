// Functions over the whole state of the coordinator: one view follows another. They know when the
// next view is due, which view it is, and what follows everywhere when it is in force.
#pragma once

#include <cstdint>

#include "src/protocol/control/changes/state.h"

namespace byteps::protocol {

enum class ViewStep : uint8_t {
  kNone,   // the coordinator has to wait, or has nothing to do
  kDone,   // more may be possible now
  kFound,  // the view in force is known again: everything that waited for that can be judged
};

// Does one step of the work that can be done now. REQUIRES: the job is not over.
ViewStep AdvanceViews(CoordinatorState& state);

}  // namespace byteps::protocol
