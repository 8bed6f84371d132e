#include "src/base/ring_queue.h"

#include <memory>

#include <gtest/gtest.h>

namespace byteps {
namespace {

TEST(RingQueueTest, KeepsTheOrderWhileItGrowsInTheMiddleOfTheRing) {
  RingQueue<int> queue;
  int next = 0;
  int expected = 0;
  for (int rounds = 1; rounds < 100; ++rounds) {
    for (int i = 0; i < rounds; ++i) queue.push_back(next++);
    for (size_t i = 0; i < queue.size(); ++i) EXPECT_EQ(queue[i], expected + static_cast<int>(i));
    for (int i = 0; i < rounds / 2; ++i) {
      EXPECT_EQ(queue.front(), expected++);
      queue.pop_front();
    }
  }
}

TEST(RingQueueTest, LetsGoOfWhatIsTakenOut) {
  RingQueue<std::shared_ptr<int>> queue;
  const auto value = std::make_shared<int>(1);
  queue.push_back(value);
  queue.pop_front();
  EXPECT_EQ(value.use_count(), 1);
  EXPECT_TRUE(queue.empty());
}

TEST(RingQueueTest, WithRoomForAllItNeverMoves) {
  RingQueue<int> queue;
  queue.reserve(100);
  queue.push_back(0);
  const int* const first = &queue.front();
  for (int i = 1; i < 100; ++i) queue.push_back(i);
  EXPECT_EQ(&queue.front(), first);
  EXPECT_EQ(queue[99], 99);
}

}  // namespace
}  // namespace byteps
