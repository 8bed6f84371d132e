#include "src/protocol/control/tensor_bytes.h"

namespace byteps::protocol {

std::optional<uint64_t> RowsBytes(uint64_t rows, uint64_t row_bytes) {
  if (rows == 0 || row_bytes == 0) return 0;
  if (rows > kTensorBytesMax / row_bytes) return std::nullopt;
  return rows * row_bytes;
}

std::optional<uint64_t> TensorBytes(const wire::TensorSpec& spec) {
  bool empty = false;
  for (int64_t dimension : spec.shape) {
    if (dimension < 0) return std::nullopt;
    empty = empty || dimension == 0;
  }
  if (spec.op == wire::Op::kJoin) return sizeof(uint64_t);  // a rank
  if (empty || spec.op == wire::Op::kBarrier) return 0;
  std::optional<uint64_t> bytes = SizeOf(spec.dtype);
  for (int64_t dimension : spec.shape) {
    if (bytes.has_value()) bytes = RowsBytes(static_cast<uint64_t>(dimension), *bytes);
  }
  return bytes;
}

}  // namespace byteps::protocol
