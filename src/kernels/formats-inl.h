// Turns the elements of each DataType into vectors to compute with, and results back into elements.
//
// A format works on groups of four vectors, so that their loads and latencies overlap. The vectors
// hold elements in the type they are computed in (float32 for the halves), in an order of the
// format's choice that Store undoes. Compiled once per SIMD target.
#if defined(BYTEPS_SRC_KERNELS_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BYTEPS_SRC_KERNELS_FORMATS_INL_H_
#undef BYTEPS_SRC_KERNELS_FORMATS_INL_H_
#else
#define BYTEPS_SRC_KERNELS_FORMATS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// Some of Highway's conversions to float16 truncate where the unit has no instruction for it; those
// units use the integer code below.
#undef BYTEPS_NATIVE_FLOAT16
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
#define BYTEPS_NATIVE_FLOAT16 0
#elif HWY_ARCH_X86
#define BYTEPS_NATIVE_FLOAT16 (HWY_TARGET <= HWY_AVX2)
#else
#define BYTEPS_NATIVE_FLOAT16 HWY_ARCH_ARM_A64
#endif

// With mask registers a blend is cheaper than a shift and an "and".
#undef BYTEPS_MASK_REGISTERS
#define BYTEPS_MASK_REGISTERS (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)

HWY_BEFORE_NAMESPACE();
namespace byteps::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;
using IntTag = hn::RebindToSigned<FloatTag>;
using IntVector = hn::Vec<IntTag>;
using BitsTag = hn::RebindToUnsigned<FloatTag>;
using BitsVector = hn::Vec<BitsTag>;
// A tag with as many 16-bit lanes as FloatTag has float32 lanes.
using HalfTag = hn::Rebind<uint16_t, FloatTag>;

// Bytes that four vectors of this target can hold.
inline constexpr size_t kGroupBytesMax = 4 * HWY_MAX_BYTES;

template <class T>
HWY_INLINE const T* Lanes(const std::byte* bytes) {
  return reinterpret_cast<const T*>(bytes);
}
template <class T>
HWY_INLINE T* Lanes(std::byte* bytes) {
  return reinterpret_cast<T*>(bytes);
}

// The bytes of four vectors, which may end early; the rest reads as zeros.
class Padded {
 public:
  HWY_INLINE const std::byte* Fill(const std::byte* from, size_t bytes) {
    std::memset(bytes_, 0, kGroupBytesMax);
    std::memcpy(bytes_, from, bytes);
    return bytes_;
  }
  HWY_INLINE std::byte* bytes() { return bytes_; }

 private:
  HWY_ALIGN std::byte bytes_[kGroupBytesMax];
};

// ---- The halves and float32, one vector of float32, in element order.

#if BYTEPS_NATIVE_FLOAT16

using Float16Tag = hn::Rebind<hwy::float16_t, FloatTag>;

HWY_INLINE FloatVector RoundToFloat16(FloatVector value) {
  return hn::PromoteTo(FloatTag(), hn::DemoteTo(Float16Tag(), value));
}

HWY_INLINE FloatVector LoadFloat16(const std::byte* from) {
  return hn::PromoteTo(FloatTag(), hn::LoadU(Float16Tag(), Lanes<hwy::float16_t>(from)));
}

HWY_INLINE void StoreFloat16(FloatVector value, std::byte* to) {
  hn::StoreU(hn::DemoteTo(Float16Tag(), value), Float16Tag(), Lanes<hwy::float16_t>(to));
}

#else

HWY_INLINE FloatVector FromFloat16(BitsVector half) {
  const FloatTag df;
  const IntTag di;
  const BitsTag du;
  const IntVector size = hn::BitCast(di, hn::And(half, hn::Set(du, 0x7fff)));
  const BitsVector sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(du, 0x8000)));
  // The bias of the exponent grows by 112; infinity and NaN need twice that.
  const IntVector bias = hn::IfThenElse(hn::Gt(size, hn::Set(di, 0x7bff)), hn::Set(di, 224 << 23),
                                        hn::Set(di, 112 << 23));
  const IntVector normal = hn::Add(hn::ShiftLeft<13>(size), bias);
  const FloatVector subnormal = hn::Mul(hn::ConvertTo(df, size), hn::Set(df, 0x1p-24f));
  const IntVector value =
      hn::IfThenElse(hn::Lt(size, hn::Set(di, 0x400)), hn::BitCast(di, subnormal), normal);
  return hn::BitCast(df, hn::Or(hn::BitCast(du, value), sign));
}

