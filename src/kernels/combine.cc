#include "src/kernels/kernels.h"

#include <bit>
#include <cstring>
#include <span>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/combine.cc"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "src/base/check.h"
#include "src/kernels/float_mode.h"
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

template <class Format, class Op>
inline constexpr bool kOrderMatters =
    Format::kIsFloat && (std::is_base_of_v<Sum, Op> || std::is_same_v<Op, Product>);

// A node: v = v op w, for the four vectors of a group.
template <class Format, class Op, class V>
HWY_INLINE void Apply(V& v0, V& v1, V& v2, V& v3, V w0, V w1, V w2, V w3) {
  const typename Format::Tag d;
  v0 = Op::Apply(d, v0, w0);
  v1 = Op::Apply(d, v1, w1);
  v2 = Op::Apply(d, v2, w2);
  v3 = Op::Apply(d, v3, w3);
  if constexpr (Format::kRoundsNodes) {
    v0 = Format::Round(v0);
    v1 = Format::Round(v1);
    v2 = Format::Round(v2);
    v3 = Format::Round(v3);
  }
}

// ---- One group of every input.

// A whole group at an offset of every input.
template <class FormatOfInputs>
class WholeGroup {
 public:
  using Format = FormatOfInputs;
  using V = typename Format::Vector;
  HWY_INLINE WholeGroup(const std::byte* const* inputs, size_t offset)
      : inputs_(inputs), offset_(offset) {}

  HWY_INLINE void Load(size_t input, V& v0, V& v1, V& v2, V& v3) const {
    const std::byte* from = inputs_[input] + offset_;
    if constexpr (Format::kPrefetchBytes != 0) {
      for (size_t line = 0; line < Format::GroupBytes(); line += kCacheLine) {
        hwy::Prefetch(from + Format::kPrefetchBytes + line);
      }
    }
    Format::Load(from, v0, v1, v2, v3);
  }

 private:
  const std::byte* const* const inputs_;
  const size_t offset_;
};

// The `bytes` that are left of a group.
template <class FormatOfInputs>
class RestOfGroup {
 public:
  using Format = FormatOfInputs;
  using V = typename Format::Vector;
  HWY_INLINE RestOfGroup(const std::byte* const* inputs, size_t offset, size_t bytes)
      : inputs_(inputs), offset_(offset), bytes_(bytes) {}

  HWY_NOINLINE void Load(size_t input, V& v0, V& v1, V& v2, V& v3) {
    Format::Load(padded_.Fill(inputs_[input] + offset_, bytes_), v0, v1, v2, v3);
  }

 private:
  const std::byte* const* const inputs_;
  const size_t offset_;
  const size_t bytes_;
  Padded padded_;
};

// ---- The ways to take the inputs of a group.

// Takes `kLeaves` inputs, from `first` on, as the tree of a row of places.
template <size_t kLeaves, class Op, class Group, class V>
HWY_INLINE void TakeRow(Group& group, size_t first, V& v0, V& v1, V& v2, V& v3) {
  if constexpr (kLeaves == 1) {
    group.Load(first, v0, v1, v2, v3);
  } else {
    constexpr size_t kLeft = std::bit_floor(kLeaves - 1);
    V w0, w1, w2, w3;
    TakeRow<kLeft, Op>(group, first, v0, v1, v2, v3);
    TakeRow<kLeaves - kLeft, Op>(group, first + kLeft, w0, w1, w2, w3);
    Apply<typename Group::Format, Op>(v0, v1, v2, v3, w0, w1, w2, w3);
  }
}

// Takes a row of so many inputs.
template <size_t kLeaves>
class Row {
 public:
  explicit HWY_INLINE Row(const SumTree&) {}

  template <class Op, class Group, class V>
  HWY_INLINE void Take(Group& group, V& v0, V& v1, V& v2, V& v3) {
    TakeRow<kLeaves, Op>(group, 0, v0, v1, v2, v3);
  }
};

