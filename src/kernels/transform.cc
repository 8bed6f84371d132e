#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/transform.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "src/kernels/formats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace byteps::kernels {
namespace HWY_NAMESPACE {
namespace {

struct Multiply {
  template <class D, class V>
  static HWY_INLINE V Apply(D, V a, V b) {
    return hn::Mul(a, b);
  }
};

// One group at `from`, every element with `operand`, to `to`.
template <class Format, class Op>
HWY_INLINE void TransformGroup(const std::byte* from, std::byte* to,
                               typename Format::Vector operand, typename Format::Vector& witness) {
  const typename Format::Tag d;
  typename Format::Vector v0, v1, v2, v3;
  Format::Load(from, v0, v1, v2, v3);
  v0 = Op::Apply(d, v0, operand);
  v1 = Op::Apply(d, v1, operand);
  v2 = Op::Apply(d, v2, operand);
  v3 = Op::Apply(d, v3, operand);
  Witness(v0, v1, v2, v3, witness);
  Format::Store(v0, v1, v2, v3, to);
}

template <class Format, class Op>
void TransformChunk(std::byte* data, size_t bytes, double operand) {
  const typename Format::Tag d;
  const size_t group = Format::GroupBytes();
  const auto operands = hn::Set(d, static_cast<hn::TFromD<typename Format::Tag>>(operand));
  typename Format::Vector witness = hn::Zero(d);
  size_t offset = 0;
  for (; bytes - offset >= group; offset += group) {
    TransformGroup<Format, Op>(data + offset, data + offset, operands, witness);
  }
  if (offset < bytes) {
    Padded padded;
    const std::byte* from = padded.Fill(data + offset, bytes - offset);
    TransformGroup<Format, Op>(from, padded.bytes(), operands, witness);
    std::memcpy(data + offset, padded.bytes(), bytes - offset);
  }
  if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(witness)))) CanonicalizeNans<Format>(data, bytes);
}

template <class Format, class Op>
void TransformAll(std::byte* data, size_t count, double operand) {
  const size_t bytes = count * sizeof(typename Format::Stored);
  for (size_t begin = 0; begin < bytes; begin += kChunkBytes) {
    const size_t left = bytes - begin;
    TransformChunk<Format, Op>(data + begin, left < kChunkBytes ? left : kChunkBytes, operand);
  }
}

template <class Op>
void TransformFloats(DataType type, std::byte* data, size_t count, double operand) {
  switch (type) {
    case DataType::kFloat32: return TransformAll<Plain<float>, Op>(data, count, operand);
    case DataType::kFloat64: return TransformAll<Plain<double>, Op>(data, count, operand);
    case DataType::kFloat16: return TransformAll<Float16, Op>(data, count, operand);
    case DataType::kBfloat16: return TransformAll<Bfloat16, Op>(data, count, operand);
    default: break;
  }
}

}  // namespace

void ScaleFloatsOnTarget(DataType type, std::byte* data, size_t count, double factor) {
  TransformFloats<Multiply>(type, data, count, factor);
}

}  // namespace HWY_NAMESPACE
}  // namespace byteps::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace byteps::kernels {
namespace {

// Integers are scaled rarely: plain loops.

struct SaturatedProduct {
  double factor;
  template <class T>
  T operator()(T value) const {
    const double product = static_cast<double>(value) * factor;
    // One past the largest T is a power of two, hence exact.
    constexpr double kLimit = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;
    if (std::isnan(product)) return 0;
    if (product >= kLimit) return std::numeric_limits<T>::max();
    if (product <= static_cast<double>(std::numeric_limits<T>::min())) {
      return std::numeric_limits<T>::min();
    }
    return static_cast<T>(product);
  }
};

template <class T, class Function>
void ForEach(std::byte* data, size_t count, Function function) {
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    value = function(value);
    std::memcpy(data + i * sizeof(T), &value, sizeof(T));
  }
}

template <class Function>
void ForEachInteger(DataType type, std::byte* data, size_t count, Function function) {
  switch (type) {
    case DataType::kInt8: return ForEach<int8_t>(data, count, function);
    case DataType::kInt16: return ForEach<int16_t>(data, count, function);
    case DataType::kInt32: return ForEach<int32_t>(data, count, function);
    case DataType::kInt64: return ForEach<int64_t>(data, count, function);
    case DataType::kUint8: return ForEach<uint8_t>(data, count, function);
    default: break;
  }
}

bool IsFloat(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kFloat16 ||
         type == DataType::kBfloat16;
}

}  // namespace

HWY_EXPORT(ScaleFloatsOnTarget);

void Scale(DataType type, std::byte* data, size_t count, double factor) {
  assert(type != DataType::kBool);
  if (IsFloat(type)) {
    HWY_DYNAMIC_DISPATCH(ScaleFloatsOnTarget)(type, data, count, factor);
  } else {
    ForEachInteger(type, data, count, SaturatedProduct{factor});
  }
}

}  // namespace byteps::kernels
#endif
