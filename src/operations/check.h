// Finds the mistakes in an operation's arguments that one rank can see alone. Code that accepts
// operations calls these functions first, so that no accepted operation fails later for its
// arguments.
#pragma once

#include <vector>

#include "src/base/status.h"
#include "src/operations/work.h"

namespace byteps::operations {

// Checks the arguments by themselves and ignores work.place. kInvalidArgument: they are wrong.
Status CheckArguments(const Work& work);

// Checks the arguments that depend on the ranks that take part: the root, the splits, the size and
// the place of the result's memory. If `work.splits` is empty, fills it with equal splits that lie
// in `splits`, which must outlive `work`. REQUIRES: CheckArguments(work).ok(), and this rank takes
// part.
Status CheckPlace(Work& work, std::vector<uint64_t>& splits);

}  // namespace byteps::operations
