// The heaps of all ranks of a machine, as one of them sees them: its own, and those of the others,
// which it can only read. Belongs to the thread of its window.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/types.h"
#include "src/local/heap.h"
#include "src/local/unique_fd.h"

namespace byteps::local {

class Heaps {
 public:
  // `others`: descriptors by rank; the own one is empty.
  Heaps(uint32_t rank, std::shared_ptr<Heap> own, std::vector<UniqueFd> others);
  ~Heaps();
  Heaps(const Heaps&) = delete;
  Heaps& operator=(const Heaps&) = delete;

  // Makes a rank's heap readable here. False: it cannot be, because this process has no room for
  // it, or the rank has sent something else.
  bool Map(uint32_t rank);
  // From now on the others' heaps cannot be read, and this process keeps none of their memory.
  void Close();

  // Where these bytes lie in the own heap; nothing if they lie elsewhere.
  std::optional<uint64_t> OffsetOf(ConstByteSpan bytes) const { return own_->OffsetOf(bytes); }
  // Bytes of a rank's heap. Null: there are none such, or they cannot be read here.
  const std::byte* At(uint32_t rank, uint64_t offset, size_t bytes) const;

 private:
  struct View {
    UniqueFd fd;
    ConstByteSpan bytes;
  };

  const uint32_t rank_;
  const std::shared_ptr<Heap> own_;  // shared with the tensors that lie in it
  std::vector<View> views_;
};

}  // namespace byteps::local
