#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "byteps/byteps.h"

namespace byteps::python {

// An operation that Python has described. It has its own copies of the texts, because it may start
// later, on a thread without Python.
struct Submission {
  std::string name;
  int operation = 0;
  int dtype = 0;
  std::vector<int64_t> shape;
  uintptr_t input = 0;
  uintptr_t output = 0;
  int32_t root_rank = 0;
  int32_t priority = 0;
  int combine = 0;
  int32_t process_set = 0;
  std::string detail;
  std::optional<std::vector<int64_t>> splits;
  bool atomic = false;
  int64_t limit_ms = 0;
  std::optional<int32_t> device;  // which has the memory; no value: the host has it
  uintptr_t stream = 0;           // of the device

  // Returns the request for byteps_start; valid as long as this object is unchanged.
  byteps_request Request() const {
    byteps_request request{};
    request.name = name.c_str();
    request.op = static_cast<byteps_op>(operation);
    request.dtype = static_cast<byteps_dtype>(dtype);
    request.shape = shape.empty() ? nullptr : shape.data();
    request.dimensions = shape.size();
    request.input = reinterpret_cast<const void*>(input);
    request.output = reinterpret_cast<void*>(output);
    request.root_rank = root_rank;
    request.priority = priority;
    request.combine = static_cast<byteps_op>(combine);
    request.process_set = process_set;
    request.detail = detail.c_str();
    request.splits = splits.has_value() ? splits->data() : nullptr;
    request.split_count = splits.has_value() ? splits->size() : 0;
    request.atomic = atomic ? 1 : 0;
    request.limit_ms = limit_ms;
    if (device.has_value()) {
      request.memory = BYTEPS_MEMORY_DEVICE;
      request.device = *device;
      request.stream = reinterpret_cast<void*>(stream);
    }
    return request;
  }
};

}  // namespace byteps::python
