#pragma once

#include "byteps/byteps.h"

namespace byteps::python {

// The numbers of errors that TensorFlow and XLA have in common. Python turns them into TensorFlow's
// exceptions of the same names.
enum class StatusCode : int {
  kOk = 0,
  kUnknown = 2,
  kInvalidArgument = 3,
  kFailedPrecondition = 9
};

// Returns the number of TensorFlow and XLA for this error.
inline StatusCode StatusCodeOf(byteps_code code) {
  switch (code) {
    case BYTEPS_OK: return StatusCode::kOk;
    case BYTEPS_INVALID_ARGUMENT:
    case BYTEPS_DUPLICATE_NAME: return StatusCode::kInvalidArgument;
    case BYTEPS_MISMATCH:
    case BYTEPS_OUT_OF_STEP: return StatusCode::kFailedPrecondition;
    default: return StatusCode::kUnknown;
  }
}

}  // namespace byteps::python
