// The sizes of buffers that are used again: four for each power of two. So a buffer wastes at most
// a quarter, and fits later requests of nearly the same size.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "src/base/buffer_source.h"

namespace byteps {

// The last class has buffers of 128 GB.
inline constexpr uint32_t kSizeClasses = 4 * 31 + 1;

// Returns the smallest class whose buffers have so many bytes; kSizeClasses or more if none has.
inline uint32_t SizeClassOf(size_t bytes) {
  if (bytes <= kBufferAlignment) return 0;
  const size_t base = std::bit_floor(bytes - 1);
  const size_t quarters = (bytes - base + base / 4 - 1) / (base / 4);
  return static_cast<uint32_t>(4 * (std::countr_zero(base) - 6) + quarters);
}

// Returns the bytes of each buffer of a class.
inline size_t BytesOfClass(uint32_t size_class) {
  if (size_class == 0) return kBufferAlignment;
  const size_t base = kBufferAlignment << ((size_class - 1) / 4);
  return base + ((size_class - 1) % 4 + 1) * (base / 4);
}

}  // namespace byteps
