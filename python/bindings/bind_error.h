#pragma once

#include "byteps/byteps.h"

namespace byteps::python {

// Raises the Python exception for `code`. The caller holds the interpreter lock.
[[noreturn]] void RaiseError(byteps_code code, const byteps_error& error);

inline void RaiseIfFailed(byteps_code code, const byteps_error& error) {
  if (code != BYTEPS_OK) RaiseError(code, error);
}

}  // namespace byteps::python
