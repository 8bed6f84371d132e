#include "src/machine/room/heap_memory.h"

namespace byteps::machine {

Result<runtime::TensorMemory::Taken> HeapMemory::Take(size_t bytes) {
  Result<ByteSpan> shared = heap_->Take(bytes);
  if (shared.ok()) return Taken{shared.value(), true};
  return own_->Take(bytes);
}

void HeapMemory::Give(std::byte* data) {
  if (!heap_->Give(data)) own_->Give(data);
}

}  // namespace byteps::machine
