#include "src/protocol/worker/lane/links.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace byteps::protocol {
namespace {

Links LinksUp(size_t shards) {
  Links links;
  links.Begin(shards);
  for (ShardId shard = 0; shard < shards; ++shard) links.OnUp(shard);
  return links;
}

// Urgent answers overtake others, so only the prefix without a gap counts as received.
RC_GTEST_PROP(LinksTest, WhatIsAcknowledgedHasNoGap, ()) {
  uint64_t count = *rc::gen::inRange<uint64_t>(1, 40);
  std::vector<uint64_t> numbers(count);
  for (uint64_t i = 0; i < count; ++i) numbers[i] = i + 1;
  for (uint64_t i = count; i > 1; --i) {
    std::swap(numbers[i - 1], numbers[*rc::gen::inRange<uint64_t>(0, i)]);
  }
  Links links = LinksUp(1);
  std::vector<bool> came(count + 2);
  uint64_t prefix = 0;
  for (uint64_t number : numbers) {
    came[number] = true;
    while (came[prefix + 1]) ++prefix;
    links.OnAnswer(0, number, 1, Time());
    RC_ASSERT(links.Received(0) == prefix);
  }
}

TEST(LinksTest, AnAcknowledgementIsOwedSinceTheFirstAnswerThatHasNone) {
  Links links = LinksUp(2);
  EXPECT_FALSE(links.OwesSince().has_value());
  links.OnAnswer(1, 1, 1, Time(milliseconds(1)));
  links.OnAnswer(0, 1, 1, Time(milliseconds(2)));
  links.OnAnswer(1, 2, 1, Time(milliseconds(3)));
  EXPECT_EQ(links.OwesSince(), Time(milliseconds(1)));
  EXPECT_EQ(links.OldestDebt(), 1U);
  EXPECT_EQ(links.Acknowledge(1), 2U);
  EXPECT_FALSE(links.Owes(1));
  EXPECT_EQ(links.OwesSince(), Time(milliseconds(2)));
  EXPECT_EQ(links.OldestDebt(), 0U);
  links.OnDown(0);
  EXPECT_FALSE(links.OwesSince().has_value()) << "nobody is there to be told";
}

TEST(LinksTest, AnAnswerIsStableWhenItsShardSaysSoOrALaterAnswerDoes) {
  Links links = LinksUp(1);
  links.OnAnswer(0, 1, 1, Time());
  links.Remember(0, {1, 7, 0, 256});
  links.OnAnswer(0, 2, 2, Time());
  links.Remember(0, {2, 7, 1, 256});
  EXPECT_FALSE(links.TakeStable(0).has_value());
  links.OnAnswer(0, 3, 2, Time());  // the latest two are unstable
  links.Remember(0, {3, 7, 2, 256});
  EXPECT_TRUE(links.IsStable(0, 1));
  EXPECT_EQ(links.TakeStable(0)->number, 1U);
  EXPECT_FALSE(links.TakeStable(0).has_value());
  links.OnStable(0, {3, 1}, 1);
  EXPECT_EQ(links.TakeStable(0)->number, 2U);
  EXPECT_EQ(links.TakeStable(0)->number, 3U);
  EXPECT_FALSE(links.TakeStable(0).has_value());
}

TEST(LinksTest, NewsOfALaterViewWaitsForIt) {
  Links links = LinksUp(1);
  links.OnAnswer(0, 1, 1, Time());
  links.OnStable(0, {1, 5}, 4);
  EXPECT_FALSE(links.IsStable(0, 1));
  links.TakePostponed(0, 4);
  EXPECT_FALSE(links.IsStable(0, 1));
  links.TakePostponed(0, 5);
  EXPECT_TRUE(links.IsStable(0, 1));
}

TEST(LinksTest, AnotherConnectionBeginsAnew) {
  Links links = LinksUp(1);
  links.OnAnswer(0, 1, 0, Time());
  links.Remember(0, {1, 7, 0, 256});
  links.OnUp(0);
  EXPECT_TRUE(links.IsUp(0));
  EXPECT_EQ(links.Received(0), 0U);
  EXPECT_FALSE(links.IsStable(0, 1));
  EXPECT_FALSE(links.Owes(0));
  EXPECT_FALSE(links.TakeStable(0).has_value());
  links.OnDown(0);
  EXPECT_FALSE(links.IsUp(0));
  EXPECT_FALSE(links.IsUp(9)) << "there is none with this number";
}

}  // namespace
}  // namespace byteps::protocol
