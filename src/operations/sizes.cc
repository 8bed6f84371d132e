#include "src/operations/sizes.h"

#include "src/operations/row.h"

namespace byteps::operations {

std::optional<uint64_t> RowsBytes(uint64_t rows, uint64_t row_bytes) {
  if (rows == 0 || row_bytes == 0) return 0;
  if (rows > kTensorBytesMax / row_bytes) return std::nullopt;
  return rows * row_bytes;
}

std::optional<uint64_t> TensorBytes(const wire::TensorSpec& spec) {
  const Row& row = RowOf(spec.op);
  bool empty = false;
  bool too_many = false;
  uint64_t bytes = SizeOf(spec.dtype);
  for (int64_t dimension : spec.shape) {
    if (dimension < 0) return std::nullopt;
    empty = empty || dimension == 0;
    bool overflow = __builtin_mul_overflow(bytes, static_cast<uint64_t>(dimension), &bytes);
    too_many = too_many || overflow || bytes > kTensorBytesMax;
  }
  if (!row.has_tensor) return row.bytes;
  if (empty) return 0;
  if (too_many) return std::nullopt;
  return bytes;
}

std::optional<uint64_t> InputBytes(const wire::TensorSpec& spec, uint64_t rows) {
  const Row& row = RowOf(spec.op);
  if (!row.has_tensor) return 0;
  std::optional<uint64_t> bytes = TensorBytes(spec);
  return bytes.has_value() && row.sizes_first ? RowsBytes(rows, *bytes) : bytes;
}

std::optional<uint64_t> DeclaredBytes(const wire::TensorSpec& spec) {
  std::optional<uint64_t> bytes = TensorBytes(spec);
  return bytes.has_value() && RowOf(spec.op).sizes_first ? 0 : bytes;
}

}  // namespace byteps::operations
