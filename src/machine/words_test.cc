#include "src/machine/words.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace byteps::machine {
namespace {

RoundFacts Facts() {
  RoundFacts facts;
  facts.ranks = 0b1011;
  facts.how = Combine::kMax;
  facts.type = DataType::kBfloat16;
  facts.root = 3;
  facts.priority = -7;
  facts.order = 12;
  facts.pieces = {{3, 64}, {1, 17}};
  return facts;
}

UpwardFacts Upward() {
  UpwardFacts facts;
  facts.name = "w";
  facts.ranks = 0b101;
  facts.how = Combine::kOverlay;
  facts.type = DataType::kInt64;
  facts.codec = 2;
  facts.process_set = 9;
  facts.root = 4;
  facts.priority = -3;
  facts.order = 8;
  facts.atomic = true;
  facts.others_wait = true;
  facts.pieces = {{2, 64, 8, 16, 0, 64}, {1, 24, 0, 0, 8, 16}};
  facts.homes = {1, 0, 1};
  return facts;
}

constexpr RoundKey kRoundOfWords = {5, uint64_t{1} << 41, 1};

template <typename Kind>
Kind Back(const Kind& word) {
  Result<Word> back = DecodeWord(EncodeWord(word));
  EXPECT_TRUE(back.ok()) << back.status().ToString();
  return std::get<Kind>(back.value());
}

TEST(Words, ComeBackAsTheyWere) {
  Begun begun = Back(Begun{kRoundOfWords, Facts(), 5, {3, 8, 16}});
  EXPECT_EQ(begun.key, kRoundOfWords);
  EXPECT_EQ(begun.facts, Facts());
  EXPECT_EQ(begun.operations, 5u);
  EXPECT_EQ(begun.part, (SmallPart{3, 8, 16}));
  Combined combined = Back(Combined{kRoundOfWords, 0b1001});
  EXPECT_EQ(combined.key, kRoundOfWords);
  EXPECT_EQ(combined.ranks, 0b1001u);
  Abort abort = Back(Abort{kRoundOfWords, Status(StatusCode::kDeadlineExceeded, "too late")});
  EXPECT_EQ(abort.key, kRoundOfWords);
  EXPECT_EQ(abort.why, Status(StatusCode::kDeadlineExceeded, "too late"));
  EXPECT_EQ(Back(GaveUp{"no memory"}).why, "no memory");
  Status error(StatusCode::kPeerLost, "worker 1");
  Failed failed = Back(Failed{kRoundOfWords, error});
  EXPECT_EQ(failed.key, kRoundOfWords);
  EXPECT_EQ(failed.status, error);
  EXPECT_EQ(Back(JobOver{error}).status, error);
  BegunUpward upward = Back(BegunUpward{kRoundOfWords, Upward(), 8, 16, 7});
  EXPECT_EQ(upward.key, kRoundOfWords);
  EXPECT_EQ(upward.facts, Upward());
  EXPECT_EQ(upward.push_offset, 8u);
  EXPECT_EQ(upward.push_bytes, 16u);
  EXPECT_EQ(upward.operations, 7u);
  EXPECT_EQ(Back(JoinedUpward{3}).number, 3u);
  SetAdded added = Back(SetAdded{4, {0, 2}, {1, 5}});
  EXPECT_EQ(added.number, 4u);
  EXPECT_EQ(added.slots, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(added.ranks, (std::vector<uint32_t>{1, 5}));
  EXPECT_EQ(Back(SetRemoved{4}).number, 4u);
  EXPECT_EQ(Back(Retired{{7, 8}}).tensors, (std::vector<TensorId>{7, 8}));
  EXPECT_EQ(Back(AsksSettled{11}).question, 11u);
  EXPECT_EQ(Back(IsSettled{11}).question, 11u);
  Ended ended = Back(Ended{kRoundOfWords, Status::Ok(), {0, 2}, true});
  EXPECT_TRUE(ended.status.ok());
  EXPECT_EQ(ended.receipt, (std::vector<uint32_t>{0, 2}));
  EXPECT_TRUE(ended.mixed);
  EXPECT_EQ(Back(Ended{kRoundOfWords, error, {}, false}).status, error);
  Back(Joined());
  Back(Leaves());
  Back(MayLeave());
  Back(CarrierLeaves());
  wire::Message message = wire::Declare{"w", 1, wire::TensorSpec(), 4};
  EXPECT_EQ(Back(message), message);
}

TEST(Words, WhatIsNoneIsRefused) {
  std::vector<Word> words = {Begun{kRoundOfWords, Facts(), 0, {3, 8, 16}},
                             Combined{kRoundOfWords, 0b1001},
                             Abort{kRoundOfWords, Status(StatusCode::kDeadlineExceeded, "why")},
                             BegunUpward{kRoundOfWords, Upward(), 8, 16},
                             SetAdded{4, {0, 2}, {1, 5}},
                             Ended{kRoundOfWords, Status::Ok(), {0, 2}, true},
                             Failed{kRoundOfWords, Status(StatusCode::kPeerLost, "text")}};
  for (const Word& word : words) {
    std::vector<std::byte> packet = EncodeWord(word);
    for (size_t bytes = 0; bytes < packet.size(); ++bytes) {
      EXPECT_FALSE(DecodeWord(ConstByteSpan(packet).first(bytes)).ok()) << bytes;
    }
    packet.push_back(std::byte{0});
    EXPECT_FALSE(DecodeWord(packet).ok());
  }
}

TEST(Words, RandomBytesHarmNothing) {
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> packet(random() % 80);
    for (std::byte& one : packet) one = static_cast<std::byte>(random());
    if (!packet.empty())
      packet[0] = static_cast<std::byte>(random() % (std::variant_size_v<Word> + 1));
    (void)DecodeWord(packet);
  }
}

}  // namespace
}  // namespace byteps::machine
