#include "src/protocol/worker/front/copies.h"

#include <algorithm>

#include "src/base/check.h"

namespace byteps::protocol {

bool Copies::Begin(OperationId operation, const Copy& copy) {
  if (copy.bytes > slice_bytes_) {
    copies_.push_back({operation, copy});
    return false;
  }
  if (copy.bytes > 0) arithmetic_.Copy(copy.to, copy.from, copy.bytes);
  return true;
}

std::optional<OperationId> Copies::CopySlice() {
  BYTEPS_CHECK(!copies_.empty());
  Open& first = copies_.front();
  size_t bytes = std::min(slice_bytes_, first.rest.bytes);
  arithmetic_.Copy(first.rest.to, first.rest.from, bytes);
  first.rest = {first.rest.to + bytes, first.rest.from + bytes, first.rest.bytes - bytes};
  if (first.rest.bytes > 0) return std::nullopt;
  OperationId complete = first.operation;
  copies_.pop_front();
  return complete;
}

void Copies::Drop(OperationId operation) {
  std::erase_if(copies_, [operation](const Open& open) { return open.operation == operation; });
}

}  // namespace byteps::protocol
