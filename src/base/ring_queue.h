// A queue in a ring: first in, first out, random access from the front. It grows by doubling and
// never shrinks, so steady state allocates nothing. One owner.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "src/base/check.h"

namespace byteps {

template <typename T>
class RingQueue {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }

  // REQUIRES: index < size().
  T& operator[](size_t index) { return slots_[(first_ + index) & (slots_.size() - 1)]; }
  T& front() { return (*this)[0]; }

  // Makes room for so many, so that a queue that never has more never allocates.
  void reserve(size_t count) {
    while (slots_.size() < count) Grow();
  }

  void push_back(T value) {
    if (count_ == slots_.size()) Grow();
    slots_[(first_ + count_) & (slots_.size() - 1)] = std::move(value);
    ++count_;
  }

  // REQUIRES: !empty().
  void pop_front() {
    BYTEPS_CHECK(count_ > 0);
    slots_[first_] = T();
    first_ = (first_ + 1) & (slots_.size() - 1);
    --count_;
  }

 private:
  void Grow() {
    std::vector<T> larger(slots_.empty() ? 16 : slots_.size() * 2);
    for (size_t i = 0; i < count_; ++i) larger[i] = std::move((*this)[i]);
    slots_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> slots_;
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace byteps
