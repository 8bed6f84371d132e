// The floating-point mode of the kernels: round to nearest, and keep the smallest floats.
//
// The caller's thread may have another one: TensorFlow and XLA let their threads take the smallest
// floats for zero, and torch.set_flush_denormal does it for a program. A sum must not depend on the
// thread that makes it.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <cstdint>

namespace byteps::kernels {

// Sets the mode for its lifetime, on its thread. Costs a few nanoseconds.
class FloatMode {
 public:
  FloatMode() : callers_(Get()) {
    if ((callers_ & kControl) != kNeeded) Set(kNeeded);
  }
  ~FloatMode() {
    if ((callers_ & kControl) != kNeeded) Set(callers_);
  }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  // The clobber of memory keeps the kernels' loads and stores, and the arithmetic between them,
  // inside.
#if defined(__SSE2__)
  using Word = uint32_t;
  static constexpr Word kControl = 0xffc0;  // all but the sticky flags
  static constexpr Word kNeeded = 0x1f80;   // no traps, and no bit of a mode
  static Word Get() { return _mm_getcsr(); }
  static void Set(Word word) {
    asm volatile("" ::: "memory");
    _mm_setcsr(word);
    asm volatile("" ::: "memory");
  }
#elif defined(__aarch64__)
  using Word = uint64_t;
  static constexpr Word kControl = ~Word{0};
  static constexpr Word kNeeded = 0;
  static Word Get() {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void Set(Word word) { asm volatile("msr fpcr, %0" ::"r"(word) : "memory"); }
#else
#error "no floating-point mode for this processor: add it"
#endif

  const Word callers_;
};

}  // namespace byteps::kernels