// Takes the inputs of any tree. Results that wait for their right sides lie in memory.
class BySteps {
 public:
  explicit HWY_INLINE BySteps(const SumTree& tree) : steps_(tree.steps()) {}

  template <class Op, class Group, class V>
  HWY_INLINE void Take(Group& group, V& v0, V& v1, V& v2, V& v3) {
    using Computed = Plain<hn::TFromD<typename Group::Format::Tag>>;
    std::byte* top = waiting_;
    const SumTree::Step* step = steps_.data();
    const SumTree::Step* const end = step + steps_.size();
    for (size_t first = 0;;) {
      switch (step->leaves) {
        case 8: TakeRow<8, Op>(group, first, v0, v1, v2, v3); break;
        case 4: TakeRow<4, Op>(group, first, v0, v1, v2, v3); break;
        case 2: TakeRow<2, Op>(group, first, v0, v1, v2, v3); break;
        default: TakeRow<1, Op>(group, first, v0, v1, v2, v3); break;
      }
      first += step->leaves;
      for (size_t merges = step->merges; merges > 0; --merges) {
        top -= kGroupBytesMax;
        V w0, w1, w2, w3;
        Computed::Load(top, w0, w1, w2, w3);
        Apply<typename Group::Format, Op>(v0, v1, v2, v3, w0, w1, w2, w3);
      }
      if (++step == end) return;
      Computed::Store(v0, v1, v2, v3, top);
      top += kGroupBytesMax;
    }
  }

 private:
  const std::span<const SumTree::Step> steps_;
  HWY_ALIGN std::byte waiting_[SumTree::kWaitingMax * kGroupBytesMax];
};

// Takes the inputs from left to right: for operations whose bits depend on no order.
class InLine {
 public:
  explicit HWY_INLINE InLine(const SumTree& tree) : inputs_(tree.inputs()) {}

  template <class Op, class Group, class V>
  HWY_INLINE void Take(Group& group, V& v0, V& v1, V& v2, V& v3) {
    group.Load(0, v0, v1, v2, v3);
    for (size_t input = 1; input < inputs_; ++input) {
      V w0, w1, w2, w3;
      group.Load(input, w0, w1, w2, w3);
      Apply<typename Group::Format, Op>(v0, v1, v2, v3, w0, w1, w2, w3);
    }
  }

 private:
  const size_t inputs_;
};

// ---- The loop.

// Combines one group into the four vectors. No byte is written before all inputs are read, so the
// output may be one of them.
template <class Op, class Way, class Group, class V>
HWY_INLINE void CombineGroup(Way& way, Group& group, V divisor, V& v0, V& v1, V& v2, V& v3,
                             V& witness) {
  way.template Take<Op>(group, v0, v1, v2, v3);
  if constexpr (std::is_same_v<Op, Mean>) {
    v0 = hn::Div(v0, divisor);
    v1 = hn::Div(v1, divisor);
    v2 = hn::Div(v2, divisor);
    v3 = hn::Div(v3, divisor);
  }
  if constexpr (Group::Format::kIsFloat) Witness(v0, v1, v2, v3, witness);
}

// Combines the `bytes` that are left of a group. Returns whether a NaN may be among the results.
template <class Format, class Op>
HWY_NOINLINE bool CombineRest(const std::byte* const* inputs, const SumTree& tree, size_t offset,
                              size_t bytes, std::byte* out, typename Format::Vector divisor) {
  const typename Format::Tag d;
  std::conditional_t<kOrderMatters<Format, Op>, BySteps, InLine> way(tree);
  RestOfGroup<Format> group(inputs, offset, bytes);
  typename Format::Vector v0, v1, v2, v3;
  typename Format::Vector witness = hn::Zero(d);
  CombineGroup<Op>(way, group, divisor, v0, v1, v2, v3, witness);
  Padded padded;
  Format::Store(v0, v1, v2, v3, padded.bytes());
  std::memcpy(out + offset, padded.bytes(), bytes);
  if constexpr (Format::kIsFloat) return !hn::AllFalse(d, hn::IsNaN(witness));
  return false;
}

