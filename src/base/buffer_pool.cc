#include "src/base/buffer_pool.h"

#include <bit>
#include <cassert>
#include <new>

namespace byteps {
namespace {

constexpr size_t kAlignment = 64;

uint32_t ClassOf(size_t bytes) {
  size_t rounded = std::bit_ceil(bytes < kAlignment ? kAlignment : bytes);
  return static_cast<uint32_t>(std::countr_zero(rounded)) - 6;
}

size_t BytesOf(uint32_t size_class) { return size_t{kAlignment} << size_class; }

}  // namespace

BufferPool::~BufferPool() {
  assert(bytes_in_use_ == 0);
  for (Block& block : blocks_) ::operator delete(block.bytes, std::align_val_t{kAlignment});
}

BufferRef BufferPool::Take(size_t bytes) {
  if (bytes == 0) return {};
  uint32_t size_class = ClassOf(bytes);
  assert(size_class < kClassCount);
  auto& blocks = free_[size_class];
  Block* block = nullptr;
  if (!blocks.empty()) {
    block = blocks.back();
    blocks.pop_back();
  } else {
    auto* memory =
        static_cast<std::byte*>(::operator new(BytesOf(size_class), std::align_val_t{kAlignment}));
    block = &blocks_.emplace_back(Block{this, memory, 0, size_class});
    bytes_held_ += BytesOf(size_class);
  }
  block->references = 1;
  bytes_in_use_ += BytesOf(size_class);
  return BufferRef(block);
}

void BufferPool::Release(Block* block) {
  bytes_in_use_ -= BytesOf(block->size_class);
  free_[block->size_class].push_back(block);
}

}  // namespace byteps
