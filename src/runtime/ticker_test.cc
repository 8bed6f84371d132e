#include "src/runtime/ticker.h"

#include <gtest/gtest.h>

#include <deque>
#include <utility>

namespace byteps::runtime {
namespace {

// Runs nothing by itself, and its clock stands still.
class FakeLoop final : public transport::Loop {
 public:
  void Run() override {}
  void Stop() override {}
  void Post(std::function<void()> work) override { posted.push_back(std::move(work)); }
  bool InLoop() const override { return true; }
  Time Now() const override { return now; }
  std::unique_ptr<Timer> Every(Duration, std::function<void()>) override { return nullptr; }
  std::unique_ptr<Timer> After(Duration delay, std::function<void()> work) override {
    delays.push_back(delay);
    ring = std::move(work);
    return std::make_unique<Timer>();
  }
  Result<std::unique_ptr<transport::Listener>> Listen(
      const std::string&, std::function<void(std::unique_ptr<transport::Connection>)>) override {
    return Status(StatusCode::kUnavailable, "none");
  }
  void Connect(const std::string&, Duration,
               std::function<void(Result<std::unique_ptr<transport::Connection>>)>) override {}

  void RunPosted() {
    for (; !posted.empty(); posted.pop_front()) posted.front()();
  }

  Time now{};
  std::deque<std::function<void()>> posted;
  std::vector<Duration> delays;
  std::function<void()> ring;
};

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
