#include "src/session/signal_thread.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>

namespace byteps::session {
namespace {

using std::chrono::seconds;

// Sends signals to this process; all threads of the test block them.
class SignalThreadTest : public ::testing::Test {
 protected:
  void Expect(int number) {
    std::promise<int> came;
    std::future<int> which = came.get_future();
    came_ = &came;
    ASSERT_EQ(kill(getpid(), number), 0);
    ASSERT_EQ(which.wait_for(seconds(60)), std::future_status::ready) << "signal " << number;
    EXPECT_EQ(which.get(), number);
  }

  std::atomic<std::promise<int>*> came_ = nullptr;
};

TEST_F(SignalThreadTest, EachSignalIsACall) {
  SignalThread signals([this](int number) { came_.load()->set_value(number); });
  Expect(SIGTERM);
  Expect(SIGINT);
  Expect(SIGTERM);
}

TEST_F(SignalThreadTest, NoOtherSignalEndsIt) {
  signal(SIGUSR1, SIG_IGN);
  signal(SIGUSR2, SIG_IGN);
  SignalThread signals([this](int number) { came_.load()->set_value(number); });
  kill(getpid(), SIGUSR1);
  kill(getpid(), SIGUSR2);
  Expect(SIGTERM);
}

TEST_F(SignalThreadTest, ItsEndIsNoSignalAndLeavesTheMaskAsItWas) {
  sigset_t before{};
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  int calls = 0;
  {
    SignalThread signals([&calls](int) { ++calls; });
  }
  sigset_t after{};
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
  EXPECT_EQ(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
}

}  // namespace
}  // namespace byteps::session
