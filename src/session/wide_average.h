// Averages integers of less than 64 bits in a job whose machines sum first. The sum of a machine
// may need more bits than the integers have, and the owner divides later. So the operation
// exchanges int64 and then narrows its result. That is exact, because an average lies among the
// inputs.
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

  // Makes the operation use int64 and memory of this object, which must outlive it. The spec's
  // detail names the integers' own type, so ranks with different types still disagree. REQUIRES:
  // the operation needs widening and may begin; its output has `output_elements` elements.
  WideAverage(protocol::Operation& operation, uint64_t output_elements);
  WideAverage(const WideAverage&) = delete;
  WideAverage& operator=(const WideAverage&) = delete;

  // Writes the result to the caller's output. REQUIRES: the operation has ended well.
  void Narrow() const;

 private:
  const DataType type_;
  std::byte* const output_;
  std::vector<int64_t> input_;
  std::vector<int64_t> result_;
};

}  // namespace byteps::session
