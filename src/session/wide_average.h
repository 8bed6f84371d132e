// An average of integers of less than 64 bits, in a job whose machines sum first: the sum of a
// machine may need more bits than the integers have, and the owner divides later. So the operation
// exchanges int64, and its result is narrowed, which is exact: an average lies among the inputs.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "src/protocol/worker/exchange/operation.h"

namespace byteps::session {

class WideAverage {
 public:
  static bool IsNeededFor(const wire::TensorSpec& spec);

  // Makes the operation one of int64 with memory of this object, which outlives it. The spec's
  // detail tells the integers' own type, so ranks whose types differ still disagree. REQUIRES:
  // the operation needs it and may begin; its output has so many elements.
  WideAverage(protocol::Operation& operation, uint64_t output_elements);
  WideAverage(const WideAverage&) = delete;
  WideAverage& operator=(const WideAverage&) = delete;

  // The operation has ended well: the caller's output gets the result.
  void Narrow() const;

 private:
  const DataType type_;
  std::byte* const output_;
  std::vector<int64_t> input_;
  std::vector<int64_t> result_;
};

}  // namespace byteps::session