template <class Format, class Op, class Way>
void CombineAll(const std::byte* const* inputs, const SumTree& tree, std::byte* out, size_t bytes,
                uint32_t divisor) {
  const typename Format::Tag d;
  const auto divisors = hn::Set(d, static_cast<hn::TFromD<typename Format::Tag>>(divisor));
  const size_t group_bytes = Format::GroupBytes();
  Way way(tree);
  size_t offset = 0;
  while (offset < bytes) {
    const size_t begin = offset;
    const size_t end = bytes - begin < kChunkBytes ? bytes : begin + kChunkBytes;
    typename Format::Vector witness = hn::Zero(d);
    for (; end - offset >= group_bytes; offset += group_bytes) {
      const WholeGroup<Format> group(inputs, offset);
      typename Format::Vector v0, v1, v2, v3;
      CombineGroup<Op>(way, group, divisors, v0, v1, v2, v3, witness);
      Format::Store(v0, v1, v2, v3, out + offset);
    }
    bool may_have_nan = false;
    if (offset < end) {
      may_have_nan = CombineRest<Format, Op>(inputs, tree, offset, end - offset, out, divisors);
      offset = end;
    }
    if constexpr (Format::kIsFloat) {
      may_have_nan = may_have_nan || !hn::AllFalse(d, hn::IsNaN(witness));
      if (HWY_UNLIKELY(may_have_nan)) CanonicalizeNans<Format>(out + begin, end - begin);
    }
  }
}

// ---- From run-time values to one of the loops.

using Loop = void (*)(const std::byte* const*, const SumTree&, std::byte*, size_t, uint32_t);

template <class Format, class Op>
Loop LoopOf() {
  return CombineAll<Format, Op, std::conditional_t<kOrderMatters<Format, Op>, BySteps, InLine>>;
}

// Sums and averages of few floats have loops of their own: BySteps takes up to 1.6 times as long.
template <class Format, class Op>
Loop LoopOfRow(const SumTree& tree) {
  if (!tree.IsRow()) return LoopOf<Format, Op>();
  switch (tree.inputs()) {
    case 2: return CombineAll<Format, Op, Row<2>>;
    case 3: return CombineAll<Format, Op, Row<3>>;
    case 4: return CombineAll<Format, Op, Row<4>>;
    case 5: return CombineAll<Format, Op, Row<5>>;
    case 6: return CombineAll<Format, Op, Row<6>>;
    case 7: return CombineAll<Format, Op, Row<7>>;
    case 8: return CombineAll<Format, Op, Row<8>>;
    default: return LoopOf<Format, Op>();
  }
}

template <class Format>
Loop FloatLoop(byteps::Combine how, const SumTree& tree) {
  switch (how) {
    case byteps::Combine::kSum: return LoopOfRow<Format, Sum>(tree);
    case byteps::Combine::kMin: return LoopOf<Format, Minimum>();
    case byteps::Combine::kMax: return LoopOf<Format, Maximum>();
    case byteps::Combine::kProduct: return LoopOf<Format, Product>();
    case byteps::Combine::kAverage: return LoopOfRow<Format, Mean>(tree);
    case byteps::Combine::kOverlay:
    case byteps::Combine::kLast: break;
  }
  return nullptr;
}

// For nodes of the halves' own type. A sum is such a number already when it is divided.
template <class Format>
Loop OwnNodesLoop(byteps::Combine how, const SumTree& tree) {
  switch (how) {
    case byteps::Combine::kSum: return LoopOf<OwnNodes<Format>, Sum>();
    case byteps::Combine::kProduct: return LoopOf<OwnNodes<Format>, Product>();
    case byteps::Combine::kAverage: return LoopOf<OwnNodes<Format>, Mean>();
    default: return FloatLoop<Format>(how, tree);
  }
}

template <class Format>
Loop HalfLoop(byteps::Combine how, const SumTree& tree) {
  return tree.nodes() == Nodes::kOwn ? OwnNodesLoop<Format>(how, tree)
                                     : FloatLoop<Format>(how, tree);
}

