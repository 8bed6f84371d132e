// Arithmetic by the SIMD kernels.
#pragma once

#include "src/protocol/arithmetic.h"

namespace byteps::protocol {

class KernelArithmetic final : public Arithmetic {
 public:
  void Combine(byteps::Combine how, DataType type, std::byte* out,
               std::span<const std::byte* const> inputs, size_t bytes) override;
  void DivideByCount(DataType type, ByteSpan data, uint32_t count) override;
  void Copy(std::byte* to, const std::byte* from, size_t bytes) override;
};

}  // namespace byteps::protocol
