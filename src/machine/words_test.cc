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

constexpr RoundKey kKey = {5, uint64_t{1} << 41, 1};

template <typename Kind>
Kind Back(const Kind& word) {
  Result<Word> back = DecodeWord(EncodeWord(word));
  EXPECT_TRUE(back.ok()) << back.status().ToString();
  return std::get<Kind>(back.value());
}

TEST(Words, ComeBackAsTheyWere) {
  Begun begun = Back(Begun{kKey, Facts()});
  EXPECT_EQ(begun.key, kKey);
  EXPECT_EQ(begun.facts, Facts());
  Abort abort = Back(Abort{kKey, "too late"});
  EXPECT_EQ(abort.key, kKey);
  EXPECT_EQ(abort.why, "too late");
  EXPECT_EQ(Back(GaveUp{"no memory"}).why, "no memory");
  Status error(StatusCode::kPeerLost, "worker 1");
  Failed failed = Back(Failed{kKey, error});
  EXPECT_EQ(failed.key, kKey);
  EXPECT_EQ(failed.status, error);
  EXPECT_EQ(Back(JobOver{error}).status, error);
  Back(Joined());
  Back(Leaves());
  Back(MayLeave());
  Back(CarrierLeaves());
  wire::Message message = wire::Declare{"w", 1, wire::TensorSpec(), 4};
  EXPECT_EQ(Back(message), message);
}

TEST(Words, WhatIsNoneIsRefused) {
  std::vector<Word> words = {Begun{kKey, Facts()}, Abort{kKey, "why"},
                             Failed{kKey, Status(StatusCode::kPeerLost, "text")}};
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
    if (!packet.empty()) packet[0] = static_cast<std::byte>(random() % 11);
    (void)DecodeWord(packet);
  }
}

}  // namespace
}  // namespace byteps::machine
