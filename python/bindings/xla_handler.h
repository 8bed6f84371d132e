#pragma once

#include "python/bindings/xla_ffi.h"

namespace byteps::python {

// XLA calls it. It never blocks: Python's `byteps.common.programs.xla.begin` starts the operation.
xla::Error* HandleXlaCall(xla::CallFrame* frame) noexcept;

// XLA calls it for programs on a GPU. Blocks until Python's `byteps.common.programs.xla_device.run`
// has carried all operations of the call out.
xla::Error* HandleXlaDeviceCall(xla::CallFrame* frame) noexcept;

}  // namespace byteps::python
