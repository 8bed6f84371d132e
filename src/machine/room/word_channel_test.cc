#include "src/machine/room/word_channel.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/machine/serverless/local_words.h"

namespace byteps::machine {
namespace {

constexpr uint32_t kChannelRanks = 3;

using Channel = WordChannel<LocalWords>;

class WordChannelTest : public testing::Test {
 protected:
  WordChannelTest()
      : lines_(SharedRoom::BytesFor(SharedRoom::ShapeFor(kChannelRanks)) / sizeof(Line) + 1) {
    for (uint32_t rank = 0; rank < kChannelRanks; ++rank) {
      windows.push_back(std::make_unique<local::Window>(room.window(),
                                                        SharedRoom::ShapeFor(kChannelRanks), rank));
      channels.push_back(std::make_unique<Channel>(
          room, *windows.back(), kChannelRanks,
          Channel::Events{[this](uint32_t from, const Channel::ToCarrier& word) {
                            const auto* gave_up = std::get_if<GaveUp>(&word);
                            asked.emplace_back(from, gave_up == nullptr ? "" : gave_up->why);
                          },
                          [this, rank](const Channel::ToRank& word) {
                            told.emplace_back(rank, std::get<JobOver>(word).status.message());
                          },
                          [this] { return keeps_errors; }}));
    }
  }
  // Returns true if there was a word.
  bool Hear(uint32_t rank) {
    bool heard = false;
    Status status = channels[rank]->Hear([] { return true; }, heard);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return heard;
  }
  using Said = std::vector<std::pair<uint32_t, std::string>>;

  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> lines_;
  SharedRoom room{std::as_writable_bytes(std::span(lines_)), SharedRoom::ShapeFor(kChannelRanks)};
  std::vector<std::unique_ptr<local::Window>> windows;
  std::vector<std::unique_ptr<Channel>> channels;
  // Returns whether the round wakes the carrier.
  bool Begin(uint32_t rank, TensorId tensor) {
    const uint32_t before = windows[0]->Events();
    LocalFacts facts;
    facts.ranks = 0b111;
    channels[rank]->Say(Begun{{tensor, 1, 0}, facts, {}});
    EXPECT_TRUE(channels[rank]->Flush());
    return windows[0]->Events() != before;
  }
  Said asked;
  Said told;
  bool keeps_errors = false;
};

TEST_F(WordChannelTest, TheCarrierHearsAllRanksItsOwnToo) {
  uint32_t before = windows[0]->Events();
  for (uint32_t rank = 0; rank < kChannelRanks; ++rank) {
    channels[rank]->Say(GaveUp{"first"});
    channels[rank]->Say(GaveUp{"second"});
  }
  EXPECT_EQ(windows[0]->Events(), before);
  for (uint32_t rank = 0; rank < kChannelRanks; ++rank) EXPECT_TRUE(channels[rank]->Flush());
  EXPECT_NE(windows[0]->Events(), before) << "it was woken";
  EXPECT_TRUE(Hear(0));
  EXPECT_EQ(
      asked,
      (Said{
          {1, "first"}, {1, "second"}, {2, "first"}, {2, "second"}, {0, "first"}, {0, "second"}}));
  EXPECT_FALSE(Hear(0));
}

TEST_F(WordChannelTest, EachRankHearsWhatTheCarrierSaysToIt) {
  for (uint32_t rank = 0; rank < kChannelRanks; ++rank) {
    channels[0]->SayTo(rank, JobOver{{StatusCode::kPeerLost, "to " + std::to_string(rank)}});
  }
  EXPECT_TRUE(channels[0]->Flush());
  for (uint32_t rank : {2, 0, 1}) EXPECT_TRUE(Hear(rank));
  EXPECT_EQ(told, (Said{{2, "to 2"}, {0, "to 0"}, {1, "to 1"}}));
}

TEST_F(WordChannelTest, WhatDoesNotFitGoesLaterAndTheReaderWakesTheWriter) {
  const std::string large(2 * kWordRingBytes, 'x');
  channels[1]->Say(GaveUp{large});
  EXPECT_FALSE(channels[1]->Flush());
  uint32_t before = windows[1]->Events();
  for (int turns = 0; asked.empty(); ++turns) {
    ASSERT_LT(turns, 10);
    Hear(0);
    channels[1]->Flush();
  }
  EXPECT_EQ(asked[0].second, large);
  EXPECT_NE(windows[1]->Events(), before);
}

TEST_F(WordChannelTest, WhoShallNotGoOnHearsNoMore) {
  channels[1]->Say(GaveUp{"first"});
  channels[1]->Say(GaveUp{"second"});
  channels[1]->Flush();
  bool heard = false;
  EXPECT_TRUE(channels[0]->Hear([this] { return asked.empty(); }, heard).ok());
  EXPECT_EQ(asked.size(), 1u);
}

TEST_F(WordChannelTest, NonsenseIsAnError) {
  WordLine line(room.ToCarrier(1), room.ToRank(1));
  line.Send({std::byte{200}});
  line.Flush();
  bool heard = false;
  EXPECT_EQ(channels[0]->Hear([] { return true; }, heard).code(), StatusCode::kProtocol);
}

TEST_F(WordChannelTest, TheCarrierSleepsUntilTheLastRankHasBegun) {
  EXPECT_FALSE(Begin(1, 1));
  EXPECT_FALSE(Begin(0, 1));
  EXPECT_TRUE(Begin(2, 1));
  EXPECT_TRUE(Hear(0));
  EXPECT_EQ(asked.size(), 3u);
  channels[1]->Ended({1, 1, 0}, false);
  EXPECT_FALSE(Begin(2, 2));
  channels[2]->Say(GaveUp{"now"});
  EXPECT_TRUE(Begin(2, 3)) << "it has more to hear";
}

TEST_F(WordChannelTest, ForRanksThatNobodyWaitsForTheCarrierIsWoken) {
  channels[2]->Say(Joined());
  channels[2]->Flush();
  EXPECT_TRUE(Begin(1, 1));
  channels[2]->Ended({9, 1, 0}, true);
  EXPECT_FALSE(Begin(1, 2));
  channels[2]->Say(Leaves());
  channels[2]->Flush();
  EXPECT_TRUE(Begin(1, 3));
}

TEST_F(WordChannelTest, AnErrorThatIsKeptIsFetched) {
  channels[2]->Say(GaveUp{"why"});
  channels[2]->Flush();
  keeps_errors = true;
  Hear(0);
  EXPECT_TRUE(Begin(1, 1));
  channels[2]->Say(GaveUp{"again"});
  channels[2]->Flush();
  keeps_errors = false;
  Hear(0);
  EXPECT_FALSE(Begin(1, 2));
}

// The carrier sleeps through the words that fill the ring.
TEST_F(WordChannelTest, AFullRingWakesTheCarrier) {
  bool woken = false;
  for (TensorId tensor = 1; !woken; ++tensor) {
    ASSERT_LT(tensor, kWordRingBytes);
    const uint32_t before = windows[0]->Events();
    LocalFacts facts;
    facts.ranks = 0b111;
    channels[1]->Say(Begun{{tensor, 1, 0}, facts, {}});
    const bool fits = channels[1]->Flush();
    woken = windows[0]->Events() != before;
    EXPECT_EQ(woken, !fits);
  }
}

}  // namespace
}  // namespace byteps::machine