HWY_INLINE IntVector ToFloat16(FloatVector value) {
  const FloatTag df;
  const IntTag di;
  const BitsTag du;
  const IntVector size = hn::And(hn::BitCast(di, value), hn::Set(di, 0x7fffffff));
  const IntVector sign =
      hn::BitCast(di, hn::And(hn::ShiftRight<16>(hn::BitCast(du, value)), hn::Set(du, 0x8000)));
  const IntVector odd = hn::And(hn::ShiftRight<13>(size), hn::Set(di, 1));
  const IntVector rounded = hn::Add(size, hn::Add(odd, hn::Set(di, 0xfff)));
  const IntVector normal = hn::ShiftRight<13>(hn::Sub(rounded, hn::Set(di, 112 << 23)));
  // Next to 0.5 the last bit of a float32 weighs as much as the last bit of a subnormal float16.
  const IntVector subnormal = hn::Sub(
      hn::BitCast(di, hn::Add(hn::BitCast(df, size), hn::Set(df, 0.5f))), hn::Set(di, 0x3f000000));
  IntVector half = hn::IfThenElse(hn::Lt(size, hn::Set(di, 0x38800000)), subnormal, normal);
  half = hn::IfThenElse(hn::Gt(size, hn::Set(di, 0x477fffff)), hn::Set(di, 0x7c00), half);
  half = hn::IfThenElse(hn::Gt(size, hn::Set(di, 0x7f800000)), hn::Set(di, 0x7e00), half);
  return hn::Or(half, sign);
}

HWY_INLINE FloatVector RoundToFloat16(FloatVector value) {
  return FromFloat16(hn::BitCast(BitsTag(), ToFloat16(value)));
}

HWY_INLINE FloatVector LoadFloat16(const std::byte* from) {
  return FromFloat16(hn::PromoteTo(BitsTag(), hn::LoadU(HalfTag(), Lanes<uint16_t>(from))));
}

HWY_INLINE void StoreFloat16(FloatVector value, std::byte* to) {
  hn::StoreU(hn::DemoteTo(HalfTag(), ToFloat16(value)), HalfTag(), Lanes<uint16_t>(to));
}

#endif

// Adds the number that makes a plain cut after 16 bits round to nearest even. A NaN stays one if
// its low 16 bits are zero.
HWY_INLINE BitsVector RoundToBfloat16(FloatVector value) {
  const BitsTag du;
  const BitsVector bits = hn::BitCast(du, value);
#if BYTEPS_MASK_REGISTERS
  const auto odd = hn::TestBit(bits, hn::Set(du, 0x10000));
  return hn::Add(bits, hn::IfThenElse(odd, hn::Set(du, 0x8000), hn::Set(du, 0x7fff)));
#else
  const BitsVector odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  return hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
#endif
}

HWY_INLINE FloatVector LoadBfloat16(const std::byte* from) {
  const BitsVector half = hn::PromoteTo(BitsTag(), hn::LoadU(HalfTag(), Lanes<uint16_t>(from)));
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(half));
}

HWY_INLINE void StoreBfloat16(FloatVector value, std::byte* to) {
  const BitsVector half = hn::ShiftRight<16>(RoundToBfloat16(value));
  hn::StoreU(hn::DemoteTo(HalfTag(), hn::BitCast(IntTag(), half)), HalfTag(), Lanes<uint16_t>(to));
}

// ---- Formats.

// The halves compute more per byte, so fewer of their loads are on the way at a time. With a
// prefetch this far ahead, bytes from memory come a fifth faster. No other format gains.
inline constexpr size_t kHalfPrefetchBytes = 1024;

