#include "src/session/call_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace byteps::session {
namespace {

TEST(CallGateTest, NobodyComesInOnceItIsShut) {
  CallGate gate;
  EXPECT_TRUE(gate.Enter());
  EXPECT_TRUE(gate.Enter());
  gate.Leave();
  gate.Leave();
  EXPECT_TRUE(gate.ClaimEnd());
  EXPECT_TRUE(gate.Enter()) << "the end has not come yet";
  gate.Leave();
  gate.Shut();
  EXPECT_FALSE(gate.Enter());
}

TEST(CallGateTest, ShutWaitsForWhoIsInside) {
  CallGate gate;
  ASSERT_TRUE(gate.Enter());
  std::atomic<bool> left = false;
  std::promise<void> refused;
  std::thread inside([&] {
    while (gate.Enter()) {  // until the other thread shuts it
      gate.Leave();
      std::this_thread::yield();
    }
    refused.set_value();
    left = true;
    gate.Leave();
  });
  gate.Shut();
  EXPECT_TRUE(left);
  refused.get_future().get();
  inside.join();
}

TEST(CallGateTest, OneEndsItAndTheOthersWaitForThat) {
  CallGate gate;
  std::atomic<int> claimed = 0;
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      if (gate.ClaimEnd()) {
        ++claimed;
        gate.Shut();
        over = true;
        gate.SetOver();
      }
      EXPECT_TRUE(over);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(claimed, 1);
}

}  // namespace
}  // namespace byteps::session
