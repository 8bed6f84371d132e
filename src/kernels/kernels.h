// The arithmetic on tensors: combining contributions into a verdict, averages, scaling, conversion.
//
// Everything here is a pure function of its arguments: no state, no I/O, no allocation, no locks;
// any thread may call. Each call picks the widest SIMD unit of the machine once; the result has the
// same bits on every unit.
//
// Bytes: pointers need no alignment. Counts are elements. Little-endian, IEEE 754.
// NaN: a NaN result is always the canonical quiet NaN (sign 0, only the top mantissa bit set),
// whatever NaN went in.
// Rounding is to nearest, and denormals are kept, whatever the mode of the caller's thread is
// (float_mode.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/types.h"
#include "src/kernels/sum_tree.h"

namespace byteps::kernels {

// out[i] = inputs[0][i] op inputs[1][i] op ..., in one pass, in the order of the tree: the bits
// depend on the values and their places only. With one input the result is that input (NaN and bool
// normalised).
//
//   float32, float64   sum and product: IEEE 754, one rounding per node
//   float16, bfloat16  nodes in float32, rounded once at the end, to nearest even; or nodes of
//                      their own type, each rounded so (Nodes)
//   floats             min and max: a NaN in any input gives NaN; -0.0 is less than +0.0
//   integers           sum and product wrap modulo 2^bits
//   bool               any nonzero byte is true; sum and max are "or", product and min are "and";
//                      results are 0 or 1
//
// `out` may be the same memory as any of the inputs, exactly; otherwise it overlaps none of them.
// REQUIRES: inputs is not empty; `tree` has as many; each input and `out` has `count` elements;
// `how` is not kOverlay, kAverage or kLast.
void Combine(byteps::Combine how, DataType type, std::byte* out,
             std::span<const std::byte* const> inputs, const SumTree& tree, size_t count);

// out[i] = (inputs[0][i] + inputs[1][i] + ...) / divisor, in one pass: floats as the sum of
// Combine, then true division (of float16 and bfloat16 in float32, rounded at the end; outside
// float64 the divisor is exact up to 2^24). Integers are the exact quotient, rounded toward minus
// infinity: the sum does not wrap on the way. bool is "or". Memory as for Combine.
// REQUIRES: inputs is not empty; `tree` has as many; divisor is at least their number.
void Average(DataType type, std::byte* out, std::span<const std::byte* const> inputs,
             const SumTree& tree, size_t count, uint32_t divisor);

// data[i] *= factor. float64 multiplies in float64; the other floats in float32, with the factor
// rounded to float32, rounded once. Integers multiply in float64, truncate toward zero and
// saturate; NaN becomes 0.
// REQUIRES: type is not bool.
void Scale(DataType type, std::byte* data, size_t count, double factor);

// out[i] = in[i] as `to`, rounded once, to nearest even; too large becomes infinity. Equal types
// copy the bytes as they are.
// REQUIRES: both types are floats; in and out do not overlap.
void Convert(DataType from, DataType to, const std::byte* in, std::byte* out, size_t count);

// The SIMD unit in use, as Highway calls it: "AVX2", "AVX3", "NEON", ...
const char* TargetName();

}  // namespace byteps::kernels
