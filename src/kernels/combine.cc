#include "src/kernels/kernels.h"

#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/combine.cc"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "src/base/check.h"
#include "src/kernels/formats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace byteps::kernels {
namespace HWY_NAMESPACE {
namespace {

constexpr size_t kCacheLine = 64;

// ---- Operations on two vectors of lanes.

struct Sum {
  template <class D, class V>
  static HWY_INLINE V Apply(D, V a, V b) {
    return hn::Add(a, b);
  }
};

struct Or {
  template <class D, class V>
  static HWY_INLINE V Apply(D, V a, V b) {
    return hn::Or(a, b);
  }
};

struct And {
  template <class D, class V>
  static HWY_INLINE V Apply(D, V a, V b) {
    return hn::And(a, b);
  }
};

struct Product {
  template <class D, class V>
  static HWY_INLINE V Apply(D d, V a, V b) {
    if constexpr (sizeof(hn::TFromD<D>) == 1) {
      return MultiplyBytes(d, a, b);
    } else {
      return hn::Mul(a, b);
    }
  }

 private:
  // No SIMD unit multiplies bytes, so even and odd bytes go through 16 bits.
  template <class D, class V>
  static HWY_INLINE V MultiplyBytes(D d, V a, V b) {
#if HWY_TARGET == HWY_SCALAR
    return hn::Set(d, static_cast<uint8_t>(hn::GetLane(a) * hn::GetLane(b)));
#else
    const hn::Repartition<uint16_t, D> wide;
    const auto a16 = hn::BitCast(wide, a);
    const auto b16 = hn::BitCast(wide, b);
    const auto even = hn::And(hn::Mul(a16, b16), hn::Set(wide, 0xff));
    const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16)));
    return hn::BitCast(d, hn::Or(even, odd));
#endif
  }
};

struct Minimum {
  template <class D, class V>
  static HWY_INLINE V Apply(D, V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      // Equal values may be zeros of both signs, and a NaN makes each selection pick its second
      // operand: joining the bits of both selections keeps a minus sign, and keeps a NaN.
      return hn::Or(hn::IfThenElse(hn::Lt(a, b), a, b), hn::IfThenElse(hn::Lt(b, a), b, a));
    } else {
      return hn::Min(a, b);
    }
  }
};

struct Maximum {
  template <class D, class V>
  static HWY_INLINE V Apply(D d, V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::Neg(Minimum::Apply(d, hn::Neg(a), hn::Neg(b)));
    } else {
      return hn::Max(a, b);
    }
  }
};

// A sum that is divided before it is stored: the halves are rounded once.
struct Mean : Sum {};

// ---- The loop.

// Combines one group, or the `bytes` that are left of it, at `offset` of every input. No byte is
// written before all inputs are read, so `out` may be one of them.
template <class Format, class Op, bool kWhole>
HWY_INLINE void CombineGroup(const std::byte* const* inputs, size_t input_count, size_t offset,
                             size_t bytes, std::byte* out, typename Format::Vector divisor,
                             typename Format::Vector& witness) {
  const typename Format::Tag d;
  Padded padded;
  const auto source = [&](size_t input) HWY_ATTR {
    const std::byte* from = inputs[input] + offset;
    if constexpr (kWhole && Format::kPrefetchBytes != 0) {
      for (size_t line = 0; line < bytes; line += kCacheLine) {
        hwy::Prefetch(from + Format::kPrefetchBytes + line);
      }
    }
    return kWhole ? from : padded.Fill(from, bytes);
  };
  typename Format::Vector v0, v1, v2, v3;
  Format::Load(source(0), v0, v1, v2, v3);
  for (size_t input = 1; input < input_count; ++input) {
    typename Format::Vector w0, w1, w2, w3;
    Format::Load(source(input), w0, w1, w2, w3);
    v0 = Op::Apply(d, v0, w0);
    v1 = Op::Apply(d, v1, w1);
    v2 = Op::Apply(d, v2, w2);
    v3 = Op::Apply(d, v3, w3);
  }
  if constexpr (std::is_same_v<Op, Mean>) {
    v0 = hn::Div(v0, divisor);
    v1 = hn::Div(v1, divisor);
    v2 = hn::Div(v2, divisor);
    v3 = hn::Div(v3, divisor);
  }
  if constexpr (Format::kIsFloat) Witness(v0, v1, v2, v3, witness);
  if constexpr (kWhole) {
    Format::Store(v0, v1, v2, v3, out + offset);
  } else {
    Format::Store(v0, v1, v2, v3, padded.bytes());
    std::memcpy(out + offset, padded.bytes(), bytes);
  }
}

template <class Format, class Op>
void CombineAll(const std::byte* const* inputs, size_t input_count, std::byte* out, size_t bytes,
                uint32_t divisor) {
  const typename Format::Tag d;
  const auto divisors = hn::Set(d, static_cast<hn::TFromD<typename Format::Tag>>(divisor));
  const size_t group = Format::GroupBytes();
  size_t offset = 0;
  while (offset < bytes) {
    const size_t begin = offset;
    const size_t end = bytes - begin < kChunkBytes ? bytes : begin + kChunkBytes;
    typename Format::Vector witness = hn::Zero(d);
    for (; end - offset >= group; offset += group) {
      CombineGroup<Format, Op, true>(inputs, input_count, offset, group, out, divisors, witness);
    }
    if (offset < end) {
      CombineGroup<Format, Op, false>(inputs, input_count, offset, end - offset, out, divisors,
                                      witness);
      offset = end;
    }
    if constexpr (Format::kIsFloat) {
      if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(witness)))) {
        CanonicalizeNans<Format>(out + begin, end - begin);
      }
    }
  }
}

// ---- From run-time values to one of the loops.