// Elements computed in their own type.
template <class T>
struct Plain {
  using Tag = hn::ScalableTag<T>;
  using Vector = hn::Vec<Tag>;
  using Stored = hwy::MakeUnsigned<T>;
  static constexpr size_t kPrefetchBytes = 0;
  static constexpr bool kIsFloat = hwy::IsFloat<T>();
  static constexpr bool kRoundsNodes = false;
  static constexpr Stored kInfinity =
      kIsFloat ? static_cast<Stored>(sizeof(T) == 4 ? 0x7f800000u : 0x7ff0000000000000u) : 0;
  static constexpr Stored kNan =
      kIsFloat ? static_cast<Stored>(sizeof(T) == 4 ? 0x7fc00000u : 0x7ff8000000000000u) : 0;

  static HWY_INLINE size_t GroupBytes() { return 4 * sizeof(T) * hn::Lanes(Tag()); }

  static HWY_INLINE void Load(const std::byte* from, Vector& v0, Vector& v1, Vector& v2,
                              Vector& v3) {
    const Tag d;
    const T* lanes = Lanes<T>(from);
    v0 = hn::LoadU(d, lanes);
    v1 = hn::LoadU(d, lanes + hn::Lanes(d));
    v2 = hn::LoadU(d, lanes + 2 * hn::Lanes(d));
    v3 = hn::LoadU(d, lanes + 3 * hn::Lanes(d));
  }

  static HWY_INLINE void Store(Vector v0, Vector v1, Vector v2, Vector v3, std::byte* to) {
    const Tag d;
    T* lanes = Lanes<T>(to);
    hn::StoreU(v0, d, lanes);
    hn::StoreU(v1, d, lanes + hn::Lanes(d));
    hn::StoreU(v2, d, lanes + 2 * hn::Lanes(d));
    hn::StoreU(v3, d, lanes + 3 * hn::Lanes(d));
  }
};

// Bytes that are 0 or 1 once loaded.
struct Bool : Plain<uint8_t> {
  static HWY_INLINE void Load(const std::byte* from, Vector& v0, Vector& v1, Vector& v2,
                              Vector& v3) {
    Plain<uint8_t>::Load(from, v0, v1, v2, v3);
    const Vector one = hn::Set(Tag(), 1);
    v0 = hn::Min(v0, one);
    v1 = hn::Min(v1, one);
    v2 = hn::Min(v2, one);
    v3 = hn::Min(v3, one);
  }
};

struct Float16 {
  using Tag = FloatTag;
  using Vector = FloatVector;
  using Stored = uint16_t;
  static constexpr size_t kPrefetchBytes = kHalfPrefetchBytes;
  static constexpr bool kIsFloat = true;
  static constexpr bool kRoundsNodes = false;
  static constexpr Stored kInfinity = 0x7c00;
  static constexpr Stored kNan = 0x7e00;

  static HWY_INLINE size_t GroupBytes() { return 4 * sizeof(uint16_t) * hn::Lanes(Tag()); }

  static HWY_INLINE void Load(const std::byte* from, Vector& v0, Vector& v1, Vector& v2,
                              Vector& v3) {
    const size_t step = GroupBytes() / 4;
    v0 = LoadFloat16(from);
    v1 = LoadFloat16(from + step);
    v2 = LoadFloat16(from + 2 * step);
    v3 = LoadFloat16(from + 3 * step);
  }

  static HWY_INLINE Vector Round(Vector value) { return RoundToFloat16(value); }

  static HWY_INLINE void Store(Vector v0, Vector v1, Vector v2, Vector v3, std::byte* to) {
    const size_t step = GroupBytes() / 4;
    StoreFloat16(v0, to);
    StoreFloat16(v1, to + step);
    StoreFloat16(v2, to + 2 * step);
    StoreFloat16(v3, to + 3 * step);
  }
};

