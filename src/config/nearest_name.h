// Finds the known name that a mistyped one most resembles, for "did you mean ...?".
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace byteps::config {

// Returns how many insertions, deletions, substitutions and swaps of neighbours turn `a` into `b`.
size_t EditDistance(std::string_view a, std::string_view b);

// Returns the candidate with the smallest distance to `name`, the first of equal ones. Returns an
// empty text if even that one is more than two edits and more than a quarter of the name away.
std::string_view NearestName(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace byteps::config
