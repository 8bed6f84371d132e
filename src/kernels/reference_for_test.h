// The kernels once more, one element at a time and without SIMD. The tests compare with them.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "src/base/types.h"
#include "src/kernels/sum_tree.h"

namespace byteps::kernels::reference {

using Bytes = std::vector<std::byte>;

// A 16-bit float with `kMantissaBits` bits of mantissa; sign and exponent have the other bits.
template <int kMantissaBits>
struct HalfCodec {
  using Stored = uint16_t;
  using Computed = float;
  static constexpr int kBias = (1 << (14 - kMantissaBits)) - 1;
  static constexpr int kSmallestExponent = 1 - kBias;
  static constexpr Stored kInfinity = static_cast<Stored>(0x7fff >> kMantissaBits << kMantissaBits);
  static constexpr Stored kNan = kInfinity | 1 << (kMantissaBits - 1);

  static float Decode(Stored bits) {
    const int magnitude = bits & 0x7fff;
    const int mantissa = magnitude & ((1 << kMantissaBits) - 1);
    const int exponent = magnitude >> kMantissaBits;
    double value;
    if (magnitude > kInfinity) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (magnitude == kInfinity) {
      value = std::numeric_limits<double>::infinity();
    } else if (exponent == 0) {
      value = std::ldexp(mantissa, kSmallestExponent - kMantissaBits);
    } else {
      value = std::ldexp(mantissa + (1 << kMantissaBits), exponent - kBias - kMantissaBits);
    }
    return static_cast<float>(bits & 0x8000 ? -value : value);
  }

  // Rounds once, to nearest even.
  static Stored Encode(double value) {
    if (std::isnan(value)) return kNan;
    const int sign = std::signbit(value) ? 0x8000 : 0;
    const double size = std::fabs(value);
    if (std::isinf(size)) return static_cast<Stored>(sign | kInfinity);
    const int exponent =
        size == 0 ? kSmallestExponent : std::max(std::ilogb(size), kSmallestExponent);
    // Units of the last place, 2^kMantissaBits of them where the exponent begins.
    const double units = std::nearbyint(std::ldexp(size, kMantissaBits - exponent));
    const double bits = std::ldexp(exponent - kSmallestExponent, kMantissaBits) + units;
    return static_cast<Stored>(sign | (bits >= kInfinity ? kInfinity : static_cast<int>(bits)));
  }
};
using Float16Codec = HalfCodec<10>;
using Bfloat16Codec = HalfCodec<7>;

template <class T>
struct PlainCodec {
  using Stored = T;
  using Computed = T;
  static T Decode(T value) { return value; }
  static T Encode(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(value)) return std::copysign(std::numeric_limits<T>::quiet_NaN(), T{1});
    }
    return value;
  }
};

struct BoolCodec {
  using Stored = uint8_t;
  using Computed = bool;
  static bool Decode(uint8_t byte) { return byte != 0; }
  static uint8_t Encode(bool value) { return value ? 1 : 0; }
};

// Calls function(Codec()) with the codec of `type`.
template <class Function>
auto WithCodec(DataType type, Function function) {
  switch (type) {
    case DataType::kFloat64: return function(PlainCodec<double>());
    case DataType::kFloat16: return function(Float16Codec());
    case DataType::kBfloat16: return function(Bfloat16Codec());
    case DataType::kInt8: return function(PlainCodec<int8_t>());
    case DataType::kInt16: return function(PlainCodec<int16_t>());
    case DataType::kInt32: return function(PlainCodec<int32_t>());
    case DataType::kInt64: return function(PlainCodec<int64_t>());
    case DataType::kUint8: return function(PlainCodec<uint8_t>());
    case DataType::kBool: return function(BoolCodec());
    case DataType::kFloat32: break;
  }
  return function(PlainCodec<float>());
}

template <class T>
T ReadAt(const std::byte* bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void WriteAt(std::byte* bytes, size_t index, T value) {
  std::memcpy(bytes + index * sizeof(T), &value, sizeof(T));
}

template <class T>
T CombineTwo(byteps::Combine how, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return how == byteps::Combine::kSum || how == byteps::Combine::kMax ? a || b : a && b;
  } else if constexpr (std::is_integral_v<T>) {
    const auto wide_a = static_cast<uint64_t>(a);
    const auto wide_b = static_cast<uint64_t>(b);
    switch (how) {
      case byteps::Combine::kSum: return static_cast<T>(wide_a + wide_b);
      case byteps::Combine::kProduct: return static_cast<T>(wide_a * wide_b);
      case byteps::Combine::kMin: return a < b ? a : b;
      default: return a < b ? b : a;
    }
  } else {
    if (how == byteps::Combine::kSum) return a + b;
    if (how == byteps::Combine::kProduct) return a * b;
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    const bool a_is_less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
    return a_is_less == (how == byteps::Combine::kMin) ? a : b;
  }
}

using Places = std::vector<uint32_t>;

// Returns the places 0, 1, 2 and so on.
inline Places RowOf(size_t count) {
  Places places(count);
  std::iota(places.begin(), places.end(), 0U);
  return places;
}

// The tree over some places; with nodes of the elements' own type, each node is rounded.
struct Tree {
  Places places;
  Nodes nodes = Nodes::kFloat32;
};

