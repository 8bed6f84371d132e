// What can be wrong with an operation's arguments that one rank can see alone. Whoever accepts
// operations asks here first, so that nothing is accepted which would fail later for its arguments.
#pragma once

#include <vector>

#include "src/base/status.h"
#include "src/operations/work.h"

namespace byteps::operations {

// What the arguments say by themselves; work.place is not looked at. kInvalidArgument otherwise.
Status CheckArguments(const Work& work);

// What depends on who takes part: the root, the splits, how much memory the result needs and where
// it may lie. `work.splits` that are not given become equal ones, in `splits`, which outlives
// `work`. REQUIRES: CheckArguments(work).ok(), and this rank takes part.
Status CheckPlace(Work& work, std::vector<uint64_t>& splits);

}  // namespace byteps::operations