using Loop = void (*)(const std::byte* const*, size_t, std::byte*, size_t, uint32_t);

template <class Format>
Loop FloatLoop(byteps::Combine how) {
  switch (how) {
    case byteps::Combine::kSum: return CombineAll<Format, Sum>;
    case byteps::Combine::kMin: return CombineAll<Format, Minimum>;
    case byteps::Combine::kMax: return CombineAll<Format, Maximum>;
    case byteps::Combine::kProduct: return CombineAll<Format, Product>;
    case byteps::Combine::kAverage: return CombineAll<Format, Mean>;
    case byteps::Combine::kOverlay:
    case byteps::Combine::kLast: break;
  }
  return nullptr;
}

// Sums and products wrap, so signed numbers share the loops of unsigned ones.
template <class T>
Loop IntegerLoop(byteps::Combine how) {
  using Unsigned = hwy::MakeUnsigned<T>;
  switch (how) {
    case byteps::Combine::kSum: return CombineAll<Plain<Unsigned>, Sum>;
    case byteps::Combine::kMin: return CombineAll<Plain<T>, Minimum>;
    case byteps::Combine::kMax: return CombineAll<Plain<T>, Maximum>;
    case byteps::Combine::kProduct: return CombineAll<Plain<Unsigned>, Product>;
    case byteps::Combine::kOverlay:
    case byteps::Combine::kAverage:
    case byteps::Combine::kLast: break;
  }
  return nullptr;
}

Loop BoolLoop(byteps::Combine how) {
  switch (how) {
    case byteps::Combine::kSum:
    case byteps::Combine::kMax: return CombineAll<Bool, Or>;
    case byteps::Combine::kMin:
    case byteps::Combine::kProduct: return CombineAll<Bool, And>;
    case byteps::Combine::kOverlay:
    case byteps::Combine::kAverage:
    case byteps::Combine::kLast: break;
  }
  return nullptr;
}

Loop LoopFor(byteps::Combine how, DataType type) {
  switch (type) {
    case DataType::kFloat32: return FloatLoop<Plain<float>>(how);
    case DataType::kFloat64: return FloatLoop<Plain<double>>(how);
    case DataType::kFloat16: return FloatLoop<Float16>(how);
    case DataType::kBfloat16: return FloatLoop<Bfloat16>(how);
    case DataType::kInt8: return IntegerLoop<int8_t>(how);
    case DataType::kInt16: return IntegerLoop<int16_t>(how);
    case DataType::kInt32: return IntegerLoop<int32_t>(how);
    case DataType::kInt64: return IntegerLoop<int64_t>(how);
    case DataType::kUint8: return IntegerLoop<uint8_t>(how);
    case DataType::kBool: return BoolLoop(how);
  }
  return nullptr;
}

}  // namespace

void CombineOnTarget(byteps::Combine how, DataType type, std::byte* out,
                     const std::byte* const* inputs, size_t input_count, size_t bytes,
                     uint32_t divisor) {
  const Loop loop = LoopFor(how, type);
  BYTEPS_CHECK(loop != nullptr && "no arithmetic for this combination");
  if (loop != nullptr) loop(inputs, input_count, out, bytes, divisor);
}

const char* NameOnTarget() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace byteps::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace byteps::kernels {
namespace {

// Integers are averaged rarely: a plain loop. `Wide` holds every sum.
template <class T, class Wide>
void AverageIntegers(std::byte* out, std::span<const std::byte* const> inputs, size_t count,
                     Wide divisor) {
  for (size_t i = 0; i < count; ++i) {
    Wide sum = 0;
    for (const std::byte* input : inputs) {
      T value;
      std::memcpy(&value, input + i * sizeof(T), sizeof(T));
      sum += value;
    }
    const auto average = static_cast<T>(sum / divisor - (sum % divisor < 0 ? 1 : 0));
    std::memcpy(out + i * sizeof(T), &average, sizeof(T));
  }
}

__extension__ using Wide128 = __int128;

}  // namespace

HWY_EXPORT(CombineOnTarget);
HWY_EXPORT(NameOnTarget);

void Combine(byteps::Combine how, DataType type, std::byte* out,
             std::span<const std::byte* const> inputs, size_t count) {
  BYTEPS_CHECK(!inputs.empty());
  HWY_DYNAMIC_DISPATCH(CombineOnTarget)
  (how, type, out, inputs.data(), inputs.size(), count * SizeOf(type), 1);
}

void Average(DataType type, std::byte* out, std::span<const std::byte* const> inputs, size_t count,
             uint32_t divisor) {
  BYTEPS_CHECK(!inputs.empty() && divisor >= inputs.size());
  switch (type) {
    case DataType::kInt8: return AverageIntegers<int8_t, int64_t>(out, inputs, count, divisor);
    case DataType::kInt16: return AverageIntegers<int16_t, int64_t>(out, inputs, count, divisor);
    case DataType::kInt32: return AverageIntegers<int32_t, int64_t>(out, inputs, count, divisor);
    case DataType::kInt64: return AverageIntegers<int64_t, Wide128>(out, inputs, count, divisor);
    case DataType::kUint8: return AverageIntegers<uint8_t, int64_t>(out, inputs, count, divisor);
    case DataType::kBool: return Combine(byteps::Combine::kSum, type, out, inputs, count);
    case DataType::kFloat32:
    case DataType::kFloat64:
    case DataType::kFloat16:
    case DataType::kBfloat16: break;
  }
  HWY_DYNAMIC_DISPATCH(CombineOnTarget)
  (byteps::Combine::kAverage, type, out, inputs.data(), inputs.size(), count * SizeOf(type),
   divisor);
}

const char* TargetName() { return HWY_DYNAMIC_DISPATCH(NameOnTarget)(); }

}  // namespace byteps::kernels
#endif
