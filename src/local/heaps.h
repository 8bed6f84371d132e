// The heaps of all ranks of a machine, as one rank sees them: its own heap, and the heaps of the
// others, which it can only read. Belongs to the thread of the rank's window.
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
  // `others`: descriptors by rank; this rank's is empty.
  Heaps(uint32_t rank, std::shared_ptr<Heap> own, std::vector<UniqueFd> others);
  ~Heaps();
  Heaps(const Heaps&) = delete;
  Heaps& operator=(const Heaps&) = delete;

  // Makes a rank's heap readable here. Returns false if this process has no room for it, or if the
  // rank's descriptor is no heap.
  bool Map(uint32_t rank);
  // Unmaps the heaps of the others, so that this process keeps none of their memory. They cannot be
  // read any more.
  void Close();

  // Returns the offset of these bytes in the own heap; nothing if they are not in it.
  std::optional<uint64_t> OffsetOf(ConstByteSpan bytes) const { return own_->OffsetOf(bytes); }
  // Returns bytes of a rank's heap. Null: the heap does not have them, or cannot be read here.
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
