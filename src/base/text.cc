#include "src/base/text.h"

#include <algorithm>

namespace byteps {

std::string_view CutText(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  return text.substr(0, end);
}

std::string ListText(std::span<const uint32_t> numbers, size_t shown_max) {
  std::string text;
  for (uint32_t number : numbers.first(std::min(numbers.size(), shown_max))) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  if (numbers.size() > shown_max) {
    text += " and " + std::to_string(numbers.size() - shown_max) + " more";
  }
  return text;
}

std::string SecondsText(Duration duration) {
  return std::to_string(std::chrono::duration_cast<seconds>(duration).count()) + " s";
}

std::string DurationText(Duration duration) {
  const auto ms = std::chrono::duration_cast<milliseconds>(duration).count();
  return ms % 1000 == 0 ? SecondsText(duration) : std::to_string(ms) + " ms";
}

}  // namespace byteps
