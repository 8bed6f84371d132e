#include "src/protocol/shard/state/combiner.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "src/protocol/codec_for_test.h"
#include "src/protocol/shard/room_for_test.h"
#include "src/wire/join_word.h"

namespace byteps::protocol {
namespace {

std::string TextOf(const Combiner::Combined& combined) {
  return {reinterpret_cast<const char*>(combined.buffer.data()), combined.bytes};
}

// Returns the bytes of a piece of one float32.
std::string TextOf(float value) {
  std::string text(sizeof value, '\0');
  std::memcpy(text.data(), &value, sizeof value);
  return text;
}

wire::DataHeader FloatPush(Combine combine = Combine::kSum) {
  wire::DataHeader header = PushOf({7, 0, 1}, 4, combine);
  header.dtype = DataType::kFloat32;
  return header;
}

// A value that is too small for the sum so far is lost, so another order gives another sum.
TEST(CombinerTest, CombinesInOneOrderWhateverCameFirst) {
  Room room;
  const float values[] = {1e8F, 1, -1e8F};
  for (std::vector<Slot> order : {std::vector<Slot>{0, 1, 2}, {2, 0, 1}, {0, 2, 1}}) {
    Piece& piece = room.Open(FloatPush());
    for (Slot slot : order) room.Arrive(piece, slot, TextOf(values[slot]), 4);
    EXPECT_EQ(TextOf(room.combiner.Combine(*piece.round, 1).value()), TextOf(0.0F));
    room.rounds.Drop(piece);
  }
}

RC_GTEST_PROP(CombinerTest, SameContributionsHaveTheSameBits, ()) {
  const auto slots = *rc::gen::inRange<Slot>(2, 9);
  Room room(ViewFor(slots, 1));
  std::vector<std::string> pushed;
  std::vector<Slot> order;
  for (Slot slot = 0; slot < slots; ++slot) {
    const auto exponent = static_cast<float>(*rc::gen::inRange(-20, 20));
    pushed.push_back(TextOf(std::exp2(exponent) * static_cast<float>(*rc::gen::inRange(1, 1000))));
    order.push_back(slot);
  }
  const Combine combine = *rc::gen::element(Combine::kSum, Combine::kAverage, Combine::kProduct);
  const auto combined = [&](const std::vector<Slot>& in) {
    Piece& piece = room.Open(FloatPush(combine));
    for (Slot slot : in) room.Arrive(piece, slot, pushed[slot], 4);
    const std::string text = TextOf(room.combiner.Combine(*piece.round, slots).value());
    room.rounds.Drop(piece);
    return text;
  };
  const std::string expected = combined(order);
  for (Slot slot = slots - 1; slot > 0; --slot) {
    std::swap(order[slot], order[*rc::gen::inRange<Slot>(0, slot + 1)]);
  }
  RC_ASSERT(combined(order) == expected);
}

TEST(CombinerTest, AveragesByTheDivisorAlsoOfOne) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1, Combine::kAverage);
  room.Arrive(piece, 1, "\x0c", 1);
  EXPECT_EQ(TextOf(room.combiner.Combine(*piece.round, 4).value()), "\x03");
}

// Like the sum of several, the sum of one has one kind of NaN.
TEST(CombinerTest, OneContributionIsCombined) {
  Room room;
  Piece& piece = room.Open(FloatPush());
  room.Arrive(piece, 2, TextOf(std::bit_cast<float>(0xffc12345U)), 4);
  EXPECT_EQ(TextOf(room.combiner.Combine(*piece.round, 1).value()),
            TextOf(std::bit_cast<float>(0x7fc00000U)));
}

TEST(CombinerTest, TheLastOneIsTheLastWhoIsThere) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1, Combine::kLast);
  room.Arrive(piece, 1, "b", 1);
  room.Arrive(piece, 2, "c", 1);
  EXPECT_EQ(TextOf(room.combiner.Combine(*piece.round, 1).value()), "c");
  wire::View view = ViewFor(3, 1);
  Lose(view, 2);
  room.SetView(view);
  EXPECT_EQ(TextOf(room.combiner.Combine(*piece.round, 1).value()), "b");
}

