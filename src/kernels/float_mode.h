// The floating-point mode of the kernels: round to nearest, and keep the smallest floats.
//
// The caller's thread may have another one: TensorFlow and XLA let their threads take the smallest
// floats for zero, and torch.set_flush_denormal does it for a program. A sum must not depend on the
// thread that makes it.
#pragma once

#include <fenv.h>

namespace byteps::kernels {

// Sets the mode for its lifetime, on its thread. A thread that has it already, as nearly all have,
// pays some nanoseconds.
class FloatMode {
 public:
  FloatMode() {
    fegetmode(&callers_);
    is_right_ = IsRight(callers_);
    if (!is_right_) fesetmode(FE_DFL_MODE);
  }
  ~FloatMode() {
    if (!is_right_) fesetmode(&callers_);
  }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  // The word of the mode has another name on each processor.
  template <typename Mode>
  static bool IsRight(const Mode& mode) {
    if constexpr (requires { mode.__mxcsr; }) {
      return (mode.__mxcsr & 0xffc0) == 0x1f80;  // without the flags, which are sticky
    } else {
      return mode == 0;
    }
  }

  femode_t callers_;
  bool is_right_;
};

}  // namespace byteps::kernels
