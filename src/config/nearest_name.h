// "Did you mean ...?": the known name that a mistyped one most resembles.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace byteps::config {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate with the smallest distance to `name`, the first of equal ones; empty when none is
// near: more than two edits and more than a quarter of the name.
std::string_view NearestName(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace byteps::config
