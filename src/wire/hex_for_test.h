// Writes golden bytes as text.
#pragma once

#include <string>

#include "src/base/types.h"

namespace byteps::wire {

inline std::string Hex(ConstByteSpan bytes) {
  static const char* kDigits = "0123456789abcdef";
  std::string text;
  for (std::byte b : bytes) {
    text += kDigits[static_cast<uint8_t>(b) >> 4];
    text += kDigits[static_cast<uint8_t>(b) & 15];
  }
  return text;
}

}  // namespace byteps::wire
