#pragma once

#include <nanobind/nanobind.h>

namespace byteps::python {

// Adds the class KernelPart, which operations of TensorFlow make, to the module.
void BindTensorflow(nanobind::module_& module);

}  // namespace byteps::python

// Registers the operations and their kernels with TensorFlow. Returns the error, or null. The
// library byteps/_tensorflow.so calls it while TensorFlow loads that library, because TensorFlow
// only gives Python the operations that a library registers while it is being loaded.
extern "C" __attribute__((visibility("default"))) const char* byteps_register_tensorflow();
