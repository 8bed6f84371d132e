#include "src/base/buffer_pool.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "src/base/check.h"
#include "src/base/size_classes.h"

namespace byteps {
namespace {

// The pool looks for buffers that nobody needs after it has handed out kTakenMin buffers, or
// kTakenEach times the number of buffers that it has, if that is more. One step of a training takes
// each buffer once.
constexpr size_t kTakenMin = 4096;
constexpr size_t kTakenEach = 8;

template <typename T>
void MakeRoom(std::vector<T>& list, size_t count) {
  if (list.capacity() < count) list.reserve(std::max(count, 2 * list.capacity()));
}

}  // namespace

BufferPool::~BufferPool() {
  EndOffer();
  assert(bytes_in_use_ == 0);
  for (Class& of : classes_) Free(of, of.free.size());
}

BufferRef BufferPool::Take(size_t bytes) {
  if (bytes == 0) return {};
  if (bytes == offered_bytes_ && offered_) return std::exchange(offered_, BufferRef());
  uint32_t size_class = SizeClassOf(bytes);
  BYTEPS_CHECK(size_class < kSizeClasses);
  Class& of = classes_[size_class];
  Block* block = nullptr;
  if (of.free.empty()) {
    block = Make(size_class);
  } else {
    block = of.free.back();
    of.free.pop_back();
  }
  of.unused = std::min(of.unused, of.free.size());
  block->references = 1;
  bytes_in_use_ += BytesOfClass(size_class);
  if (++taken_ >= std::max(kTakenMin, kTakenEach * block_count_)) FreeWhatIsNotNeeded();
  return BufferRef(block);
}

// The lists get their room first, because giving a buffer back may not fail.
BufferPool::Block* BufferPool::Make(uint32_t size_class) {
  Class& of = classes_[size_class];
  size_t bytes = BytesOfClass(size_class);
  MakeRoom(of.free, of.count + 1);
  MakeRoom(spare_, blocks_.size() + 1);
  if (spare_.empty()) spare_.push_back(&blocks_.emplace_back());
  std::byte* memory = nullptr;
  do {
    if (bytes_held_ + bytes > bytes_max_) continue;
    memory = source_.Make(bytes);
  } while (memory == nullptr && FreeUnused());
  if (memory == nullptr) throw std::bad_alloc();
  Block* block = spare_.back();
  spare_.pop_back();
  *block = Block{this, memory, 0, size_class};
  ++of.count;
  ++block_count_;
  bytes_held_ += bytes;
  return block;
}

void BufferPool::Release(Block* block) {
  bytes_in_use_ -= BytesOfClass(block->size_class);
  classes_[block->size_class].free.push_back(block);
}

// Frees the buffers that Take would hand out last.
void BufferPool::Free(Class& of, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Block* block = of.free[i];
    const size_t bytes = BytesOfClass(block->size_class);
    bytes_held_ -= bytes;
    source_.Free(std::exchange(block->bytes, nullptr), bytes);
    spare_.push_back(block);
  }
  of.free.erase(of.free.begin(), of.free.begin() + static_cast<ptrdiff_t>(count));
  of.unused = std::min(of.unused, of.free.size());
  of.count -= count;
  block_count_ -= count;
}

bool BufferPool::FreeUnused() {
  size_t before = bytes_held_;
  for (Class& of : classes_) Free(of, of.free.size());
  return bytes_held_ < before;
}

void BufferPool::FreeWhatIsNotNeeded() {
  taken_ = 0;
  for (Class& of : classes_) {
    Free(of, (of.unused + 1) / 2);
    of.unused = of.free.size();
  }
}

}  // namespace byteps
