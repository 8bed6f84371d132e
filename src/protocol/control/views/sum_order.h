// Tells what a view says of the order of sums, in the words of plan/follows_ranks.h.
#pragma once

#include <vector>

#include "src/base/status.h"
#include "src/plan/follows_ranks.h"
#include "src/wire/view.h"

namespace byteps::protocol {

inline plan::SumRules SumRulesOf(const wire::View& view) {
  return {.group = view.sum_group, .own_nodes = view.same_bits};
}

// Describes the sums of all ranks with which the generation of the view began. A rank that is gone
// counts, so the report holds for the whole generation and for every process set.
plan::SumReport DescribeSums(const wire::View& view);

// kRefused: the job allows only sums that depend on ranks alone, and this generation has others.
Status CheckSums(const wire::View& view);

}  // namespace byteps::protocol
