// Arithmetic by the SIMD kernels.
#pragma once

#include "src/protocol/arithmetic.h"

namespace byteps::protocol {

class KernelArithmetic final : public Arithmetic {
 public:
  void Combine(byteps::Combine how, DataType type, std::byte* out,
               std::span<const std::byte* const> inputs, const kernels::SumTree& tree,
               size_t bytes) override;
  void Average(DataType type, std::byte* out, std::span<const std::byte* const> inputs,
               const kernels::SumTree& tree, size_t bytes, uint32_t divisor) override;
  void Copy(std::byte* to, const std::byte* from, size_t bytes) override;
};

}  // namespace byteps::protocol
