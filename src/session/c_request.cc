#include "src/session/c_request.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "byteps/device.h"
#include "src/base/text.h"
#include "src/operations/row.h"
#include "src/session/c_error.h"

namespace byteps::session {
namespace {

// The limit is a year, so that a sum with the present time does not overflow.
constexpr int64_t kLimitMsMax = int64_t{1000} * 86400 * 366;

// Reads an enumeration as a number, because a program in C may have put any number into it, which
// C++ must not read as an enumerator.
template <typename Enumeration>
int NumberIn(const Enumeration& field) {
  static_assert(sizeof(Enumeration) == sizeof(int));
  int number;
  std::memcpy(&number, &field, sizeof(number));
  return number;
}

}  // namespace

Status CheckName(std::string_view name) {
  if (name.empty()) return Invalid("an operation needs a name");
  if (name.size() <= wire::kNameBytesMax) return Status::Ok();
  return Invalid("the name '" + std::string(CutText(name, 64)) + "...' has " +
                 std::to_string(name.size()) + " bytes; it may have " +
                 std::to_string(wire::kNameBytesMax));
}

namespace {

std::string OfName(const byteps_request& request) {
  return " of '" + std::string(request.name) + "'";
}

// Refuses kinds of memory that no library has, and the facts of a device for other memory.
Status CheckMemory(const byteps_request& request) {
  const std::string of = OfName(request);
  const int memory = NumberIn(request.memory);
  if (request.reserved != 0) {
    return Invalid("the reserved field of the request" + of + " is " +
                   std::to_string(request.reserved) + "; it must be 0");
  }
  if (memory == BYTEPS_MEMORY_DEVICE) return Status::Ok();
  if (memory != BYTEPS_MEMORY_HOST) {
    return Invalid("the memory" + of + " is " + std::to_string(memory) +
                   ", and byteps_memory has none such");
  }
  if (request.device != 0) {
    return Invalid("the device" + of + " is " + std::to_string(request.device) +
                   ", but its memory is the host's; leave it 0");
  }
  if (request.stream != nullptr) {
    return Invalid("the request" + of +
                   " has a stream, but its memory is the host's; start the operation when its "
                   "input is ready, and leave `stream` null");
  }
  return Status::Ok();
}

// Converts the fields that only some operations need.
Status ConvertRest(const byteps_request& request, protocol::Operation& operation) {
  if (request.process_set < 0) {
    return Invalid("process set " + std::to_string(request.process_set) + " of '" + operation.name +
                   "': numbers are not negative");
  }
  operation.spec.process_set = static_cast<uint32_t>(request.process_set);
  operation.spec.atomic = request.atomic != 0;
  if (request.detail != nullptr) operation.spec.detail = request.detail;
  const operations::Row& row = operations::RowOf(operation.spec.op);
  if (row.has_reduction) {
    int combine = NumberIn(request.combine);
    if (combine < 0 || combine >= wire::kReductionCount) {
      return Invalid(row.name + (" of '" + operation.name) +
                     "' combines by sum, average, min, max or product only");
    }
    operation.spec.combine = static_cast<wire::Op>(combine);
  }
  if (!row.has_splits) return Status::Ok();
  if (request.split_count > 0 && request.splits == nullptr) return Missing("the request's splits");
  for (size_t i = 0; i < request.split_count; ++i) {
    if (request.splits[i] < 0) {
      return Invalid(row.name + (" of '" + operation.name) + "': a split is negative");
    }
    operation.splits.push_back(static_cast<uint64_t>(request.splits[i]));
  }
  return Status::Ok();
}

}  // namespace

Result<protocol::Operation> ReadRequest(const byteps_request& request) {
  if (request.name == nullptr) return Missing("the request's name");
  Status named = CheckName(request.name);
  if (!named.ok()) return named;
  const int op = NumberIn(request.op);
  const int dtype = NumberIn(request.dtype);
  if (op < 0 || op >= wire::kOpCount) {
    return Invalid("the operation" + OfName(request) + " is " + std::to_string(op) +
                   ", and byteps_op has none such");
  }
  if (dtype < 0 || dtype >= kDataTypeCount) {
    return Invalid("the dtype" + OfName(request) + " is " + std::to_string(dtype) +
                   ", and byteps_dtype has none such");
  }
  Status placed = CheckMemory(request);
  if (!placed.ok()) return placed;
  if (request.dimensions > 0 && request.shape == nullptr) return Missing("the request's shape");
  if (request.dimensions > wire::kDimensionsMax) {
    return Invalid("the shape" + OfName(request) + " has " + std::to_string(request.dimensions) +
                   " dimensions; it may have " + std::to_string(wire::kDimensionsMax));
  }
  protocol::Operation operation;
  operation.name = request.name;
  operation.spec.op = static_cast<wire::Op>(op);
  operation.spec.dtype = static_cast<DataType>(dtype);
  operation.input = static_cast<const std::byte*>(request.input);
  operation.output = static_cast<std::byte*>(request.output);
  operation.priority = request.priority;
  if (request.limit_ms < 0) {
    return Invalid("the limit" + OfName(request) + " is " + std::to_string(request.limit_ms) +
                   " ms; it must not be negative");
  }
  operation.limit = milliseconds(std::min<int64_t>(request.limit_ms, kLimitMsMax));
  Status rest = ConvertRest(request, operation);
  if (!rest.ok()) return rest;
  const operations::Row& row = operations::RowOf(operation.spec.op);
  operation.spec.dtype = row.dtype.value_or(operation.spec.dtype);
  if (!row.has_tensor) return operation;
  operation.spec.shape.assign(request.shape, request.shape + request.dimensions);
  if (row.has_root) {
    if (request.root_rank < 0) {
      return Invalid(row.name + (" of '" + operation.name) + "' from rank " +
                     std::to_string(request.root_rank) + ": ranks are not negative");
    }
    operation.spec.root = static_cast<uint32_t>(request.root_rank);
  }
  if (row.sizes_first) {
    if (request.dimensions == 0) {
      return Invalid(row.name + (" of '" + operation.name) +
                     "': a scalar has no first dimension; give it the shape [1]");
    }
    if (request.shape[0] < 0) {
      return Invalid("tensor '" + operation.name + "' has a negative dimension");
    }
    operation.rows = static_cast<uint64_t>(request.shape[0]);
    operation.spec.shape.erase(operation.spec.shape.begin());
  }
  return operation;
}

std::optional<DevicePlace> PlaceOf(const byteps_request& request) {
  const operations::Row& row = operations::RowOf(static_cast<wire::Op>(NumberIn(request.op)));
  if (NumberIn(request.memory) != BYTEPS_MEMORY_DEVICE || !row.has_tensor) return std::nullopt;
  DevicePlace place{request.device, request.stream};
  if (request.stream == BYTEPS_NO_STREAM) place.stream.reset();
  return place;
}

Completion::Function CompletionOf(const byteps_request& request) {
  if (request.on_complete == nullptr) return nullptr;
  return [call = request.on_complete, context = request.context](Handle handle, StatusCode code) {
    call(context, handle, static_cast<byteps_code>(code));
  };
}

Status WriteRanks(const std::vector<uint32_t>& from, int32_t* ranks, size_t capacity,
                  size_t* count) {
  if (count == nullptr) return Missing("the place for the number of ranks");
  if (ranks == nullptr && capacity > 0) return Missing("the place for the ranks");
  *count = from.size();
  for (size_t i = 0; i < std::min(capacity, from.size()); ++i) {
    ranks[i] = static_cast<int32_t>(from[i]);
  }
  return Status::Ok();
}

}  // namespace byteps::session
