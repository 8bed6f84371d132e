#include "src/base/machine_layout.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

namespace byteps {
namespace {

constexpr size_t kShownMax = 16;

}  // namespace

MachineLayout::MachineLayout(std::vector<uint32_t> sizes)
    : machines_(sizes.size()), sizes_(std::move(sizes)) {
  if (std::ranges::adjacent_find(sizes_, std::ranges::not_equal_to()) == sizes_.end()) {
    sizes_.resize(1);
  }
}

MachineLayout MachineLayout::Equal(uint32_t machines, uint32_t size) {
  MachineLayout layout;
  layout.machines_ = machines;
  layout.sizes_ = {size};
  return layout;
}

uint32_t MachineLayout::largest() const { return std::ranges::max(sizes_); }

uint64_t MachineLayout::FirstRank(uint64_t machine) const {
  if (IsEqual()) return machine * sizes_.front();
  const auto end = sizes_.begin() + static_cast<std::ptrdiff_t>(machine);
  return std::accumulate(sizes_.begin(), end, uint64_t{0});
}

std::string MachineLayout::Text() const {
  if (IsEqual()) {
    return std::to_string(machines_) + (machines_ == 1 ? " machine with " : " machines with ") +
           std::to_string(sizes_.front()) + (sizes_.front() == 1 ? " worker" : " workers") +
           (machines_ == 1 ? "" : " each");
  }
  std::string text = "machines with ";
  for (size_t i = 0; i < std::min(sizes_.size(), kShownMax); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(sizes_[i]);
  }
  if (sizes_.size() <= kShownMax) return text + " workers";
  return text + ",... workers (" + std::to_string(sizes_.size()) + " machines)";
}

}  // namespace byteps
