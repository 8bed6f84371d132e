#include "src/wire/error_row.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "src/wire/hex_for_test.h"

namespace byteps::wire {
namespace {

Status Late(const std::string& text) { return {StatusCode::kDeadlineExceeded, text}; }

std::string TextOf(const ErrorRow& row, uint64_t round) {
  const Status* why = row.Of(round);
  return why == nullptr ? "none" : why->message();
}

TEST(ErrorRowTest, GoldenBytes) {
  ErrorRow row;
  row.Add(0x0102, Late("ab"));
  row.Add(0x0203, {StatusCode::kPeerLost, "c"});
  EXPECT_EQ(Hex(row.Encode(0x0203)),
            "0201000000000000"
            "06000000"
            "02000000"
            "6162"
            "0302000000000000"
            "04000000"
            "01000000"
            "63");
}

TEST(ErrorRowTest, EveryRoundKeepsItsOwnError) {
  ErrorRow row;
  row.Add(256, Late("first"));
  row.Add(512, Late("second"));
  row.Add(768, Late("second"));
  row.Add(1024, Late("third"));
  EXPECT_EQ(TextOf(row, 255), "none");
  EXPECT_EQ(TextOf(row, 256), "first");
  EXPECT_EQ(TextOf(row, 511), "first");
  EXPECT_EQ(TextOf(row, 768), "second");
  EXPECT_EQ(TextOf(row, 1024), "third");
  Result<ErrorRow> half = ErrorRow::Decode(row.Encode(768), 768);
  ASSERT_TRUE(half.ok());
  EXPECT_EQ(TextOf(half.value(), 256), "first");
  EXPECT_EQ(TextOf(half.value(), 1024), "second");
}

TEST(ErrorRowTest, ALongRowForgetsItsOldestTexts) {
  ErrorRow row;
  for (uint64_t round = 1; round <= 1000; ++round) row.Add(round, Late(std::to_string(round)));
  std::vector<std::byte> bytes = row.Encode(1000);
  EXPECT_LE(bytes.size(), kErrorRowBytesMax);
  EXPECT_EQ(TextOf(row, 1000), "1000");
  EXPECT_EQ(TextOf(row, 999), "999");
  EXPECT_EQ(TextOf(row, 0), "none");
  EXPECT_NE(TextOf(row, 1), "none") << "it ended in an error, whichever";
  EXPECT_TRUE(ErrorRow::Decode(bytes, 1000).ok());
}

TEST(ErrorRowTest, TheLongestRowThatFitsIsTakenWhole) {
  ErrorRow row;
  const std::string text(kErrorRowBytesMax / 4 - 17, 'x');
  for (uint64_t round = 1; round <= 4; ++round) row.Add(round, Late(text + std::to_string(round)));
  std::vector<std::byte> bytes = row.Encode(4);
  ASSERT_EQ(bytes.size(), kErrorRowBytesMax);
  EXPECT_TRUE(ErrorRow::Decode(bytes, 4).ok());
  EXPECT_EQ(TextOf(row, 1), text + "1") << "nothing had to be forgotten";
}

TEST(ErrorRowTest, ALongTextIsCutBetweenCharacters) {
  ErrorRow row;
  std::string text(kErrorTextBytesMax - 1, 'x');
  row.Add(1, Late(text + "\xc3\xa4"));
  EXPECT_EQ(TextOf(row, 1), text);
}

TEST(ErrorRowTest, WhatNoPeerSendsIsRefused) {
  ErrorRow row;
  row.Add(3, Late("why"));
  row.Add(5, Late("again"));
  std::vector<std::byte> good = row.Encode(5);
  ASSERT_TRUE(ErrorRow::Decode(good, 5).ok());
  EXPECT_FALSE(ErrorRow::Decode(good, 4).ok()) << "a later error than the verdict's own";
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    bool whole = bytes == row.Encode(3).size();
    EXPECT_EQ(ErrorRow::Decode(ConstByteSpan(good.data(), bytes), 5).ok(), whole) << bytes;
  }
  for (uint8_t code : {0, 200}) {
    std::vector<std::byte> bad = good;
    bad[8] = std::byte{code};
    EXPECT_FALSE(ErrorRow::Decode(bad, 5).ok()) << int{code};
  }
  std::vector<std::byte> twice = row.Encode(3);
  std::vector<std::byte> once = twice;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_FALSE(ErrorRow::Decode(twice, 5).ok());
}

// A short row is a map from rounds to errors.
RC_GTEST_PROP(ErrorRowTest, TellsEveryRoundWhatItWasGiven, ()) {
  auto steps = *rc::gen::container<std::vector<uint8_t>>(rc::gen::inRange<uint8_t>(0, 4));
  ErrorRow row;
  std::map<uint64_t, std::string> given;
  uint64_t round = 0;
  for (uint8_t step : steps) {
    round += 1 + step / 2;
    std::string text(1, static_cast<char>('a' + step % 2));
    row.Add(round, Late(text));
    given[round] = text;
  }
  RC_PRE(!given.empty() && given.size() <= 100);
  Result<ErrorRow> told = ErrorRow::Decode(row.Encode(round), round);
  RC_ASSERT(told.ok());
  for (const auto& [number, text] : given) RC_ASSERT(TextOf(told.value(), number) == text);
  RC_ASSERT(TextOf(told.value(), given.begin()->first - 1) == "none");
}

}  // namespace
}  // namespace byteps::wire
