// The pieces that shards wait for and that this lane has not begun yet. The number kept is bounded;
// shards ask again for the others. One thread at a time.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "src/wire/data.h"

namespace byteps::protocol {

class EarlyWants {
 public:
  static constexpr size_t kMax = 65536;

  void Add(const wire::PieceRef& ref) {
    if (count_ >= kMax) return;
    by_tensor_[ref.tensor].push_back(ref);
    ++count_;
  }
  // Takes out all pieces of this tensor. The caller adds the pieces again that are still early.
  std::vector<wire::PieceRef> Take(TensorId tensor) {
    auto taken = by_tensor_.extract(tensor);
    if (taken.empty()) return {};
    count_ -= taken.mapped().size();
    return std::move(taken.mapped());
  }
  void Clear() {
    by_tensor_.clear();
    count_ = 0;
  }

 private:
  // The pieces by tensor, because each exchange takes its own, and there may be as many exchanges
  // as pieces.
  std::map<TensorId, std::vector<wire::PieceRef>> by_tensor_;
  size_t count_ = 0;
};

}  // namespace byteps::protocol