// Returns the node of this height above the inputs from `begin` to `end`.
template <class Codec, class T = typename Codec::Computed>
T Node(byteps::Combine how, const Tree& tree, const std::vector<T>& values, size_t begin,
       size_t end, int height) {
  if (end - begin == 1) return values[begin];
  size_t middle = begin;
  while (middle < end && (tree.places[middle] >> (height - 1) & 1) == 0) ++middle;
  if (middle == begin || middle == end) {
    return Node<Codec>(how, tree, values, begin, end, height - 1);
  }
  const T node = CombineTwo<T>(how, Node<Codec>(how, tree, values, begin, middle, height - 1),
                               Node<Codec>(how, tree, values, middle, end, height - 1));
  return tree.nodes == Nodes::kOwn ? Codec::Decode(Codec::Encode(node)) : node;
}

// Calls `store(i, value)` with the root of the tree of each element i.
template <class Codec, class Store>
void ForEachRoot(byteps::Combine how, const std::vector<Bytes>& inputs, const Tree& tree,
                 size_t count, Store store) {
  for (size_t i = 0; i < count; ++i) {
    std::vector<typename Codec::Computed> values;
    for (const Bytes& input : inputs) {
      values.push_back(Codec::Decode(ReadAt<typename Codec::Stored>(input.data(), i)));
    }
    store(i, Node<Codec>(how, tree, values, 0, values.size(), 32));
  }
}

inline Bytes Combine(byteps::Combine how, DataType type, const std::vector<Bytes>& inputs,
                     const Tree& tree, size_t count) {
  Bytes out(count * SizeOf(type));
  WithCodec(type, [&](auto codec) {
    using Codec = decltype(codec);
    ForEachRoot<Codec>(how, inputs, tree, count, [&](size_t i, auto value) {
      WriteAt<typename Codec::Stored>(out.data(), i, Codec::Encode(value));
    });
  });
  return out;
}

// Averages integers by their exact sum and quotient, floats by one division of the sum.
inline Bytes Average(DataType type, const std::vector<Bytes>& inputs, const Tree& tree,
                     size_t count, uint32_t divisor) {
  const auto sum = byteps::Combine::kSum;
  if (type == DataType::kBool) return Combine(sum, type, inputs, tree, count);
  Bytes out(count * SizeOf(type));
  WithCodec(type, [&](auto codec) {
    using Codec = decltype(codec);
    using Stored = typename Codec::Stored;
    using Computed = typename Codec::Computed;
    if constexpr (std::is_floating_point_v<Computed>) {
      ForEachRoot<Codec>(sum, inputs, tree, count, [&](size_t i, Computed value) {
        const Computed average = value / static_cast<Computed>(divisor);
        WriteAt<Stored>(out.data(), i, Codec::Encode(average));
      });
    } else {
      // The quotients and the remainders add up on their own, and never leave 64 bits.
      for (size_t i = 0; i < count; ++i) {
        int64_t whole = 0;
        int64_t rest = 0;
        for (const Bytes& input : inputs) {
          const auto value = static_cast<int64_t>(ReadAt<Stored>(input.data(), i));
          whole += value / divisor;
          rest += value % divisor;
        }
        whole += rest >= 0 ? rest / divisor : -1 - (-1 - rest) / divisor;
        WriteAt<Stored>(out.data(), i, static_cast<Stored>(whole));
      }
    }
  });
  return out;
}

// Applies `of_float(Computed)` or `of_integer(Stored)` to every element; bool stays as it is.
template <class OfFloat, class OfInteger>
Bytes Transform(DataType type, Bytes data, OfFloat of_float, OfInteger of_integer) {
  WithCodec(type, [&](auto codec) {
    using Codec = decltype(codec);
    using Stored = typename Codec::Stored;
    using Computed = typename Codec::Computed;
    for (size_t i = 0; i < data.size() / sizeof(Stored); ++i) {
      const Stored stored = ReadAt<Stored>(data.data(), i);
      if constexpr (std::is_floating_point_v<Computed>) {
        WriteAt<Stored>(data.data(), i, Codec::Encode(of_float(Codec::Decode(stored))));
      } else if constexpr (!std::is_same_v<Computed, bool>) {
        WriteAt<Stored>(data.data(), i, of_integer(stored));
      }
    }
  });
  return data;
}

// Converts between the four float types.
inline Bytes Convert(DataType from, DataType to, const Bytes& in) {
  const size_t count = in.size() / SizeOf(from);
  Bytes out(count * SizeOf(to));
  for (size_t i = 0; i < count; ++i) {
    const double value = WithCodec(from, [&](auto codec) {
      using Codec = decltype(codec);
      const auto stored = ReadAt<typename Codec::Stored>(in.data(), i);
      return static_cast<double>(Codec::Decode(stored));
    });
    WithCodec(to, [&](auto codec) {
      using Codec = decltype(codec);
      using Stored = typename Codec::Stored;
      if constexpr (std::is_same_v<Stored, uint16_t>) {
        WriteAt<Stored>(out.data(), i, Codec::Encode(value));
      } else if constexpr (std::is_floating_point_v<Stored>) {
        WriteAt<Stored>(out.data(), i, Codec::Encode(static_cast<Stored>(value)));
      }
    });
  }
  return out;
}

}  // namespace byteps::kernels::reference
