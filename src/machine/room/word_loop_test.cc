#include "src/machine/room/word_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/machine/machine_for_test.h"

namespace byteps::machine {
namespace {

class WordLoopTest : public testing::Test {
 protected:
  WindowForTest window{{.ranks = 2, .blocks = 2, .block_bytes = 64}};
  int to_do = 0;
  std::string order;
  WordLoop loop{window.of(0), {[this] { return to_do > 0 && to_do-- > 0; }, [] { return false; }}};
};

TEST_F(WordLoopTest, RunsWhatOtherThreadsPostInItsOrderAndOnItsOwnThread) {
  std::thread running([this] { loop.Run(); });
  std::promise<bool> inside;
  loop.Post([this] { order += "a"; });
  loop.Post([this] { order += "b"; });
  loop.Post([&] { inside.set_value(loop.InLoop()); });
  EXPECT_TRUE(inside.get_future().get());
  EXPECT_FALSE(loop.InLoop());
  loop.Stop();
  running.join();
  EXPECT_EQ(order, "ab");
}

TEST_F(WordLoopTest, StepsUntilThereIsNothingToDo) {
  to_do = 5;
  loop.Stop();
  loop.Run();
  EXPECT_EQ(to_do, 0);
}

TEST_F(WordLoopTest, AnEventOfAnotherRankIsFollowedByAStep) {
  std::promise<void> stepped;
  bool told = false;
  WordLoop other(window.of(1), {[&] {
                                  bool now = window.of(1).left() != 0;
                                  if (now && !std::exchange(told, true)) stepped.set_value();
                                  return false;
                                },
                                nullptr});
  std::thread running([&] { other.Run(); });
  window.of(0).Leave();
  window.of(0).Notify(0b10);
  stepped.get_future().get();
  other.Stop();
  running.join();
}

TEST_F(WordLoopTest, WhatATurnHasDoneInTheWindowWakesOthersBehindIt) {
  std::promise<void> seen;
  bool told = false;
  std::atomic<bool> has_looked{false};
  WordLoop other(window.of(1), {[&] {
                                  bool now = window.of(1).NextAfter(0).value().has_value();
                                  if (now && !std::exchange(told, true)) seen.set_value();
                                  has_looked = true;
                                  return false;
                                },
                                nullptr});
  std::thread sleeping([&] { other.Run(); });
  std::thread running([this] { loop.Run(); });
  while (!has_looked) std::this_thread::yield();
  loop.Post([this] {
    local::BlockUse use;
    use.ranks = use.bring = 0b11;
    use.bytes = 64;
    EXPECT_TRUE(window.of(0).Admit(use).has_value());
  });
  EXPECT_EQ(seen.get_future().wait_for(seconds(60)), std::future_status::ready);
  for (WordLoop* one : {&loop, &other}) one->Stop();
  sleeping.join();
  running.join();
}

// A loop that comes to its timers late rings them all the same: the test ends when all have rung.
TEST_F(WordLoopTest, TimersRingInTheirOrderAndNotWhenTheyAreGone) {
  int rings = 0;
  auto stop_at_the_end = [&] {
    if (order == "ac" && rings == 3) loop.Stop();
  };
  auto late = loop.After(milliseconds(20), [&] {
    order += "c";
    stop_at_the_end();
  });
  auto never = loop.After(milliseconds(1), [this] { order += "x"; });
  auto early = loop.After(milliseconds(2), [this] { order += "a"; });
  never.reset();
  std::unique_ptr<transport::Loop::Timer> again;
  again = loop.Every(milliseconds(1), [&] {
    if (++rings == 3) again.reset();  // from inside
    stop_at_the_end();
  });
  auto too_late = loop.After(seconds(20), [this] { loop.Stop(); });
  loop.Run();
  EXPECT_EQ(order, "ac");
  EXPECT_EQ(rings, 3);
}

TEST_F(WordLoopTest, WhatIsOfferedRunsOnceWhoeverRunsIt) {
  std::thread running([this] { loop.Run(); });
  int runs = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int time = 0; time < 1000; ++time) {
        loop.Offer([&] {
          loop.Post([&] {
            EXPECT_TRUE(loop.InLoop());
            ++runs;  // one thread at a time
          });
        });
      }
    });
  }
  for (std::thread& one : threads) one.join();
  loop.Stop();
  running.join();
  EXPECT_EQ(runs, 4000);
}

// Some work has to wait while the loop is lent, and may be done in the loop's own turn.
TEST_F(WordLoopTest, TheLoopIsLentOnlyWhileAnotherThreadRunsIt) {
  std::thread running([this] { loop.Run(); });
  std::atomic<bool> was_lent = false;
  for (int i = 0; i < 1000000 && !was_lent; ++i) {
    loop.Offer([&] { loop.Post([&] { was_lent = was_lent || loop.IsLent(); }); });
  }
  EXPECT_TRUE(was_lent);
  std::promise<bool> is_lent;
  loop.Post([&] { is_lent.set_value(loop.IsLent()); });
  EXPECT_FALSE(is_lent.get_future().get());
  loop.Stop();
  running.join();
}

