// Memory for the tensors of a rank of a machine. Takes it from the rank's heap, which the other
// ranks read; if the heap has no room, from the process. Thread-safe.
#pragma once

#include <memory>

#include "src/local/heap.h"
#include "src/runtime/worker/tensor_memory.h"

namespace byteps::machine {

class HeapMemory final : public runtime::TensorMemory {
 public:
  // Shares the heap with the engine, which asks the heap whether a tensor lies in it.
  explicit HeapMemory(std::shared_ptr<local::Heap> heap) : heap_(std::move(heap)) {}
  ~HeapMemory() override { heap_->Close(); }

  Result<Taken> Take(size_t bytes) override;
  void Give(std::byte* data) override;
  void Close() override { heap_->Close(); }

 private:
  const std::shared_ptr<local::Heap> heap_;
  const std::shared_ptr<runtime::TensorMemory> own_ = runtime::MakePlainMemory();
};

}  // namespace byteps::machine