// The shard of the join hears first of the rank that has taken part in more operations. Another
// shard let that rank go on without the others.
TEST(CombinerTest, TheLastOneIsWhoHasTakenPartInMost) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, sizeof(uint64_t), Combine::kLast);
  auto arrive = [&](Slot slot, uint64_t operations) {
    uint64_t word = wire::JoinWordOf(operations, slot);
    std::string bytes(sizeof(word), 0);
    std::memcpy(bytes.data(), &word, sizeof(word));
    room.Arrive(piece, slot, bytes, sizeof(word));
  };
  auto last = [&] {
    uint64_t word = 0;
    const std::string bytes = TextOf(room.combiner.Combine(*piece.round, 1).value());
    std::memcpy(&word, bytes.data(), sizeof(word));
    return wire::RankOfJoin(word);
  };
  arrive(2, 6);
  arrive(0, 5);
  EXPECT_EQ(last(), 2U);
  arrive(1, 6);
  EXPECT_EQ(last(), 1U);
}

TEST(CombinerTest, WhenAllAreGoneTheLastOneIsTheLast) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1, Combine::kLast);
  room.Arrive(piece, 2, "c", 1);
  room.Arrive(piece, 1, "b", 1);
  wire::View view = ViewFor(3, 1);
  Lose(view, 1);
  Lose(view, 2);
  room.SetView(view);
  EXPECT_EQ(TextOf(room.combiner.Combine(*piece.round, 1).value()), "b");
}

TEST(CombinerTest, WhatIsOverlaidIsWhatLiesThere) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 2, Combine::kOverlay);
  room.Arrive(piece, 1, "ab", 2);
  room.Arrive(piece, 0, "", 2);
  EXPECT_EQ(TextOf(room.combiner.Combine(*piece.round, 1).value()), "ab");
}

TEST(CombinerTest, OneContributionIsItsOwnSum) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1);
  room.Arrive(piece, 2, "x", 1);
  Combiner::Combined combined = room.combiner.Combine(*piece.round, 1).value();
  EXPECT_EQ(TextOf(combined), "x");
  EXPECT_EQ(combined.buffer.data(), piece.round->contributions()[2].buffer.data())
      << "no bytes are copied";
}

class EncodedCombinerTest : public testing::Test {
 protected:
  Piece& Open() {
    wire::DataHeader header = FloatPush();
    header.codec = CodecsForTest::kBfloat16;
    header.encoded_bytes = 2;
    return room.Open(header);
  }
  static std::string Encoded(float value) { return TextOf(value).substr(2); }
  CodecsForTest codecs;
  Room room{ViewFor(3, 1), ShardOptions{.codecs = &codecs}};
};

TEST_F(EncodedCombinerTest, DecodesEachAndEncodesTheSumOnce) {
  Piece& piece = Open();
  const float values[] = {256, 1, 1};  // in bfloat16, 256 + 1 is 256
  for (Slot slot : {0u, 1u, 2u}) room.Arrive(piece, slot, Encoded(values[slot]), 4);
  EXPECT_EQ(TextOf(room.combiner.Combine(*piece.round, 1).value()), Encoded(258));
}

TEST_F(EncodedCombinerTest, WhatCannotBeDecodedNamesItsWorkerAndLeavesNothing) {
  Piece& piece = Open();
  room.Arrive(piece, 0, Encoded(1), 4);
  room.Arrive(piece, 1, "abc", 4);
  Result<Combiner::Combined> combined = room.combiner.Combine(*piece.round, 1);
  ASSERT_FALSE(combined.ok());
  EXPECT_TRUE(combined.status().message().starts_with("what worker 1 pushed cannot be decoded"))
      << combined.status().message();
  room.rounds.Drop(piece);
  EXPECT_EQ(room.pool.bytes_in_use(), 0u);
}

}  // namespace
}  // namespace byteps::protocol
