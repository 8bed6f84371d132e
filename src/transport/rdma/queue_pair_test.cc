#include "src/transport/rdma/queue_pair.h"

#include <poll.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "src/transport/rdma/rdma_host_for_test.h"

namespace byteps::transport {
namespace {

class QueuePairTest : public testing::Test {
 protected:
  // Makes and connects both ends.
  void Connect(const QueuePairOptions& a = {}, const QueuePairOptions& b = {}) {
    const QueuePairOptions options[2] = {a, b};
    for (int i : {0, 1}) {
      auto made = QueuePair::Make(hosts_[i].parts(), hosts_[i].at, options[i], [this, i] {
        ++events_[i];
        if (on_event_[i]) on_event_[i]();
      });
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      pairs_[i] = std::move(made).value();
    }
    for (int i : {0, 1}) {
      ASSERT_TRUE(pairs_[i]->Connect(pairs_[1 - i]->own_offer()).ok());
    }
    for (int i : {0, 1}) {
      pairs_[i]->AddProbe();
      pairs_[i]->Flush();
    }
    ASSERT_TRUE(Until([&] {
      return A().probe_confirmed() && A().peer_probe_came() && B().probe_confirmed() &&
             B().peer_probe_came();
    }));
  }
  bool Until(const std::function<bool()>& condition) {
    return PollUntil(hosts_[0], hosts_[1], condition);
  }
  QueuePair& A() { return *pairs_[0]; }
  QueuePair& B() { return *pairs_[1]; }

  static void AddText(QueuePair& from, const std::string& head, const std::string& payload) {
    std::memcpy(from.NextHead().data(), head.data(), head.size());
    if (!payload.empty()) {
      std::memcpy(from.NextPayload().data(), payload.data(), payload.size());
    }
    from.Add(head.size(), payload.size());
  }
  static std::string TakeText(QueuePair& from) {
    const QueuePair::Message message = from.front();
    ConstByteSpan head = from.HeadBytesOf(message);
    std::string text(reinterpret_cast<const char*>(head.data()), head.size());
    ConstByteSpan payload = from.PayloadOf(message);
    text.append(reinterpret_cast<const char*>(payload.data()), payload.size());
    from.GiveBack();
    return text;
  }

