// Tells whether the bits of a sum follow from the ranks and their inputs alone, so that every other
// layout of the same ranks gives the same bits. The sum is a binary tree over the places of the
// ranks (base/sum_place.h), and a contributor with several ranks pushes one number for all of them.
// So each contributor must be a node of that tree. docs/decisions/0047-same-bits.md has the rule.
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/types.h"

namespace byteps::plan {

// The ranks that one contributor sums, ascending; those outside of a process set are left out. A
// machine whose ranks sum first is one contributor, every other rank is one by itself.
using Summands = std::vector<uint32_t>;

// The order of sums in a job: wire::View has the same values.
struct SumRules {
  uint32_t group = 1;
  bool own_nodes = false;  // nodes of float16 and bfloat16 are of their own type (same_bits=1)
};

// Names what bits of sums depend on, beside ranks and inputs. A later one includes the earlier
// ones.
enum class SumBits : uint8_t {
  kOnNothingElse,
  kOnMachines,   // float16 and bfloat16: on which ranks share a machine
  kOnPlacement,  // all floats
};

// Decides by the contributors of a sum; those without ranks count for nothing. A sum in which some
// of these ranks do not take part depends on no more than this. REQUIRES: group is not 0.
SumBits BitsOf(std::span<const Summands> contributors, const SumRules& rules);

// Returns whether the bits of one result follow from ranks and inputs alone, if BitsOf said `bits`
// of its contributors. `encoded`: a codec has rounded each contribution.
bool FollowsRanks(SumBits bits, Combine how, DataType type, bool encoded);

// Returns whether also a job with other servers, or without servers, gives the same bits. If in
// doubt, returns false.
bool IsOnAnyLayout(SumBits bits, Combine how, DataType type, bool encoded);

// Holds what bits of sums depend on in a job, and one sentence that says it, with what ends that in
// this layout.
struct SumReport {
  SumBits bits = SumBits::kOnNothingElse;
  std::string text;
};
// Describes a job of these contributors. REQUIRES: like BitsOf.
SumReport DescribeSums(std::span<const Summands> contributors, const SumRules& rules);

// Returns the sentence of a job that allows only sums of `kOnNothingElse`, and has others.
std::string RefusalOf(const SumReport& report);

}  // namespace byteps::plan