TEST_F(WordLoopTest, ATimerOfWhatIsOfferedRingsInTime) {
  auto late = loop.After(seconds(1000), [] {});
  std::promise<void> rung;
  std::unique_ptr<transport::Loop::Timer> timer;
  std::thread running([this] { loop.Run(); });
  for (int i = 0; i < 3; ++i) loop.Offer([&] { loop.Post([] {}); });
  loop.Offer(
      [&] { loop.Post([&] { timer = loop.After(milliseconds(1), [&] { rung.set_value(); }); }); });
  rung.get_future().get();
  loop.Stop();
  running.join();
}

TEST_F(WordLoopTest, WhatIsThrownOnAnotherThreadEndsTheLoop) {
  std::promise<void> begun;
  loop.Post([&] { begun.set_value(); });
  std::thread running([this] { EXPECT_THROW(loop.Run(), std::bad_alloc); });
  begun.get_future().get();
  loop.Offer([this] { loop.Post([] { throw std::bad_alloc(); }); });
  running.join();
}

// Posts from another thread each time while this thread waits; and then while no thread waits.
TEST_F(WordLoopTest, WhoWaitsDoesTheWorkMeanwhileAndTheLoopsThreadAfterwards) {
  std::thread running([this] { loop.Run(); });
  int runs_here = 0;
  std::atomic<int> runs{0};
  for (int time = 0; time < 1000; ++time) {
    std::thread posting;
    auto post = [&, here = std::this_thread::get_id()] {
      loop.Post([&, here] {
        if (std::this_thread::get_id() == here) ++runs_here;
        runs.fetch_add(1);
        runs.notify_all();
      });
    };
    if (time % 10 == 0) {
      post();
    } else {
      loop.Help(
          [&] {
            if (!posting.joinable()) posting = std::thread(post);
            return runs.load() > time;
          },
          Time::max());
      if (!posting.joinable()) post();
    }
    runs.wait(time);  // Help may have returned early
    if (posting.joinable()) posting.join();
  }
  loop.Stop();
  running.join();
  EXPECT_EQ(runs.load(), 1000);
  EXPECT_GT(runs_here, 0);
}

TEST_F(WordLoopTest, WhoHelpsComesBackAtTheDeadlineAndWhenTheLoopEnds) {
  auto never = [] { return false; };
  loop.Help(never, Time::max());  // nothing runs yet
  std::promise<void> begun;
  loop.Post([&] { begun.set_value(); });
  std::thread running([this] { loop.Run(); });
  begun.get_future().get();
  loop.Help(never, loop.Now() + milliseconds(1));
  bool asked = false;
  std::thread stopping;
  loop.Help(
      [&] {
        if (!std::exchange(asked, true)) stopping = std::thread([this] { loop.Stop(); });
        return false;
      },
      Time::max());
  if (stopping.joinable()) stopping.join();
  loop.Stop();  // if the loop's own thread was at work, nobody was asked
  running.join();
  loop.Help(never, Time::max());
}

TEST_F(WordLoopTest, AHelpersTimerRingsInTime) {
  std::promise<void> begun;
  std::unique_ptr<transport::Loop::Timer> timer;
  std::atomic<bool> rung{false};
  loop.Post([&] {
    timer = loop.After(milliseconds(20), [&] { rung.store(true); });
    begun.set_value();
  });
  std::thread running([this] { loop.Run(); });
  begun.get_future().get();
  while (!rung.load()) loop.Help([&] { return rung.load(); }, Time::max());
  loop.Stop();
  running.join();
}

// The loop's own thread sleeps for longer than the timer.
TEST_F(WordLoopTest, ATimerThatAHelperHasBegunRingsInTimeWhenTheHelperIsGone) {
  auto late = loop.After(seconds(1000), [] {});
  std::promise<void> begun;
  std::promise<void> rung;
  std::unique_ptr<transport::Loop::Timer> timer;
  loop.Post([&] { begun.set_value(); });
  std::thread running([this] { loop.Run(); });
  begun.get_future().get();
  std::atomic<bool> done{false};
  std::thread posting;
  loop.Help(
      [&] {
        if (posting.joinable()) return done.load();
        posting = std::thread([&] {
          loop.Post([&] {
            timer = loop.After(milliseconds(1), [&] { rung.set_value(); });
            done.store(true);
          });
        });
        return false;
      },
      Time::max());
  if (!posting.joinable()) {  // the loop's own thread was at work
    loop.Post([&] { timer = loop.After(milliseconds(1), [&] { rung.set_value(); }); });
  }
  rung.get_future().get();
  if (posting.joinable()) posting.join();
  loop.Stop();
  running.join();
}

TEST_F(WordLoopTest, HasNoConnections) {
  EXPECT_EQ(loop.Listen("127.0.0.1:0", nullptr).status().code(), StatusCode::kUnavailable);
  StatusCode code = StatusCode::kOk;
  loop.Connect("127.0.0.1:1", seconds(1), [&](auto result) {
    code = result.status().code();
    loop.Stop();
  });
  loop.Run();
  EXPECT_EQ(code, StatusCode::kUnavailable);
}

}  // namespace
}  // namespace byteps::machine
