#include "src/machine/room/shared_room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace byteps::machine {
namespace {

TEST(SharedRoomTest, BlocksTakeTheSizesOfAnAlltoallAndStayInTheCache) {
  for (uint32_t ranks = 1; ranks <= local::kLocalRanksMax; ++ranks) {
    local::WindowShape shape = SharedRoom::ShapeFor(ranks);
    EXPECT_EQ(shape.ranks, ranks);
    EXPECT_EQ(shape.block_bytes % 64, 0u);
    EXPECT_GE(shape.block_bytes, ranks * ranks * sizeof(uint64_t));
    EXPECT_LE(shape.block_bytes * shape.blocks * ranks, size_t{16} << 20);
  }
}

TEST(SharedRoomTest, NothingLiesInAnothersPlace) {
  constexpr uint32_t kRanks = 3;
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> lines(SharedRoom::BytesFor(SharedRoom::ShapeFor(kRanks)) / sizeof(Line) + 1);
  SharedRoom room(std::as_writable_bytes(std::span(lines)), SharedRoom::ShapeFor(kRanks));
  std::vector<std::byte> much(kWordRingBytes, std::byte{1});
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    for (WordRing* ring : {&room.ToCarrier(rank), &room.ToRank(rank)}) {
      EXPECT_EQ(local::RingWriter(&ring->words, ring->bytes).WriteSome(much), kWordRingBytes);
    }
  }
  const SmallMemory small = room.Small();
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    for (uint32_t place = 0; place < kSmallPlaces; ++place) {
      std::fill_n(small.At(rank, place), kSmallBytesMax, std::byte{2});
    }
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    std::vector<std::byte> back(kWordRingBytes);
    WordRing& ring = room.ToRank(rank);
    EXPECT_EQ(local::RingReader(&ring.words, ring.bytes).ReadSome(back), kWordRingBytes);
    EXPECT_EQ(back, much);
  }
  EXPECT_EQ(room.signs().excused.load(), 0u);
  EXPECT_EQ(room.signs().keeps_errors.load(), 0u);
  EXPECT_EQ(room.life_signs().first_loss.load(), 0u);
  EXPECT_EQ(room.life_signs().ranks.back().beats.load(), 0u);
  EXPECT_EQ(room.window().back(), std::byte{0});
}

}  // namespace
}  // namespace byteps::machine
