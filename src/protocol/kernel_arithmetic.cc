#include "src/protocol/kernel_arithmetic.h"

#include <cstring>

#include "src/kernels/kernels.h"

namespace byteps::protocol {

void KernelArithmetic::Combine(byteps::Combine how, DataType type, std::byte* out,
                               std::span<const std::byte* const> inputs, size_t bytes) {
  kernels::Combine(how, type, out, inputs, bytes / SizeOf(type));
}

void KernelArithmetic::DivideByCount(DataType type, ByteSpan data, uint32_t count) {
  kernels::DivideByCount(type, data.data(), data.size() / SizeOf(type), count);
}

void KernelArithmetic::Copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

}  // namespace byteps::protocol