// Even and odd elements in vectors of their own: no lane moves to another place. NaNs keep zeros in
// their low 16 bits through sums, products, quotients, minima and maxima of widened bfloat16.
struct Bfloat16 {
  using Tag = FloatTag;
  using Vector = FloatVector;
  using Stored = uint16_t;
  static constexpr size_t kPrefetchBytes = kHalfPrefetchBytes;
  static constexpr bool kIsFloat = true;
  static constexpr bool kRoundsNodes = false;
  static constexpr Stored kInfinity = 0x7f80;
  static constexpr Stored kNan = 0x7fc0;

  static HWY_INLINE size_t GroupBytes() { return 4 * sizeof(uint16_t) * hn::Lanes(Tag()); }

  static HWY_INLINE void Load(const std::byte* from, Vector& even0, Vector& odd0, Vector& even1,
                              Vector& odd1) {
    const uint32_t* pairs = Lanes<uint32_t>(from);
    Split(hn::LoadU(BitsTag(), pairs), even0, odd0);
    Split(hn::LoadU(BitsTag(), pairs + hn::Lanes(BitsTag())), even1, odd1);
  }

  static HWY_INLINE Vector Round(Vector value) {
    return hn::BitCast(Tag(), hn::And(RoundToBfloat16(value), hn::Set(BitsTag(), 0xffff0000u)));
  }

  static HWY_INLINE void Store(Vector even0, Vector odd0, Vector even1, Vector odd1,
                               std::byte* to) {
    uint32_t* pairs = Lanes<uint32_t>(to);
    hn::StoreU(Join(even0, odd0), BitsTag(), pairs);
    hn::StoreU(Join(even1, odd1), BitsTag(), pairs + hn::Lanes(BitsTag()));
  }

 private:
  static HWY_INLINE void Split(BitsVector pairs, Vector& even, Vector& odd) {
    even = hn::BitCast(Tag(), hn::ShiftLeft<16>(pairs));
    odd = hn::BitCast(Tag(), hn::And(pairs, hn::Set(BitsTag(), 0xffff0000u)));
  }

  static HWY_INLINE BitsVector Join(Vector even, Vector odd) {
    const BitsVector low = hn::ShiftRight<16>(RoundToBfloat16(even));
    const BitsVector high = RoundToBfloat16(odd);
#if HWY_TARGET == HWY_SCALAR
    return hn::Or(hn::And(high, hn::Set(BitsTag(), 0xffff0000u)), low);
#else
    const hn::Repartition<uint16_t, Tag> halves;
    return hn::BitCast(BitsTag(), hn::OddEven(hn::BitCast(halves, high), hn::BitCast(halves, low)));
#endif
  }
};

// A half whose sums and products are rounded to its own type at each node.
template <class Half>
struct OwnNodes : Half {
  static constexpr bool kRoundsNodes = true;
};

// ---- One bit pattern for NaN.

// Output bytes between two looks at the witness: they are still in the first-level cache when the
// rare NaN has to be rewritten.
inline constexpr size_t kChunkBytes = 4096;

// Becomes NaN in some lane if any of the four has a NaN. (It may also do so for infinities of both
// signs: a witness costs one addition per vector, and a false one only time.)
template <class Vector>
HWY_INLINE void Witness(Vector v0, Vector v1, Vector v2, Vector v3, Vector& witness) {
  witness = hn::Add(witness, hn::Add(hn::Add(v0, v1), hn::Add(v2, v3)));
}

// Replaces every NaN by the canonical one.
template <class Format>
HWY_NOINLINE void CanonicalizeNans(std::byte* data, size_t bytes) {
  using Stored = typename Format::Stored;
  constexpr Stored kSignless = static_cast<Stored>(~Stored{0}) >> 1;
  for (size_t at = 0; at < bytes; at += sizeof(Stored)) {
    Stored bits;
    std::memcpy(&bits, data + at, sizeof bits);
    if ((bits & kSignless) > Format::kInfinity) {
      std::memcpy(data + at, &Format::kNan, sizeof bits);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace byteps::kernels
HWY_AFTER_NAMESPACE();

#endif
