#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "src/kernels/kernels.h"
#include "src/kernels/kernels_for_test.h"

namespace byteps::kernels {
namespace {

constexpr size_t kNoAlias = SIZE_MAX;

struct Shape {
  size_t count;
  size_t ways;
  size_t misalignment;      // of the output; each input has another one
  size_t alias = kNoAlias;  // the input that is also the output
  unsigned special_every = 6;
  Places places = {};  // none: a row
  Nodes nodes = Nodes::kFloat32;
};

reference::Tree TreeOf(const Shape& shape) {
  return {shape.places.empty() ? RowOf(shape.ways) : shape.places, shape.nodes};
}

std::vector<Bytes> RandomInputs(DataType type, const Shape& shape, std::mt19937_64& random) {
  std::vector<Bytes> inputs;
  for (size_t way = 0; way < shape.ways; ++way) {
    inputs.push_back(RandomElements(type, shape.count, random, shape.special_every));
  }
  return inputs;
}

// Returns so many places below `end`, in ascending order.
Places RandomPlaces(size_t count, uint32_t end, std::mt19937_64& random) {
  std::set<uint32_t> places;
  while (places.size() < count) places.insert(static_cast<uint32_t>(random() % end));
  return Places(places.begin(), places.end());
}

std::string Describe(byteps::Combine how, const Shape& shape) {
  std::string text = "combination " + std::to_string(static_cast<int>(how)) + " of " +
                     std::to_string(shape.count) + " elements, " + std::to_string(shape.ways) +
                     " ways, misaligned by " + std::to_string(shape.misalignment);
  if (shape.alias != kNoAlias) text += ", in place of input " + std::to_string(shape.alias);
  if (!shape.places.empty()) text += ", at places";
  for (uint32_t place : shape.places) text += " " + std::to_string(place);
  if (shape.nodes == Nodes::kOwn) text += ", nodes of their own type";
  return text;
}

// Combines `inputs` as `shape` says and compares with `expected`; inputs must survive.
void CheckOne(byteps::Combine how, DataType type, const std::vector<Bytes>& inputs,
              const Shape& shape, const Bytes& expected) {
  std::vector<Placed> placed;
  std::vector<const std::byte*> pointers;
  for (size_t way = 0; way < inputs.size(); ++way) {
    placed.emplace_back(inputs[way], shape.misalignment + 3 * way + (way != shape.alias));
  }
  for (Placed& input : placed) pointers.push_back(input.data());
  Placed separate(Bytes(expected.size()), shape.misalignment);
  Placed& out = shape.alias == kNoAlias ? separate : placed[shape.alias];
  Combine(how, type, out.data(), pointers, SumTree(TreeOf(shape).places, shape.nodes), shape.count);
  ExpectSame(type, out.contents(), expected, Describe(how, shape));
  EXPECT_TRUE(out.GuardsAreIntact()) << Describe(how, shape);
  for (size_t way = 0; way < inputs.size(); ++way) {
    EXPECT_TRUE(way == shape.alias || placed[way].contents() == inputs[way])
        << "input " << way << " changed: " << Describe(how, shape);
  }
}

// Every type and operation on every target, with both kinds of nodes.
void CheckAll(Shape shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (DataType type : kAllTypes) {
    const std::vector<Bytes> inputs = RandomInputs(type, shape, random);
    for (byteps::Combine how : kAllHows) {
      for (Nodes nodes : {Nodes::kFloat32, Nodes::kOwn}) {
        if (nodes == Nodes::kOwn && SizeOf(type) != 2) continue;
        shape.nodes = nodes;
        const Bytes expected = reference::Combine(how, type, inputs, TreeOf(shape), shape.count);
        ForEachTarget([&] { CheckOne(how, type, inputs, shape, expected); });
      }
    }
  }
}

TEST(CombineTest, TellsWhichTargetsItRunsOn) {
  std::string names;
  ForEachTarget([&] { names += std::string(" ") + TargetName(); });
  RecordProperty("targets", names);
  std::printf("SIMD targets of this machine:%s\n", names.c_str());
  EXPECT_NE(names.find(TargetName()), std::string::npos) << "the best one is among them";
}

TEST(CombineTest, EveryLengthUpToFourVectorsAndMore) {
  for (DataType type : kAllTypes) {
    std::mt19937_64 random(1);
    const size_t lanes = kVectorBytesMax / SizeOf(type);
    for (size_t count = 0; count <= 4 * lanes + 3; ++count) {
      const Shape shape{count, 1 + count % 4, count};
      const std::vector<Bytes> inputs = RandomInputs(type, shape, random);
      for (byteps::Combine how : kAllHows) {
        const Bytes expected = reference::Combine(how, type, inputs, TreeOf(shape), count);
        ForEachTarget([&] { CheckOne(how, type, inputs, shape, expected); });
      }
    }
  }
}

TEST(CombineTest, EveryMisalignment) {
  for (size_t misalignment = 0; misalignment < 64; ++misalignment) {
    CheckAll({131, 3, misalignment}, misalignment);
  }
}

TEST(CombineTest, OneToSeventeenInputs) {
  for (size_t ways = 1; ways <= 17; ++ways) CheckAll({301, ways, 5}, ways);
}

TEST(CombineTest, InputsAtAnyPlaces) {
  std::mt19937_64 random(8);
  for (uint32_t end : {8U, 16U, 64U, 300U, 1U << 16, UINT32_MAX}) {
    for (size_t ways : {2, 3, 4, 5, 7, 8, 13}) {
      if (ways > end) continue;
      Shape shape{.count = 131, .ways = ways, .misalignment = ways, .alias = random() % ways};
      shape.places = RandomPlaces(ways, end, random);
      CheckAll(shape, end + ways);
    }
  }
  for (size_t ways : {33, 64, 65, 299}) {
    Shape shape{.count = 40, .ways = ways, .misalignment = 1, .places = {}};
    shape.places = RandomPlaces(ways, 300, random);
    CheckAll(shape, ways);
  }
}

// Each next place is behind a larger block: so many results wait that no places make more wait.
TEST(CombineTest, TheDeepestTree) {
  Shape shape{.count = 67, .ways = 0, .misalignment = 3, .places = {0}};
  for (uint32_t height = 32; height-- > 0;) {
    shape.places.push_back(shape.places.back() + (uint32_t{1} << height));
  }
  shape.ways = shape.places.size();
  CheckAll(shape, 10);
}

TEST(CombineTest, InPlaceOfAnyInput) {
  for (size_t ways : {1, 2, 5, 9}) {
    for (size_t alias = 0; alias < ways; ++alias) CheckAll({333, ways, alias, alias}, ways);
  }
}

TEST(CombineTest, LongTensorsWithAndWithoutSpecialValues) {
  for (unsigned special_every : {7u, 3000u, UINT32_MAX}) {
    CheckAll({9001, 4, 1, 0, special_every}, special_every);
    CheckAll({8192, 2, 0, kNoAlias, special_every}, special_every + 1);
  }
}

TEST(CombineTest, ManyInputs) { CheckAll({77, 300, 1}, 9); }

// Every float16 and every bfloat16 with values that make sums and products round, tie, overflow
// and lose everything.
TEST(CombineTest, EveryHalfWithInterestingPartners) {
  constexpr size_t kAll = 1 << 16;
  std::mt19937_64 random(3);
  for (DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    Bytes every(kAll * 2);
    for (size_t i = 0; i < kAll; ++i) WriteAt<uint16_t>(every.data(), i, static_cast<uint16_t>(i));
    std::vector<uint64_t> partners = SpecialBits(type);
    for (int i = 0; i < 8; ++i) partners.push_back(random() & 0xffff);
    for (uint64_t partner : partners) {
      Bytes same(kAll * 2);
      for (size_t i = 0; i < kAll; ++i) {
        WriteAt<uint16_t>(same.data(), i, static_cast<uint16_t>(partner));
      }
      const std::vector<Bytes> inputs = {every, same};
      for (byteps::Combine how : kAllHows) {
        for (Nodes nodes : {Nodes::kFloat32, Nodes::kOwn}) {
          const Shape shape{.count = kAll, .ways = 2, .misalignment = 0, .nodes = nodes};
          const Bytes expected = reference::Combine(how, type, inputs, TreeOf(shape), kAll);
          ForEachTarget([&] { CheckOne(how, type, inputs, shape, expected); });
        }
      }
    }
  }
}

// ---- The promises of the header, in readable numbers.

template <class T>
std::vector<T> CombineValues(byteps::Combine how, DataType type,
                             const std::vector<std::vector<T>>& inputs) {
  std::vector<const std::byte*> pointers;
  for (const std::vector<T>& input : inputs) {
    pointers.push_back(reinterpret_cast<const std::byte*>(input.data()));
  }
  std::vector<T> out(inputs[0].size());
  const SumTree tree(RowOf(inputs.size()));
  Combine(how, type, reinterpret_cast<std::byte*>(out.data()), pointers, tree, out.size());
  return out;
}

uint32_t BitsOf(float value) { return std::bit_cast<uint32_t>(value); }

TEST(CombineTest, SumsPairsBeforePairsOfPairs) {
  ForEachTarget([] {
    const auto sum = [](const std::vector<std::vector<float>>& inputs) {
      return CombineValues<float>(byteps::Combine::kSum, DataType::kFloat32, inputs)[0];
    };
    EXPECT_EQ(sum({{1e8f}, {-1e8f}, {1.0f}}), 1.0f);
    EXPECT_EQ(sum({{1.0f}, {1e8f}, {-1e8f}}), 0.0f);
    // From left to right it would be 1.
    EXPECT_EQ(sum({{1e8f}, {-1e8f}, {1.0f}, {1e8f}, {-1e8f}}), 0.0f);
    EXPECT_EQ(sum({{1e8f}, {-1e8f}, {1e8f}, {-1e8f}, {1.0f}}), 1.0f);
  });
}

// A missing input is skipped: adding a zero for it would make -0.0 a +0.0.
TEST(CombineTest, MinusZerosAtAnyPlacesStay) {
  ForEachTarget([] {
    for (const Places& places : {Places{0, 2, 5}, Places{1, 6, 7}, Places{3, 4, 9}}) {
      const float zero = -0.0f;
      const std::vector<const std::byte*> inputs(3, reinterpret_cast<const std::byte*>(&zero));
      float sum = 1;
      Combine(byteps::Combine::kSum, DataType::kFloat32, reinterpret_cast<std::byte*>(&sum), inputs,
              SumTree(places), 1);
      EXPECT_EQ(BitsOf(sum), BitsOf(-0.0f));
    }
  });
}

TEST(CombineTest, HalvesRoundOnceAtTheEnd) {
  ForEachTarget([] {
    // 2048 + 1 is a tie that float16 would round down, twice.
    EXPECT_EQ(CombineValues<uint16_t>(byteps::Combine::kSum, DataType::kFloat16,
                                      {{0x6800}, {0x3c00}, {0x3c00}}),
              std::vector<uint16_t>{0x6801});
    // 65504 + 65504 - 65504 passes the largest float16 on its way.
    EXPECT_EQ(CombineValues<uint16_t>(byteps::Combine::kSum, DataType::kFloat16,
                                      {{0x7bff}, {0x7bff}, {0xfbff}}),
              std::vector<uint16_t>{0x7bff});
    // 256 + 1 + 1 in bfloat16.
    EXPECT_EQ(CombineValues<uint16_t>(byteps::Combine::kSum, DataType::kBfloat16,
                                      {{0x4380}, {0x3f80}, {0x3f80}}),
              std::vector<uint16_t>{0x4381});
  });
}

TEST(CombineTest, NodesOfTheirOwnTypeAreRoundedEachTime) {
  ForEachTarget([] {
    const auto sum = [](DataType type, const std::vector<uint16_t>& values) {
      std::vector<const std::byte*> pointers;
      for (const uint16_t& value : values) {
        pointers.push_back(reinterpret_cast<const std::byte*>(&value));
      }
      uint16_t out = 0;
      Combine(byteps::Combine::kSum, type, reinterpret_cast<std::byte*>(&out), pointers,
              SumTree(RowOf(values.size()), Nodes::kOwn), 1);
      return out;
    };
    // 2048 + 1 is a tie that float16 rounds down, twice; 1 + 1 comes first on the other side.
    EXPECT_EQ(sum(DataType::kFloat16, {0x6800, 0x3c00, 0x3c00}), 0x6800);
    EXPECT_EQ(sum(DataType::kFloat16, {0x3c00, 0x3c00, 0x6800}), 0x6801);
    // 65504 + 65504 is infinite.
    EXPECT_EQ(sum(DataType::kFloat16, {0x7bff, 0x7bff, 0xfbff}), 0x7c00);
    EXPECT_EQ(sum(DataType::kBfloat16, {0x4380, 0x3f80, 0x3f80}), 0x4380);
  });
}

TEST(CombineTest, MinusZeroIsLessThanZero) {
  ForEachTarget([] {
    const std::vector<std::vector<float>> zeros = {{0.0f, -0.0f}, {-0.0f, 0.0f}};
    for (float value : CombineValues<float>(byteps::Combine::kMin, DataType::kFloat32, zeros)) {
      EXPECT_EQ(BitsOf(value), BitsOf(-0.0f));
    }
    for (float value : CombineValues<float>(byteps::Combine::kMax, DataType::kFloat32, zeros)) {
      EXPECT_EQ(BitsOf(value), BitsOf(0.0f));
    }
  });
}

TEST(CombineTest, NanWinsAndIsCanonical) {
  const float negative_nan = std::bit_cast<float>(0xffc12345u);
  const float signaling_nan = std::bit_cast<float>(0x7f800001u);
  const float infinity = std::numeric_limits<float>::infinity();
  ForEachTarget([&] {
    for (byteps::Combine how : kAllHows) {
      for (float value : CombineValues<float>(
               how, DataType::kFloat32,
               {{negative_nan, 1, 2, signaling_nan}, {1, negative_nan, signaling_nan, 3}})) {
        EXPECT_EQ(BitsOf(value), 0x7fc00000u);
      }
      EXPECT_EQ(BitsOf(CombineValues<float>(how, DataType::kFloat32, {{negative_nan}})[0]),
                0x7fc00000u);
    }
    EXPECT_EQ(BitsOf(CombineValues<float>(byteps::Combine::kSum, DataType::kFloat32,
                                          {{infinity}, {-infinity}})[0]),
              0x7fc00000u);
  });
}

TEST(CombineTest, InfinitiesOfBothSignsSideBySideStay) {
  const float infinity = std::numeric_limits<float>::infinity();
  ForEachTarget([&] {
    std::vector<float> values(200, 1.0f);
    for (size_t i = 0; i < values.size(); i += 2) values[i] = i % 4 == 0 ? infinity : -infinity;
    EXPECT_EQ(CombineValues<float>(byteps::Combine::kMax, DataType::kFloat32, {values, values}),
              values);
  });
}

TEST(CombineTest, IntegersWrap) {
  ForEachTarget([] {
    EXPECT_EQ(CombineValues<int8_t>(byteps::Combine::kSum, DataType::kInt8, {{127}, {1}}),
              std::vector<int8_t>{-128});
    EXPECT_EQ(
        CombineValues<int32_t>(byteps::Combine::kProduct, DataType::kInt32, {{INT32_MIN}, {-1}}),
        std::vector<int32_t>{INT32_MIN});
    EXPECT_EQ(CombineValues<int64_t>(byteps::Combine::kSum, DataType::kInt64, {{INT64_MAX}, {1}}),
              std::vector<int64_t>{INT64_MIN});
    EXPECT_EQ(CombineValues<uint8_t>(byteps::Combine::kProduct, DataType::kUint8, {{16}, {17}}),
              std::vector<uint8_t>{16});
  });
}

TEST(CombineTest, BoolsAreZeroOrOne) {
  ForEachTarget([] {
    const std::vector<std::vector<uint8_t>> inputs = {{0, 0, 2, 255}, {0, 4, 0, 128}};
    const std::vector<uint8_t> either = {0, 1, 1, 1};
    const std::vector<uint8_t> both = {0, 0, 0, 1};
    EXPECT_EQ(CombineValues<uint8_t>(byteps::Combine::kSum, DataType::kBool, inputs), either);
    EXPECT_EQ(CombineValues<uint8_t>(byteps::Combine::kMax, DataType::kBool, inputs), either);
    EXPECT_EQ(CombineValues<uint8_t>(byteps::Combine::kProduct, DataType::kBool, inputs), both);
    EXPECT_EQ(CombineValues<uint8_t>(byteps::Combine::kMin, DataType::kBool, inputs), both);
    EXPECT_EQ(CombineValues<uint8_t>(byteps::Combine::kSum, DataType::kBool, {{0, 7}}),
              (std::vector<uint8_t>{0, 1}));
  });
}

}  // namespace
}  // namespace byteps::kernels