// Sums and products wrap, so signed numbers share the loops of unsigned ones.
template <class T>
Loop IntegerLoop(byteps::Combine how) {
  using Unsigned = hwy::MakeUnsigned<T>;
  switch (how) {
    case byteps::Combine::kSum: return LoopOf<Plain<Unsigned>, Sum>();
    case byteps::Combine::kMin: return LoopOf<Plain<T>, Minimum>();
    case byteps::Combine::kMax: return LoopOf<Plain<T>, Maximum>();
    case byteps::Combine::kProduct: return LoopOf<Plain<Unsigned>, Product>();
    case byteps::Combine::kOverlay:
    case byteps::Combine::kAverage:
    case byteps::Combine::kLast: break;
  }
  return nullptr;
}

Loop BoolLoop(byteps::Combine how) {
  switch (how) {
    case byteps::Combine::kSum:
    case byteps::Combine::kMax: return LoopOf<Bool, Or>();
    case byteps::Combine::kMin:
    case byteps::Combine::kProduct: return LoopOf<Bool, And>();
    case byteps::Combine::kOverlay:
    case byteps::Combine::kAverage:
    case byteps::Combine::kLast: break;
  }
  return nullptr;
}

Loop LoopFor(byteps::Combine how, DataType type, const SumTree& tree) {
  switch (type) {
    case DataType::kFloat32: return FloatLoop<Plain<float>>(how, tree);
    case DataType::kFloat64: return FloatLoop<Plain<double>>(how, tree);
    case DataType::kFloat16: return HalfLoop<Float16>(how, tree);
    case DataType::kBfloat16: return HalfLoop<Bfloat16>(how, tree);
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
                     const std::byte* const* inputs, const SumTree& tree, size_t bytes,
                     uint32_t divisor) {
  const Loop loop = LoopFor(how, type, tree);
  BYTEPS_CHECK(loop != nullptr && "no arithmetic for this combination");
  if (loop != nullptr) loop(inputs, tree, out, bytes, divisor);
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
             std::span<const std::byte* const> inputs, const SumTree& tree, size_t count) {
  BYTEPS_CHECK(!inputs.empty() && tree.inputs() == inputs.size());
  const FloatMode mode;
  HWY_DYNAMIC_DISPATCH(CombineOnTarget)
  (how, type, out, inputs.data(), tree, count * SizeOf(type), 1);
}

void Average(DataType type, std::byte* out, std::span<const std::byte* const> inputs,
             const SumTree& tree, size_t count, uint32_t divisor) {
  BYTEPS_CHECK(!inputs.empty() && tree.inputs() == inputs.size());
  BYTEPS_CHECK(divisor >= inputs.size());
  switch (type) {
    case DataType::kInt8: return AverageIntegers<int8_t, int64_t>(out, inputs, count, divisor);
    case DataType::kInt16: return AverageIntegers<int16_t, int64_t>(out, inputs, count, divisor);
    case DataType::kInt32: return AverageIntegers<int32_t, int64_t>(out, inputs, count, divisor);
    case DataType::kInt64: return AverageIntegers<int64_t, Wide128>(out, inputs, count, divisor);
    case DataType::kUint8: return AverageIntegers<uint8_t, int64_t>(out, inputs, count, divisor);
    case DataType::kBool: return Combine(byteps::Combine::kSum, type, out, inputs, tree, count);
    case DataType::kFloat32:
    case DataType::kFloat64:
    case DataType::kFloat16:
    case DataType::kBfloat16: break;
  }
  const FloatMode mode;
  HWY_DYNAMIC_DISPATCH(CombineOnTarget)
  (byteps::Combine::kAverage, type, out, inputs.data(), tree, count * SizeOf(type), divisor);
}

const char* TargetName() { return HWY_DYNAMIC_DISPATCH(NameOnTarget)(); }

}  // namespace byteps::kernels
#endif
