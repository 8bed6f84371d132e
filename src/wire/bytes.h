// Little-endian numbers at byte positions, whatever the machine's order and alignment.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace byteps::wire {

template <std::unsigned_integral T>
void PutLittle(std::byte* at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    at[i] = static_cast<std::byte>(value >> (8 * i));
  }
}

template <std::unsigned_integral T>
T GetLittle(const std::byte* at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(at[i]) << (8 * i)));
  }
  return value;
}

}  // namespace byteps::wire