  StandinLibrary library_;
  RdmaHost hosts_[2] = {RdmaHost(library_.verbs()), RdmaHost(library_.verbs())};
  std::unique_ptr<QueuePair> pairs_[2];
  int events_[2] = {};
  std::function<void()> on_event_[2];
};

TEST_F(QueuePairTest, MessagesComeWholeAndInOrder) {
  Connect();
  AddText(A(), "head", "and payload");
  AddText(A(), "only a head", "");
  AddText(A(), "", "only a payload");
  A().Flush();
  std::vector<std::string> texts;
  ASSERT_TRUE(Until([&] {
    while (B().HasMessage()) texts.push_back(TakeText(B()));
    return texts.size() == 3 && A().unconfirmed_bytes() == 0;
  }));
  EXPECT_EQ(texts[0], "headand payload");
  EXPECT_EQ(texts[1], "only a head");
  EXPECT_EQ(texts[2], "only a payload");
  EXPECT_EQ(library_.control().counts().messages, 5u) << "with the two probes";
  EXPECT_GT(events_[1], 0);
}

TEST_F(QueuePairTest, ABufferOfThePoolLeavesWithoutACopyAndComesInOne) {
  Connect();
  BufferRef buffer = hosts_[0].pool.Take(32768);
  std::memset(buffer.data(), 0x42, 32768);
  ConstByteSpan bytes(buffer.data(), 32768);
  ASSERT_TRUE(A().CanRefer(bytes));
  A().AddByReference(0, bytes, buffer);
  size_t in_use = hosts_[0].pool.bytes_in_use();
  buffer = BufferRef();
  EXPECT_EQ(hosts_[0].pool.bytes_in_use(), in_use) << "the queue pair keeps it";
  A().Flush();
  ASSERT_TRUE(Until([&] { return B().HasMessage() && A().unconfirmed_bytes() == 0; }));
  EXPECT_EQ(hosts_[0].pool.bytes_in_use(), in_use - 32768) << "and gives it back";
  BufferRef kept = B().LyingPayload();
  EXPECT_EQ(kept.data(), B().PayloadOf(B().front()).data());
  B().GiveAway();
  for (int i = 0; i < 100; ++i) {  // its slot has another buffer now
    AddText(A(), "", std::string(32768, 'x'));
    A().Flush();
    ASSERT_TRUE(Until([&] { return B().HasMessage(); }));
    TakeText(B());
    B().Flush();
    ASSERT_TRUE(Until([&] { return A().CanSend(); }));
  }
  EXPECT_EQ(kept.data()[0], std::byte{0x42});
  EXPECT_EQ(kept.data()[32767], std::byte{0x42});
  EXPECT_EQ(A().referred_messages(), 1u);
}

// A server at its limit goes on: it copies, and one payload at a time is enough.
TEST_F(QueuePairTest, WithoutMoreMemoryForTheDeviceItGoesOn) {
  Connect();
  std::vector<BufferRef> taken[2];
  for (int i : {0, 1}) {
    do {
      taken[i].push_back(hosts_[i].pool.Take(32768));
    } while (pairs_[i]->CanRefer({taken[i].back().data(), 32768}));
  }
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(Until([&] { return A().CanSend(); }));
    AddText(A(), "", std::string(32768, static_cast<char>('a' + round % 26)));
    EXPECT_FALSE(A().CanSend()) << "the only payload is on its way";
    A().Flush();
    ASSERT_TRUE(Until([&] { return B().HasMessage(); }));
    EXPECT_FALSE(B().LyingPayload()) << "its slot would have no buffer";
    EXPECT_EQ(B().PayloadOf(B().front())[32767], static_cast<std::byte>('a' + round % 26));
    B().GiveBack();
    B().Flush();
  }
  EXPECT_TRUE(A().status().ok() && B().status().ok());
}

// Pieces came over TCP before the first connection over RDMA was made.
TEST_F(QueuePairTest, BuffersFromBeforeTheFirstDeviceAreNotInTheWay) {
  for (RdmaHost& host : hosts_) {
    BufferRef before = host.pool.Take(32768);
    EXPECT_FALSE(host.memory.KeyOf(before.data(), 1, *host.device).has_value());
  }
  Connect();
}

TEST_F(QueuePairTest, MemoryOfOthersCannotBeReferredTo) {
  Connect();
  std::vector<std::byte> own(32768);
  EXPECT_FALSE(A().CanRefer(own));
  BufferRef of_the_other = hosts_[1].pool.Take(32768);
  EXPECT_FALSE(A().CanRefer({of_the_other.data(), 32768}));
}

// Both ends send all the time, with delays, and give back when they like: the stand-in counts
// messages without a slot, and none may be.
TEST_F(QueuePairTest, NoMessageLacksASlotInBothDirectionsAtOnce) {
  for (uint32_t slots : {4U, 5U, 16U}) {
    QueuePairOptions few;
    few.slots = slots;
    few.slot_bytes = 4096;
    QueuePairOptions more = few;
    more.slots = slots + 3;
    more.slot_bytes = 8192;
    Connect(few, more);
    library_.control().Delay(slots, 100);
    std::mt19937 random(slots);
    size_t sent[2] = {};
    size_t got[2] = {};
    constexpr size_t kCount = 150;
    ASSERT_TRUE(Until([&] {
      for (int i : {0, 1}) {
        while (pairs_[i]->CanSend() && sent[i] < kCount) {
          AddText(*pairs_[i], std::to_string(sent[i]++), std::string(random() % 4096, 'x'));
        }
        while (pairs_[i]->HasMessage() && random() % 3 != 0) {
          EXPECT_EQ(TakeText(*pairs_[i]).substr(0, std::to_string(got[i]).size()),
                    std::to_string(got[i]));
          ++got[i];
        }
        pairs_[i]->Flush();
      }
      return got[0] == kCount && got[1] == kCount && A().unconfirmed_bytes() == 0 &&
             B().unconfirmed_bytes() == 0;
    }));
    EXPECT_TRUE(A().status().ok()) << A().status().ToString();
    library_.control().Delay(0, 0);
    for (auto& pair : pairs_) pair.reset();
  }
}

TEST_F(QueuePairTest, WhatTheDeviceFailsIsSaid) {
  Connect();
  library_.control().FailMessage(1, 12);
  AddText(A(), "lost", "");
  A().Flush();
  ASSERT_TRUE(Until([&] { return !A().status().ok(); }));
  EXPECT_EQ(A().status().code(), StatusCode::kUnavailable);
  EXPECT_NE(A().status().message().find("error 12"), std::string::npos);
  EXPECT_FALSE(A().CanSend());
  A().Flush();
}

TEST_F(QueuePairTest, APeerThatIsGoneIsNotFoundByTheSilence) {
  Connect();
  pairs_[1].reset();
  AddText(A(), "to nobody", "");
  A().Flush();
  ASSERT_TRUE(Until([&] { return !A().status().ok(); })) << "the retries end some day";
  EXPECT_EQ(A().status().code(), StatusCode::kUnavailable);
}

TEST_F(QueuePairTest, ADeviceThatDiesEndsItsQueuePairs) {
  Connect();
  library_.control().KillDevice(0);
  ASSERT_TRUE(Until([&] { return !A().status().ok() && !B().status().ok(); }));
  EXPECT_NE(A().status().message().find("standin0"), std::string::npos);
}

TEST_F(QueuePairTest, ASecondNonceOrOneOfSomebodyElseIsRefused) {
  for (int i : {0, 1}) {
    pairs_[i] = QueuePair::Make(hosts_[i].parts(), hosts_[i].at, {}, [] {}).value();
  }
  Offer forged = B().own_offer();
  forged.nonce ^= 1;
  ASSERT_TRUE(A().Connect(forged).ok());
  ASSERT_TRUE(B().Connect(A().own_offer()).ok());
  A().AddProbe();
  A().Flush();
  ASSERT_TRUE(Until([&] { return !B().status().ok(); }));
  EXPECT_EQ(B().status().code(), StatusCode::kProtocol);
  EXPECT_NE(B().status().message().find("nonce"), std::string::npos);
}

TEST_F(QueuePairTest, WhatTheSystemRefusesIsSaidAndLeavesNothing) {
  library_.control().LimitQueuePairs(0);
  auto none = QueuePair::Make(hosts_[0].parts(), hosts_[0].at, {}, [] {});
  EXPECT_EQ(none.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(none.status().message().find("standin0 gives no queue pair"), std::string::npos);
  library_.control().LimitQueuePairs(SIZE_MAX);
  RdmaHost small(library_.verbs(), RegisteredMemory::kSlabBytes);
  QueuePairOptions large;
  large.slot_bytes = kSlotBytesMax;
  auto no_room = QueuePair::Make(small.parts(), small.at, large, [] {});
  EXPECT_EQ(no_room.status().code(), StatusCode::kExhausted);
  EXPECT_TRUE(QueuePair::Make(hosts_[0].parts(), hosts_[0].at, {}, [] {}).ok());
}

TEST_F(QueuePairTest, ManyQueuePairsShareAWatchAndLeaveItOneByOne) {
  Connect();
  std::unique_ptr<QueuePair> others[2][8];
  for (int i = 0; i < 8; ++i) {
    for (int end : {0, 1}) {
      others[end][i] = QueuePair::Make(hosts_[end].parts(), hosts_[end].at, {}, [] {}).value();
    }
    for (int end : {0, 1}) {
      ASSERT_TRUE(others[end][i]->Connect(others[1 - end][i]->own_offer()).ok());
    }
    AddText(*others[0][i], "number " + std::to_string(i), "");
    others[0][i]->Flush();
  }
  for (int i = 0; i < 8; ++i) {
    if (i % 2 == 0) {  // perhaps with a completion that nobody has polled
      others[0][i].reset();
      others[1][i].reset();
      continue;
    }
    ASSERT_TRUE(Until([&] { return others[1][i]->HasMessage(); }));
    EXPECT_EQ(TakeText(*others[1][i]), "number " + std::to_string(i));
  }
  AddText(A(), "still here", "");
  A().Flush();
  ASSERT_TRUE(Until([&] { return B().HasMessage(); }));
  EXPECT_EQ(TakeText(B()), "still here");
}

TEST_F(QueuePairTest, TheWatchWakesASleeper) {
  Connect();
  hosts_[1].watch->Wake();
  // tidy-allow(sleep): it gives the device time for a mistake.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  hosts_[1].watch->Wake();
  AddText(A(), "wakes", "");
  A().Flush();
  pollfd sleeper{hosts_[1].watch->fd(), POLLIN, 0};
  ASSERT_EQ(poll(&sleeper, 1, 30000), 1);
  hosts_[1].watch->Wake();
  ASSERT_TRUE(B().HasMessage());
  EXPECT_EQ(TakeText(B()), "wakes");
  EXPECT_EQ(poll(&sleeper, 1, 0), 0) << "it sleeps again";
}

// Nobody polls before the next wake, so a message that comes while the watch is busy must wake it.
TEST_F(QueuePairTest, AMessageThatComesWhileTheWatchTellsWakesItAgain) {
  Connect();
  hosts_[1].watch->Wake();
  AddText(A(), "first", "");
  A().Flush();
  pollfd sleeper{hosts_[1].watch->fd(), POLLIN, 0};
  ASSERT_EQ(poll(&sleeper, 1, 30000), 1);
  on_event_[1] = [&] {
    on_event_[1] = nullptr;
    AddText(A(), "second", "");
    A().Flush();
    EXPECT_TRUE(PollUntil(hosts_[0], hosts_[0], [&] { return A().unconfirmed_bytes() == 0; }));
  };
  hosts_[1].watch->Wake();
  EXPECT_EQ(TakeText(B()), "first");
  EXPECT_FALSE(B().HasMessage()) << "nobody has polled";
  EXPECT_EQ(poll(&sleeper, 1, 0), 1);
  hosts_[1].watch->Wake();
  ASSERT_TRUE(B().HasMessage());
  EXPECT_EQ(TakeText(B()), "second");
}

}  // namespace
}  // namespace byteps::transport
