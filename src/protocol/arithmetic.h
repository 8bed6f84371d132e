// The arithmetic of the state machines on bytes. The product uses kernels; simulations that move no
// real bytes use an empty implementation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/types.h"
#include "src/kernels/sum_tree.h"

namespace byteps::protocol {

// Stateless; may be called from any thread. Does not block.
class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  // out = inputs[0] op inputs[1] op ... in the order of the tree, which has as many inputs; `out`
  // may be one of the inputs.
  virtual void Combine(byteps::Combine how, DataType type, std::byte* out,
                       std::span<const std::byte* const> inputs, const kernels::SumTree& tree,
                       size_t bytes) = 0;
  // out = (inputs[0] + inputs[1] + ...) / divisor, in the same order; `out` may be one of the
  // inputs.
  virtual void Average(DataType type, std::byte* out, std::span<const std::byte* const> inputs,
                       const kernels::SumTree& tree, size_t bytes, uint32_t divisor) = 0;
  virtual void Copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
};

}  // namespace byteps::protocol
