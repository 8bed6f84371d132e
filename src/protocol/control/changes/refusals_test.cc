#include "src/protocol/control/changes/refusals.h"

#include <gtest/gtest.h>

#include <string>

namespace byteps::protocol {
namespace {

Refusal Stranger(const std::string& port, const std::string& why = "it differs") {
  return {"10.0.0.3:" + port + " (server)", "10.0.0.3 (server)", why, false};
}

Refusal Proven(const std::string& name) {
  return {name + " (process 42 on node)", name, "it is taken", true};
}

TEST(RefusalsTest, OneThatComesAgainAndAgainIsToldOnceWithItsLatestAddress) {
  Refusals refusals;
  EXPECT_EQ(refusals.Describe(), "");
  EXPECT_TRUE(refusals.Note(Stranger("1")));
  EXPECT_FALSE(refusals.Note(Stranger("2")));
  EXPECT_EQ(refusals.Describe(), "; refused 10.0.0.3:2 (server): it differs");
  EXPECT_TRUE(refusals.Note(Stranger("3", "it differs elsewhere")));
  refusals.Forget();
  EXPECT_EQ(refusals.Describe(), "");
  EXPECT_TRUE(refusals.Note(Stranger("4")));
}

TEST(RefusalsTest, TheLatestFourAreKept) {
  Refusals refusals;
  for (int i = 0; i < 6; ++i) refusals.Note(Proven("worker " + std::to_string(i)));
  std::string text = refusals.Describe();
  EXPECT_EQ(text.find("worker 1"), std::string::npos) << text;
  size_t second = text.find("; refused worker 2 (process 42 on node): it is taken");
  EXPECT_NE(second, std::string::npos) << text;
  EXPECT_LT(second, text.find("worker 5"));
}

TEST(RefusalsTest, StrangersNeitherFloodNorPushOutWhoIsOfTheJob) {
  Refusals refusals;
  EXPECT_TRUE(refusals.Note(Proven("worker 0")));
  int told = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string why = std::to_string(i) + std::string(10000, 'x');
    told += refusals.Note(Stranger("1", why)) ? 1 : 0;
  }
  EXPECT_LE(told, 16);
  std::string text = refusals.Describe();
  EXPECT_NE(text.find("worker 0"), std::string::npos) << text;
  EXPECT_NE(text.find("999x"), std::string::npos) << text;
  EXPECT_LT(text.size(), 2000u);
  EXPECT_TRUE(refusals.Note(Proven("worker 1")));
  for (int i = 2; i < 4; ++i) refusals.Note(Proven("worker " + std::to_string(i)));
  refusals.Note(Stranger("1", "another reason"));
  EXPECT_EQ(refusals.Describe().find("10.0.0.3"), std::string::npos) << refusals.Describe();
}

TEST(RefusalsTest, ACutTextEndsWithAWholeCharacter) {
  Refusals refusals;
  std::string long_text = "a";
  while (long_text.size() < 1000) long_text += "\u00e4";
  refusals.Note(Stranger("1", long_text));
  std::string text = refusals.Describe();
  EXPECT_TRUE(text.ends_with("\u00e4...")) << text;
}

TEST(RefusalsTest, OnlyATextThatIsTooLongIsCut) {
  Refusals refusals;
  refusals.Note(Stranger("1", std::string(240, 'x')));
  EXPECT_EQ(refusals.Describe().find("..."), std::string::npos);
  refusals.Note(Stranger("1", std::string(241, 'x')));
  EXPECT_NE(refusals.Describe().find("..."), std::string::npos);
}

}  // namespace
}  // namespace byteps::protocol
