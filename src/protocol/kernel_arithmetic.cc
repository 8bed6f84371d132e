#include "src/protocol/kernel_arithmetic.h"

#include <cstring>

#include "src/kernels/kernels.h"

namespace byteps::protocol {

void KernelArithmetic::Combine(byteps::Combine how, DataType type, std::byte* out,
                               std::span<const std::byte* const> inputs,
                               const kernels::SumTree& tree, size_t bytes) {
  kernels::Combine(how, type, out, inputs, tree, bytes / SizeOf(type));
}

void KernelArithmetic::Average(DataType type, std::byte* out,
                               std::span<const std::byte* const> inputs,
                               const kernels::SumTree& tree, size_t bytes, uint32_t divisor) {
  kernels::Average(type, out, inputs, tree, bytes / SizeOf(type), divisor);
}

void KernelArithmetic::Copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

}  // namespace byteps::protocol
