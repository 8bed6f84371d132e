#include "src/plan/follows_ranks.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "src/base/sum_place.h"

namespace byteps::plan {
namespace {

using Layout = std::vector<Summands>;

// Returns the contributors that are no nodes of the tree: the smallest block that holds their
// places holds places of others, too.
std::vector<size_t> NoBlocks(std::span<const Summands> contributors, uint32_t group) {
  std::vector<size_t> found;
  const auto sums = [](const Summands& one) { return one.size() > 1; };
  if (std::ranges::none_of(contributors, sums)) return found;
  Summands all;
  for (const Summands& one : contributors) all.insert(all.end(), one.begin(), one.end());
  std::vector<uint32_t> places = PlacesOf(all, group);
  std::ranges::sort(places);
  for (size_t i = 0; i < contributors.size(); ++i) {
    const Summands& own = contributors[i];
    if (!sums(own)) continue;
    const uint32_t first = PlaceOf(own.front(), group);
    const uint32_t height = LevelOf(first, PlaceOf(own.back(), group));
    const uint64_t begin = uint64_t{first} >> height << height;
    const uint64_t end = begin + (uint64_t{1} << height);
    const auto from = std::lower_bound(places.begin(), places.end(), begin);
    const auto to = std::lower_bound(places.begin(), places.end(), end);
    if (static_cast<size_t>(to - from) != own.size()) found.push_back(i);
  }
  return found;
}

bool AreBlocks(std::span<const Summands> contributors, uint32_t group) {
  return NoBlocks(contributors, group).empty();
}

// Returns "0-2" or "0, 2, 4".
std::string RangesOf(const Summands& ranks) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0, shown = 0; i < ranks.size(); ++shown) {
    if (shown == kShown) return text + " and more";
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text += (last > i + 1 ? "-" : ", ") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

// Returns the same contributors with ranks that follow one another, from 0.
Layout InOrder(Layout layout) {
  uint32_t next = 0;
  for (Summands& one : layout) {
    std::iota(one.begin(), one.end(), next);
    next += static_cast<uint32_t>(one.size());
  }
  return layout;
}

// Returns the smallest group with which the contributors are blocks.
std::optional<uint32_t> GroupFor(const Layout& layout) {
  size_t largest = 0;
  for (const Summands& one : layout) largest = std::max(largest, one.size());
  for (uint32_t group = 1; group <= largest; ++group) {
    // 2 is the same order as 1, and so is each power of two.
    if ((group == 1 || !std::has_single_bit(group)) && AreBlocks(layout, group)) return group;
  }
  return std::nullopt;
}

// Returns what to change so that the contributors are blocks, and changes as little as possible.
std::string RemedyFor(std::span<const Summands> contributors, uint32_t group) {
  constexpr const char* kBySlot =
      "give each machine ranks that follow one another (mpirun: --map-by slot)";
  constexpr const char* kLargerFirst = "put larger machines first";
  const auto set_group = [](uint32_t to) {
    return "set BYTEPS_SUM_GROUP=" + std::to_string(to) + " for all workers";
  };
  Layout layout(contributors.begin(), contributors.end());
  std::erase_if(layout, [](const Summands& one) { return one.empty(); });
  std::ranges::sort(layout);
  Layout sorted = layout;
  std::ranges::stable_sort(sorted, std::greater(), &Summands::size);
  const std::pair<const char*, Layout> changes[] = {
      {"", layout}, {kBySlot, InOrder(layout)}, {kLargerFirst, InOrder(sorted)}};
  for (const auto& [what, changed] : changes) {
    if (AreBlocks(changed, group)) return what;
    const std::optional<uint32_t> better = GroupFor(changed);
    if (better.has_value())
      return *what == '\0' ? set_group(*better) : what + std::string(", and ") + set_group(*better);
  }
  return "set BYTEPS_LOCAL_REDUCE=0 for all workers, so that each of them pushes by itself";
}

}  // namespace

SumBits BitsOf(std::span<const Summands> contributors, const SumRules& rules) {
  if (!AreBlocks(contributors, rules.group)) return SumBits::kOnPlacement;
  const bool machines =
      std::ranges::any_of(contributors, [](const Summands& one) { return one.size() > 1; });
  return machines && !rules.own_nodes ? SumBits::kOnMachines : SumBits::kOnNothingElse;
}

bool FollowsRanks(SumBits bits, Combine how, DataType type, bool encoded) {
  if (encoded) return false;
  const bool adds = how == Combine::kSum || how == Combine::kAverage || how == Combine::kProduct;
  if (!adds) return true;
  switch (type) {
    case DataType::kFloat32:
    case DataType::kFloat64: return bits != SumBits::kOnPlacement;
    case DataType::kFloat16:
    case DataType::kBfloat16: return bits == SumBits::kOnNothingElse;
    default: return true;
  }
}

// With servers a sum of more than 64 bits wraps before its division, and without servers it does
// not. What came last depends on time.
bool IsOnAnyLayout(SumBits bits, Combine how, DataType type, bool encoded) {
  const bool may_wrap = how == Combine::kAverage && type == DataType::kInt64;
  return how != Combine::kLast && !may_wrap && FollowsRanks(bits, how, type, encoded);
}

SumReport DescribeSums(std::span<const Summands> contributors, const SumRules& rules) {
  const SumBits bits = BitsOf(contributors, rules);
  if (bits == SumBits::kOnNothingElse) return {bits, "sums depend on ranks alone"};
  if (bits == SumBits::kOnMachines) {
    return {bits,
            "sums of float16 and bfloat16 depend on which ranks share a machine "
            "(BYTEPS_SAME_BITS=1 ends that)"};
  }
  std::string text = "sums of floats depend on placement: ranks ";
  const std::vector<size_t> found = NoBlocks(contributors, rules.group);
  text += RangesOf(contributors[found[0]]);
  if (found.size() == 2) text += " and " + RangesOf(contributors[found[1]]);
  if (found.size() > 2) text += " and those of " + std::to_string(found.size() - 1) + " machines";
  return {bits, text + " are no blocks; " + RemedyFor(contributors, rules.group)};
}

std::string RefusalOf(const SumReport& report) {
  return "BYTEPS_SAME_BITS=1 allows only sums that depend on ranks alone, but " + report.text;
}

}  // namespace byteps::plan
