// A window in the memory of one process, for tests.
#pragma once

#include <memory>
#include <vector>

#include "src/local/heaps_for_test.h"
#include "src/local/window.h"

namespace byteps::machine {

class WindowForTest {
 public:
  explicit WindowForTest(const local::WindowShape& shape)
      : lines_(local::Window::BytesFor(shape) / sizeof(Line) + 1), heaps_(shape.ranks) {
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
      ByteSpan bytes = std::as_writable_bytes(std::span(lines_));
      ranks_.push_back(std::make_unique<local::Window>(bytes, shape, rank, &heaps_.of(rank)));
    }
  }
  // Returns the window as the rank sees it.
  local::Window& of(uint32_t rank) { return *ranks_[rank]; }
  local::Heap& heap(uint32_t rank) { return heaps_.own(rank); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> lines_;
  local::HeapsForTest heaps_;
  std::vector<std::unique_ptr<local::Window>> ranks_;
};

}  // namespace byteps::machine
