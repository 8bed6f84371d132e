// BufferSource: gives a BufferPool its memory, from the heap or where a device may reach it.
#pragma once

#include <cstddef>

namespace byteps {

inline constexpr size_t kBufferAlignment = 64;

// Belongs to the thread of its pool.
class BufferSource {
 public:
  virtual ~BufferSource() = default;

  // Returns `bytes` of memory, aligned to kBufferAlignment, contents unspecified. Null: there is no
  // memory. A source whose special memory has come to its limit returns ordinary memory instead: it
  // never waits until somebody gives memory back. REQUIRES: bytes > 0.
  virtual std::byte* Make(size_t bytes) noexcept = 0;

  // Takes back memory that Make has returned for as many bytes.
  virtual void Free(std::byte* memory, size_t bytes) noexcept = 0;
};

// Returns the heap. It has no state, so any thread may use it.
BufferSource& HeapMemory();

}  // namespace byteps
