#pragma once

#include "python/bindings/xla_ffi.h"

namespace byteps::python {

// XLA calls it. It never blocks: Python's `byteps.common.programs.xla.begin` starts the operation.
xla::Error* HandleXlaCall(xla::CallFrame* frame) noexcept;

}  // namespace byteps::python
