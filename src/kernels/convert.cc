#include <cassert>
#include <cstring>

#include "src/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/convert.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "src/kernels/float_mode.h"
#include "src/kernels/formats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace byteps::kernels {
namespace HWY_NAMESPACE {
namespace {

// Every conversion goes through float32 in a buffer that stays in the first-level cache.
constexpr size_t kChunk = 512;
// Lanes that fill whole vectors of float32 and of float64.
constexpr size_t kStep = HWY_MAX_BYTES / sizeof(float);
static_assert(kChunk % kStep == 0, "a chunk is whole vectors");

using DoubleTag = hn::ScalableTag<double>;
using DoubleVector = hn::Vec<DoubleTag>;
using DoubleBitsTag = hn::RebindToUnsigned<DoubleTag>;
using NarrowFloatTag = hn::Rebind<float, DoubleTag>;

// Cuts a float64 to 14 significant bits, and sets the last one if anything was cut off. The float32
// in between then rounds nothing that a half could show, and the last bit still decides a tie. So
// the way through float32 rounds once.
HWY_INLINE DoubleVector CutForHalves(DoubleVector value) {
  const DoubleBitsTag du;
  const auto bits = hn::BitCast(du, value);
  const auto cut = hn::Set(du, (uint64_t{1} << 39) - 1);
  const auto carry = hn::Add(hn::And(bits, cut), cut);
  return hn::BitCast(DoubleTag(), hn::AndNot(cut, hn::Or(bits, carry)));
}

HWY_INLINE void StoreAsFloat(DoubleVector value, float* to) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  // Highway's own conversion for these clamps to the largest float32 instead of infinity.
  double lanes[hn::MaxLanes(DoubleTag())];
  hn::StoreU(value, DoubleTag(), lanes);
  for (size_t i = 0; i < hn::Lanes(DoubleTag()); ++i) to[i] = static_cast<float>(lanes[i]);
#else
  hn::StoreU(hn::DemoteTo(NarrowFloatTag(), value), NarrowFloatTag(), to);
#endif
}

// Converts all `count` elements; `count` is a multiple of the lanes. NaNs stay NaNs.
void ToFloat(DataType from, bool for_halves, const std::byte* in, size_t count, float* out) {
  const FloatTag df;
  const DoubleTag dd;
  switch (from) {
    case DataType::kFloat16:
      for (size_t i = 0; i < count; i += hn::Lanes(df)) {
        hn::StoreU(LoadFloat16(in + i * sizeof(uint16_t)), df, out + i);
      }
      break;
    case DataType::kBfloat16:
      for (size_t i = 0; i < count; i += hn::Lanes(df)) {
        hn::StoreU(LoadBfloat16(in + i * sizeof(uint16_t)), df, out + i);
      }
      break;
    case DataType::kFloat64:
      for (size_t i = 0; i < count; i += hn::Lanes(dd)) {
        DoubleVector value = hn::LoadU(dd, Lanes<double>(in) + i);
        if (for_halves) value = CutForHalves(value);
        StoreAsFloat(value, out + i);
      }
      break;
    default: std::memcpy(out, in, count * sizeof(float));
  }
}

void FromFloat(DataType to, const float* in, size_t count, std::byte* out) {
  const FloatTag df;
  const DoubleTag dd;
  const FloatVector nan = hn::BitCast(df, hn::Set(BitsTag(), Plain<float>::kNan));
  const DoubleVector double_nan = hn::BitCast(dd, hn::Set(DoubleBitsTag(), Plain<double>::kNan));
  const auto load = [&](size_t i) HWY_ATTR {
    const FloatVector value = hn::LoadU(df, in + i);
    return hn::IfThenElse(hn::IsNaN(value), nan, value);
  };
  switch (to) {
    case DataType::kFloat16:
      for (size_t i = 0; i < count; i += hn::Lanes(df)) {
        StoreFloat16(load(i), out + i * sizeof(uint16_t));
      }
      break;
    case DataType::kBfloat16:
      for (size_t i = 0; i < count; i += hn::Lanes(df)) {
        StoreBfloat16(load(i), out + i * sizeof(uint16_t));
      }
      break;
    case DataType::kFloat64:
      for (size_t i = 0; i < count; i += hn::Lanes(dd)) {
        const DoubleVector value = hn::PromoteTo(dd, hn::LoadU(NarrowFloatTag(), in + i));
        hn::StoreU(hn::IfThenElse(hn::IsNaN(value), double_nan, value), dd, Lanes<double>(out) + i);
      }
      break;
    default:
      for (size_t i = 0; i < count; i += hn::Lanes(df)) {
        hn::StoreU(load(i), df, Lanes<float>(out) + i);
      }
  }
}

// Converts at most kChunk elements.
void ConvertChunk(DataType from, DataType to, const std::byte* in, std::byte* out, size_t count) {
  HWY_ALIGN std::byte padded[kChunk * sizeof(double)];
  HWY_ALIGN float middle[kChunk];
  const bool for_halves = to == DataType::kFloat16 || to == DataType::kBfloat16;
  if (count == kChunk) {
    ToFloat(from, for_halves, in, kChunk, middle);
    FromFloat(to, middle, kChunk, out);
    return;
  }
  const size_t whole_vectors = (count + kStep - 1) / kStep * kStep;
  std::memset(padded, 0, whole_vectors * SizeOf(from));
  std::memcpy(padded, in, count * SizeOf(from));
  ToFloat(from, for_halves, padded, whole_vectors, middle);
  FromFloat(to, middle, whole_vectors, padded);
  std::memcpy(out, padded, count * SizeOf(to));
}

}  // namespace

void ConvertOnTarget(DataType from, DataType to, const std::byte* in, std::byte* out,
                     size_t count) {
  for (size_t begin = 0; begin < count; begin += kChunk) {
    const size_t left = count - begin;
    ConvertChunk(from, to, in + begin * SizeOf(from), out + begin * SizeOf(to),
                 left < kChunk ? left : kChunk);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace byteps::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace byteps::kernels {

HWY_EXPORT(ConvertOnTarget);

void Convert(DataType from, DataType to, const std::byte* in, std::byte* out, size_t count) {
  if (from == to) {
    std::memcpy(out, in, count * SizeOf(from));
    return;
  }
  const FloatMode mode;
  HWY_DYNAMIC_DISPATCH(ConvertOnTarget)(from, to, in, out, count);
}

}  // namespace byteps::kernels
#endif
