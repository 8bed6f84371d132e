#include "src/machine/room/mail_room.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace byteps::machine {
namespace {

constexpr uint32_t kMailRanks = 3;

class MailRoomTest : public testing::Test {
 protected:
  MailRoomTest()
      : lines_(SharedRoom::BytesFor(SharedRoom::ShapeFor(kMailRanks)) / sizeof(Line) + 1) {
    for (uint32_t rank = 0; rank < kMailRanks; ++rank) {
      windows.push_back(
          std::make_unique<local::Window>(room.window(), SharedRoom::ShapeFor(kMailRanks), rank));
      rooms.push_back(std::make_unique<MailRoom>(
          room, *windows.back(), kMailRanks,
          MailRoom::Events{[this](uint32_t from, const Word& word) {
                             const auto* gave_up = std::get_if<GaveUp>(&word);
                             asked.emplace_back(from, gave_up == nullptr ? "" : gave_up->why);
                           },
                           [this, rank](const Word& word) {
                             told.emplace_back(rank, std::get<GaveUp>(word).why);
                           },
                           [this] { return keeps_errors; }}));
    }
  }
  // Returns true if there was a word.
  bool Hear(uint32_t rank) {
    bool heard = false;
    Status status = rooms[rank]->Hear([] { return true; }, heard);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return heard;
  }
  using Said = std::vector<std::pair<uint32_t, std::string>>;

  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> lines_;
  SharedRoom room{std::as_writable_bytes(std::span(lines_)), SharedRoom::ShapeFor(kMailRanks)};
  std::vector<std::unique_ptr<local::Window>> windows;
  std::vector<std::unique_ptr<MailRoom>> rooms;
  // Returns whether the round wakes the carrier.
  bool Begin(uint32_t rank, TensorId tensor) {
    const uint32_t before = windows[0]->Events();
    RoundFacts facts;
    facts.ranks = 0b111;
    rooms[rank]->Say(Begun{{tensor, 1, 0}, facts, {}});
    EXPECT_TRUE(rooms[rank]->Flush());
    return windows[0]->Events() != before;
  }
  Said asked;
  Said told;
  bool keeps_errors = false;
};

TEST_F(MailRoomTest, TheCarrierHearsAllRanksItsOwnToo) {
  uint32_t before = windows[0]->Events();
  for (uint32_t rank = 0; rank < kMailRanks; ++rank) {
    rooms[rank]->Say(GaveUp{"first"});
    rooms[rank]->Say(GaveUp{"second"});
  }
  EXPECT_EQ(windows[0]->Events(), before);
  for (uint32_t rank = 0; rank < kMailRanks; ++rank) EXPECT_TRUE(rooms[rank]->Flush());
  EXPECT_NE(windows[0]->Events(), before) << "it was woken";
  EXPECT_TRUE(Hear(0));
  EXPECT_EQ(
      asked,
      (Said{
          {1, "first"}, {1, "second"}, {2, "first"}, {2, "second"}, {0, "first"}, {0, "second"}}));
  EXPECT_FALSE(Hear(0));
}

TEST_F(MailRoomTest, EachRankHearsWhatTheCarrierSaysToIt) {
  for (uint32_t rank = 0; rank < kMailRanks; ++rank) {
    rooms[0]->SayTo(rank, GaveUp{"to " + std::to_string(rank)});
  }
  EXPECT_TRUE(rooms[0]->Flush());
  for (uint32_t rank : {2, 0, 1}) EXPECT_TRUE(Hear(rank));
  EXPECT_EQ(told, (Said{{2, "to 2"}, {0, "to 0"}, {1, "to 1"}}));
}

TEST_F(MailRoomTest, WhatDoesNotFitGoesLaterAndTheReaderWakesTheWriter) {
  const std::string large(2 * kRingBytes, 'x');
  rooms[1]->Say(GaveUp{large});
  EXPECT_FALSE(rooms[1]->Flush());
  uint32_t before = windows[1]->Events();
  for (int turns = 0; asked.empty(); ++turns) {
    ASSERT_LT(turns, 10);
    Hear(0);
    rooms[1]->Flush();
  }
  EXPECT_EQ(asked[0].second, large);
  EXPECT_NE(windows[1]->Events(), before);
}

TEST_F(MailRoomTest, WhoShallNotGoOnHearsNoMore) {
  rooms[1]->Say(GaveUp{"first"});
  rooms[1]->Say(GaveUp{"second"});
  rooms[1]->Flush();
  bool heard = false;
  EXPECT_TRUE(rooms[0]->Hear([this] { return asked.empty(); }, heard).ok());
  EXPECT_EQ(asked.size(), 1u);
}

TEST_F(MailRoomTest, NonsenseIsAnError) {
  MailLine line(room.ToCarrier(1), room.ToRank(1));
  line.Send({std::byte{200}});
  line.Flush();
  bool heard = false;
  EXPECT_EQ(rooms[0]->Hear([] { return true; }, heard).code(), StatusCode::kProtocol);
}

TEST_F(MailRoomTest, TheCarrierSleepsUntilTheLastRankHasBegun) {
  EXPECT_FALSE(Begin(1, 1));
  EXPECT_FALSE(Begin(0, 1));
  EXPECT_TRUE(Begin(2, 1));
  EXPECT_TRUE(Hear(0));
  EXPECT_EQ(asked.size(), 3u);
  rooms[1]->Ended({1, 1, 0}, false);
  EXPECT_FALSE(Begin(2, 2));
  rooms[2]->Say(GaveUp{"now"});
  EXPECT_TRUE(Begin(2, 3)) << "it has more to hear";
}

TEST_F(MailRoomTest, ForRanksThatNobodyWaitsForTheCarrierIsWoken) {
  rooms[2]->Say(Joined());
  rooms[2]->Flush();
  EXPECT_TRUE(Begin(1, 1));
  rooms[2]->Ended({9, 1, 0}, true);
  EXPECT_FALSE(Begin(1, 2));
  rooms[2]->Say(Leaves());
  rooms[2]->Flush();
  EXPECT_TRUE(Begin(1, 3));
}

TEST_F(MailRoomTest, AnErrorThatIsKeptIsFetched) {
  rooms[2]->Say(GaveUp{"why"});
  rooms[2]->Flush();
  keeps_errors = true;
  Hear(0);
  EXPECT_TRUE(Begin(1, 1));
  rooms[2]->Say(GaveUp{"again"});
  rooms[2]->Flush();
  keeps_errors = false;
  Hear(0);
  EXPECT_FALSE(Begin(1, 2));
}

// The carrier sleeps through the words that fill the ring.
TEST_F(MailRoomTest, AFullRingWakesTheCarrier) {
  bool woken = false;
  for (TensorId tensor = 1; !woken; ++tensor) {
    ASSERT_LT(tensor, kRingBytes);
    const uint32_t before = windows[0]->Events();
    RoundFacts facts;
    facts.ranks = 0b111;
    rooms[1]->Say(Begun{{tensor, 1, 0}, facts, {}});
    const bool fits = rooms[1]->Flush();
    woken = windows[0]->Events() != before;
    EXPECT_EQ(woken, !fits);
  }
}

}  // namespace
}  // namespace byteps::machine
