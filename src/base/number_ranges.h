// A set of numbers that is kept as ranges. If numbers come in ascending order and go one by one,
// the memory depends on the numbers that stay, and not on how many have gone. A value. One thread
// at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace byteps {

class NumberRanges {
 public:
  void Insert(uint32_t number) {
    auto next = ranges_.upper_bound(number);
    if (next != ranges_.begin() && std::prev(next)->second >= number) return;
    uint32_t last = number;
    if (next != ranges_.end() && next->first == number + 1) {
      last = next->second;
      next = ranges_.erase(next);
    }
    const bool behind = next != ranges_.begin() && std::prev(next)->second + 1 == number;
    if (behind) {
      std::prev(next)->second = last;
    } else {
      ranges_.emplace_hint(next, number, last);
    }
  }
  bool Contains(uint32_t number) const {
    auto next = ranges_.upper_bound(number);
    return next != ranges_.begin() && std::prev(next)->second >= number;
  }
  void Clear() { ranges_.clear(); }
  size_t range_count() const { return ranges_.size(); }

 private:
  std::map<uint32_t, uint32_t> ranges_;  // from the first number to the last one
};

}  // namespace byteps
