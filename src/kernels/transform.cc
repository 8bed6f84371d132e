#include <cmath>
#include <cstring>
#include <limits>

#include "src/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/transform.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "src/base/check.h"
#include "src/kernels/float_mode.h"
#include "src/kernels/formats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace byteps::kernels {
namespace HWY_NAMESPACE {
namespace {

// Multiplies every element of the group at `from` by `factor`, and writes it to `to`.
template <class Format>
HWY_INLINE void ScaleGroup(const std::byte* from, std::byte* to, typename Format::Vector factor,
                           typename Format::Vector& witness) {
  typename Format::Vector v0, v1, v2, v3;
  Format::Load(from, v0, v1, v2, v3);
  v0 = hn::Mul(v0, factor);
  v1 = hn::Mul(v1, factor);
  v2 = hn::Mul(v2, factor);
  v3 = hn::Mul(v3, factor);
  Witness(v0, v1, v2, v3, witness);
  Format::Store(v0, v1, v2, v3, to);
}

template <class Format>
void ScaleChunk(std::byte* data, size_t bytes, double factor) {
  const typename Format::Tag d;
  const size_t group = Format::GroupBytes();
  const auto factors = hn::Set(d, static_cast<hn::TFromD<typename Format::Tag>>(factor));
  typename Format::Vector witness = hn::Zero(d);
  size_t offset = 0;
  for (; bytes - offset >= group; offset += group) {
    ScaleGroup<Format>(data + offset, data + offset, factors, witness);
  }
  if (offset < bytes) {
    Padded padded;
    const std::byte* from = padded.Fill(data + offset, bytes - offset);
    ScaleGroup<Format>(from, padded.bytes(), factors, witness);
    std::memcpy(data + offset, padded.bytes(), bytes - offset);
  }
  if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(witness)))) CanonicalizeNans<Format>(data, bytes);
}

template <class Format>
void ScaleAll(std::byte* data, size_t count, double factor) {
  const size_t bytes = count * sizeof(typename Format::Stored);
  for (size_t begin = 0; begin < bytes; begin += kChunkBytes) {
    const size_t left = bytes - begin;
    ScaleChunk<Format>(data + begin, left < kChunkBytes ? left : kChunkBytes, factor);
  }
}

}  // namespace

void ScaleFloatsOnTarget(DataType type, std::byte* data, size_t count, double factor) {
  switch (type) {
    case DataType::kFloat32: return ScaleAll<Plain<float>>(data, count, factor);
    case DataType::kFloat64: return ScaleAll<Plain<double>>(data, count, factor);
    case DataType::kFloat16: return ScaleAll<Float16>(data, count, factor);
    case DataType::kBfloat16: return ScaleAll<Bfloat16>(data, count, factor);
    default: break;
  }
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
  BYTEPS_CHECK(type != DataType::kBool);
  const FloatMode mode;
  if (IsFloat(type)) {
    HWY_DYNAMIC_DISPATCH(ScaleFloatsOnTarget)(type, data, count, factor);
  } else {
    ForEachInteger(type, data, count, SaturatedProduct{factor});
  }
}

}  // namespace byteps::kernels
#endif
