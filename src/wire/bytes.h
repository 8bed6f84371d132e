// Reads and writes little-endian numbers at byte positions, whatever the machine's order and
// alignment.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace byteps::wire {

template <std::unsigned_integral T>
void PutLittle(std::byte* at, T value) {
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(at, &value, sizeof(T));  // one store, where compilers would make eight of the loop
    return;
  }
  for (size_t i = 0; i < sizeof(T); ++i) {
    at[i] = static_cast<std::byte>(value >> (8 * i));
  }
}

template <std::unsigned_integral T>
T GetLittle(const std::byte* at) {
  T value = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&value, at, sizeof(T));
    return value;
  }
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(at[i]) << (8 * i)));
  }
  return value;
}

}  // namespace byteps::wire
