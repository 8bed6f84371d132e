// The heaps of some ranks in one process, for tests.
#pragma once

#include <fcntl.h>

#include <memory>
#include <utility>
#include <vector>

#include "src/local/heaps.h"

namespace byteps::local {

class HeapsForTest {
 public:
  explicit HeapsForTest(uint32_t ranks, size_t bytes = size_t{1} << 20) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      own_.push_back(Heap::Create(bytes).value());
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<UniqueFd> others(ranks);
      for (uint32_t other = 0; other < ranks; ++other) {
        if (other != rank) others[other] = UniqueFd(fcntl(own_[other]->fd(), F_DUPFD_CLOEXEC, 0));
      }
      views_.push_back(std::make_unique<Heaps>(rank, own_[rank], std::move(others)));
    }
  }
  Heap& own(uint32_t rank) { return *own_[rank]; }
  // Returns the heaps as the rank sees them.
  Heaps& of(uint32_t rank) { return *views_[rank]; }

 private:
  std::vector<std::shared_ptr<Heap>> own_;
  std::vector<std::unique_ptr<Heaps>> views_;
};

}  // namespace byteps::local
