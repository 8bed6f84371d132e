#include "src/runtime/ticker.h"

#include <gtest/gtest.h>

#include "src/runtime/fake_loop_for_test.h"

namespace byteps::runtime {
namespace {

class TickerTest : public testing::Test {
 protected:
  FakeLoop loop;
  std::optional<Time> due;
  int looks = 0;
  int ticks = 0;
  Ticker ticker{loop,
                [this] {
                  ++looks;
                  return due;
                },
                [this](Time) {
                  ++ticks;
                  due.reset();
                }};
};

TEST_F(TickerTest, ManyEventsAreFollowedByOneLook) {
  for (int i = 0; i < 100; ++i) ticker.Arm();
  EXPECT_EQ(looks, 0);
  loop.RunPosted();
  EXPECT_EQ(looks, 1);
  ticker.Arm();
  loop.RunPosted();
  EXPECT_EQ(looks, 2);
}

TEST_F(TickerTest, ATimerThatRingsTooEarlyOnlyLooksAgain) {
  due = loop.now + milliseconds(2);
  ticker.Arm();
  loop.RunPosted();
  due = loop.now + milliseconds(5);
  ticker.Arm();
  loop.RunPosted();
  ASSERT_EQ(loop.delays, std::vector<Duration>{milliseconds(2)}) << "it rings soon enough";
  loop.now += milliseconds(2);
  loop.ring();
  EXPECT_EQ(ticks, 0);
  ASSERT_EQ(loop.delays.size(), 2u);
  EXPECT_EQ(loop.delays[1], milliseconds(3));
  loop.now += milliseconds(3);
  loop.ring();
  EXPECT_EQ(ticks, 1);
  EXPECT_EQ(loop.delays.size(), 2u) << "there is nothing more to do";
}

}  // namespace
}  // namespace byteps::runtime
