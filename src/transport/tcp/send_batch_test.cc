#include "src/transport/tcp/send_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace byteps::transport {
namespace {

class SendBatchTest : public ::testing::Test {
 protected:
  void Push(const std::string& header, size_t payload_bytes = 0, int64_t urgency = 0) {
    OutFrame frame;
    frame.header_bytes = static_cast<uint32_t>(header.size());
    std::memcpy(frame.header, header.data(), header.size());
    frame.payload = ConstByteSpan(payload_).first(payload_bytes);
    frame.urgency = urgency;
    queue_.Push(std::move(frame));
  }

  // Writes at most `bytes` and returns them as text.
  std::string Write(size_t bytes, size_t parts_max = 255) {
    std::vector<iovec> parts(parts_max);
    std::vector<const BufferRef*> keeps(parts_max);
    auto gathered = batch_.Gather(parts, keeps, bytes);
    EXPECT_LE(gathered.bytes, bytes);
    std::string text;
    for (size_t i = 0; i < gathered.parts; ++i) {
      text.append(static_cast<char*>(parts[i].iov_base), parts[i].iov_len);
    }
    EXPECT_EQ(text.size(), gathered.bytes);
    batch_.Written(gathered.bytes);
    return text;
  }

  // Returns the one-letter headers in the order in which they leave.
  std::string Order(const std::string& stream) {
    std::string order;
    std::copy_if(stream.begin(), stream.end(), std::back_inserter(order),
                 [](char c) { return c >= 'a' && c <= 'z'; });
    return order;
  }

  std::vector<std::byte> payload_ = std::vector<std::byte>(100000, std::byte{'.'});
  FrameQueue queue_;
  SendBatch batch_{queue_};
};

constexpr size_t kSmall = kFramePrefixBytes + 1;  // a frame with a one-letter header

TEST_F(SendBatchTest, UrgentFramesLeaveFirstEqualOnesInOrder) {
  for (auto [header, urgency] : {std::pair{"a", 0}, {"b", 7}, {"c", -1}, {"d", 7}, {"e", 0}}) {
    Push(header, 0, urgency);
  }
  EXPECT_EQ(Order(Write(1000)), "bdaec");
  EXPECT_TRUE(batch_.empty());
  EXPECT_EQ(batch_.bytes(), 0u);
}

TEST_F(SendBatchTest, AFrameThatHasBegunStaysFirst) {
  Push("a", 1000);
  Push("b", 1000);
  EXPECT_EQ(Order(Write(500)), "a");
  EXPECT_EQ(batch_.bytes(), 2 * (kSmall + 1000) - 500);
  Push("z", 0, 9);
  std::string rest = Write(100000);
  EXPECT_EQ(Order(rest), "zb");
  EXPECT_EQ(rest.find('z'), kSmall + 1000 - 500 + kFramePrefixBytes);
}

TEST_F(SendBatchTest, FramesThatWereGatheredButNotBegunGiveWay) {
  Push("a", 1000);
  Push("b", 1000);
  Push("c", 1000);
  std::vector<iovec> parts(16);
  std::vector<const BufferRef*> keeps(16);
  batch_.Gather(parts, keeps, 100000);
  batch_.Written(10);  // the kernel took the beginning of "a" only
  Push("z", 0, 9);
  Push("d", 0, 0);
  EXPECT_EQ(Order(Write(100000)), "zbcd");
}

TEST_F(SendBatchTest, APayloadIsNamedWithTheBufferThatKeepsIt) {
  BufferPool pool;
  OutFrame frame;
  frame.header_bytes = 1;
  frame.keep = pool.Take(100);
  frame.payload = ConstByteSpan(frame.keep.data(), 100);
  queue_.Push(std::move(frame));
  Push("a", 10);
  iovec parts[8];
  const BufferRef* keeps[8];
  ASSERT_EQ(batch_.Gather(parts, keeps, 1000).parts, 4u);
  EXPECT_EQ(keeps[0], nullptr);
  ASSERT_NE(keeps[1], nullptr);
  EXPECT_EQ(keeps[1]->data(), parts[1].iov_base);
  EXPECT_EQ(keeps[2], nullptr);
  EXPECT_EQ(keeps[3], nullptr);
  batch_.Clear();
}

TEST_F(SendBatchTest, FewPartsAreEnough) {
  for (int i = 0; i < 10; ++i) Push("a", 10);
  std::string stream;
  while (!batch_.empty()) {
    std::string some = Write(1000, 2);
    ASSERT_FALSE(some.empty());
    stream += some;
  }
  EXPECT_EQ(Order(stream), std::string(10, 'a'));
}

TEST_F(SendBatchTest, GatheringManyFramesNeedsFewCalls) {
  for (int i = 0; i < 1000; ++i) Push("a", 10);
  int calls = 0;
  for (; !batch_.empty(); ++calls) Write(1 << 20);
  EXPECT_LE(calls, 8);  // 127 frames of two parts each
}

TEST_F(SendBatchTest, AnyCutGivesTheSameBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 40; ++round) {
    std::string expected;
    for (int i = 0; i < 20; ++i) {
      size_t bytes = random() % 20 * 256;  // no byte of the prefix looks like a letter
      Push(std::string(1, static_cast<char>('a' + i)), bytes);
      expected += static_cast<char>('a' + i);
    }
    std::string stream;
    while (!batch_.empty()) stream += Write(random() % 3000 + 1, random() % 20 + 2);
    ASSERT_EQ(Order(stream), expected);
    ASSERT_EQ(batch_.bytes(), 0u);
  }
}

TEST_F(SendBatchTest, ClearGivesBuffersBack) {
  BufferPool pool;
  for (int i = 0; i < 3; ++i) {
    OutFrame frame{};
    frame.keep = pool.Take(1000);
    frame.payload = ConstByteSpan(frame.keep.data(), 1000);
    std::memset(frame.keep.data(), 0, 1000);
    queue_.Push(std::move(frame));
  }
  Write(1500);
  EXPECT_EQ(pool.bytes_in_use(), 2 * 1024u);
  batch_.Clear();
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  EXPECT_TRUE(batch_.empty());
  Push("a");
  EXPECT_EQ(Order(Write(1000)), "a");
}

}  // namespace
}  // namespace byteps::transport
