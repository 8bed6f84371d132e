#include "src/config/nearest_name.h"

#include <algorithm>
#include <vector>

namespace byteps::config {

size_t EditDistance(std::string_view a, std::string_view b) {
  // The table needs three rows, because a swap looks two rows back.
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({last[j] + 1, current[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, current);
  }
  return last[b.size()];
}

std::string_view NearestName(std::string_view name, std::span<const std::string_view> candidates) {
  size_t limit = std::max<size_t>(2, name.size() / 4) + 1;
  std::string_view nearest;
  for (const std::string_view candidate : candidates) {
    const size_t distance = EditDistance(name, candidate);
    if (distance >= limit) continue;
    limit = distance;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace byteps::config
