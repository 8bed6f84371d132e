#include "src/base/buffer_source.h"

#include <new>

namespace byteps {
namespace {

class Heap final : public BufferSource {
 public:
  std::byte* Make(size_t bytes) noexcept override {
    return static_cast<std::byte*>(
        ::operator new(bytes, std::align_val_t{kBufferAlignment}, std::nothrow));
  }
  void Free(std::byte* memory, size_t) noexcept override {
    ::operator delete(memory, std::align_val_t{kBufferAlignment});
  }
};

}  // namespace

BufferSource& HeapMemory() {
  static Heap heap;  // tidy-allow(global): it has no state
  return heap;
}

}  // namespace byteps
