// Tests that results do not depend on the floating-point mode of the caller's thread.
#include "src/kernels/float_mode.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "src/kernels/kernels.h"
#include "src/kernels/sum_tree.h"

namespace byteps::kernels {
namespace {

// The word of the mode has another name on each processor.
template <typename Mode>
void TakeSmallestForZero(Mode& mode) {
  if constexpr (requires { mode.__mxcsr; }) {
    mode.__mxcsr |= 0x8040;
  } else {
    mode |= 1U << 24;
  }
}

// Takes the smallest floats for zero and rounds upward, as the thread of a user's program may.
class CallersMode {
 public:
  CallersMode() {
    fegetmode(&before_);
    fesetround(FE_UPWARD);
    femode_t mode;
    fegetmode(&mode);
    TakeSmallestForZero(mode);
    fesetmode(&mode);
  }
  ~CallersMode() { fesetmode(&before_); }

  // Returns whether this thread has it now.
  static bool IsSet() {
    const double small = std::strtod("1e-310", nullptr);  // not known to the compiler
    return small + small == 0.0 && fegetround() == FE_UPWARD;
  }

 private:
  femode_t before_;
};

template <typename T>
std::vector<std::byte> InMemory(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
void SameWithTheCallersMode(DataType type, const std::vector<T>& a, const std::vector<T>& b) {
  const std::vector<std::byte> inputs[2] = {InMemory(a), InMemory(b)};
  const std::array<const std::byte*, 2> both = {inputs[0].data(), inputs[1].data()};
  const std::array<uint32_t, 2> places = {0, 1};
  const SumTree tree(places);
  const auto run = [&] {
    std::vector<std::byte> sum(inputs[0].size());
    std::vector<std::byte> average(inputs[0].size());
    std::vector<std::byte> scaled = inputs[0];
    Combine(byteps::Combine::kSum, type, sum.data(), both, tree, a.size());
    Average(type, average.data(), both, tree, a.size(), 3);
    Scale(type, scaled.data(), a.size(), 0.75);
    sum.insert(sum.end(), average.begin(), average.end());
    sum.insert(sum.end(), scaled.begin(), scaled.end());
    return sum;
  };
  const std::vector<std::byte> expected = run();
  CallersMode mode;
  ASSERT_TRUE(CallersMode::IsSet());
  const std::vector<std::byte> with_mode = run();
  const bool is_kept = CallersMode::IsSet();
  EXPECT_EQ(with_mode, expected);
  EXPECT_TRUE(is_kept) << "the caller has its mode again";
}

TEST(FloatModeTest, TheCallersModeChangesNoBit) {
  const double small = std::numeric_limits<double>::denorm_min();
  SameWithTheCallersMode<double>(DataType::kFloat64, {small, 1.0, -6.6e-309, 0.1},
                                 {small, 1e-17, 1e-310, 0.2});
  const float few = std::numeric_limits<float>::denorm_min();
  SameWithTheCallersMode<float>(DataType::kFloat32, {few, 1.0F, -3e-39F, 0.1F},
                                {few, 1e-8F, 1e-40F, 0.2F});
  SameWithTheCallersMode<uint16_t>(DataType::kFloat16, {1, 0x3c00, 0x83ff, 0x2e66},
                                   {1, 0x0001, 0x0200, 0x3266});
  SameWithTheCallersMode<uint16_t>(DataType::kBfloat16, {1, 0x3f80, 0x8061, 0x3dcd},
                                   {1, 0x3300, 0x0012, 0x3e4d});
  SameWithTheCallersMode<int32_t>(DataType::kInt32, {1, 5, -7, 9}, {2, 3, 4, 5});
}

TEST(FloatModeTest, AConversionKeepsTheSmallestFloats) {
  const std::vector<std::byte> in = InMemory<float>({1e-39F, 0.1F, -3e-8F, 6e-8F});
  const auto run = [&in](DataType to) {
    std::vector<std::byte> out(4 * sizeof(double));
    Convert(DataType::kFloat32, to, in.data(), out.data(), 4);
    return out;
  };
  for (DataType to : {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat64}) {
    const std::vector<std::byte> expected = run(to);
    CallersMode mode;
    EXPECT_EQ(run(to), expected);
  }
}

}  // namespace
}  // namespace byteps::kernels
