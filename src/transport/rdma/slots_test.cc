#include "src/transport/rdma/slots.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <deque>

namespace byteps::transport {
namespace {

struct Sent {
  bool has_stream_bytes;
  uint32_t number;
  uint32_t returned;
};

// Two ends with their slots, and the messages between them. Each end has so much to send.
struct Line {
  explicit Line(uint32_t slots) : count(slots) {}

  // Returns whether a message left.
  bool Send(int end, bool stream) {
    SendSlots& of = send[end];
    if (stream ? to_send[end] == 0 || !of.MaySendStream() : !of.MaySendEmpty()) return false;
    if (stream) --to_send[end];
    uint32_t number = of.Send();
    wire[end].push_back({stream, number, receive[end].Tell()});
    // A message that is on its way has its slot: the receiver never has more than it has slots.
    RC_ASSERT(wire[end].size() + slots_in_use[1 - end] <= count);
    return true;
  }
  bool TellIfMust(int end) { return receive[end].MustTell() && Send(end, false); }
  void Receive(int end) {
    Sent message = wire[1 - end].front();
    wire[1 - end].pop_front();
    RC_ASSERT(receive[end].OnMessage(message.number));
    RC_ASSERT(send[end].OnReturned(message.returned));
    if (message.has_stream_bytes) {
      ++slots_in_use[end];
    } else {
      receive[end].GiveBack();
    }
  }
  void GiveBack(int end) {
    --slots_in_use[end];
    ++done[end];
    receive[end].GiveBack();
  }

  uint32_t count;
  SendSlots send[2] = {SendSlots(count), SendSlots(count)};
  ReceiveSlots receive[2] = {ReceiveSlots(count), ReceiveSlots(count)};
  std::deque<Sent> wire[2];
  uint32_t slots_in_use[2] = {};
  uint32_t to_send[2] = {};
  uint32_t done[2] = {};
};

// One random step of what can be done; false: nothing can.
bool Step(Line& line) {
  int first = *rc::gen::inRange(0, 8);
  for (int i = 0; i < 8; ++i) {
    int choice = (first + i) % 8;
    int end = choice % 2;
    switch (choice / 2) {
      case 0:
        if (line.Send(end, true)) return true;
        break;
      case 1:
        if (line.TellIfMust(end)) return true;
        break;
      case 2:
        if (line.wire[1 - end].empty()) break;
        line.Receive(end);
        return true;
      default:
        if (line.slots_in_use[end] == 0) break;
        line.GiveBack(end);
        return true;
    }
  }
  return false;
}

TEST(SlotsTest, NoMessageLacksASlotAndAllOfThemCome) {
  rc::check([] {
    Line line(*rc::gen::inRange<uint32_t>(4, 20));
    uint32_t wanted[2];
    for (int end : {0, 1}) wanted[end] = line.to_send[end] = *rc::gen::inRange<uint32_t>(0, 60);
    while (Step(line)) {
    }
    RC_ASSERT(line.done[0] == wanted[1]);
    RC_ASSERT(line.done[1] == wanted[0]);
  });
}

// An end that does not give back stops its peer, and does not stop what it sends itself.
TEST(SlotsTest, AnEndThatGivesNothingBackStillSends) {
  Line line(8);
  line.to_send[0] = 1000;
  line.to_send[1] = 1000;
  for (int i = 0; i < 100000 && line.done[1] < 1000; ++i) {
    for (int end : {0, 1}) {
      if (!line.TellIfMust(end)) line.Send(end, true);
      if (!line.wire[1 - end].empty()) line.Receive(end);
    }
    if (line.slots_in_use[1] > 0) line.GiveBack(1);
  }
  EXPECT_EQ(line.done[1], 1000u);
  EXPECT_EQ(line.done[0], 0u);
  EXPECT_EQ(line.slots_in_use[0], 6u) << "the last two slots are kept";
}

TEST(SlotsTest, EmptyMessagesDoNotAnswerEachOtherForEver) {
  Line line(4);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(line.Send(0, false));
  int steps = 0;
  bool moved = true;
  while (moved) {
    moved = false;
    for (int end : {0, 1}) {
      if (!line.wire[1 - end].empty()) {
        line.Receive(end);
        moved = true;
      }
      if (line.TellIfMust(end)) moved = true;
    }
    ASSERT_LT(++steps, 100);
  }
}

TEST(SlotsTest, WhatNoCorrectPeerSaysIsSeen) {
  SendSlots send(4);
  send.Send();
  EXPECT_FALSE(send.OnReturned(2)) << "more than was sent";
  EXPECT_TRUE(send.OnReturned(1));
  EXPECT_FALSE(send.OnReturned(0)) << "less than it said before";
  ReceiveSlots receive(2);
  EXPECT_FALSE(receive.OnMessage(1)) << "out of order";
  EXPECT_TRUE(receive.OnMessage(0));
  EXPECT_FALSE(receive.OnMessage(0)) << "twice";
  EXPECT_TRUE(receive.OnMessage(1));
  EXPECT_FALSE(receive.OnMessage(2)) << "more than there are slots";
  receive.GiveBack();
  EXPECT_FALSE(receive.OnMessage(2)) << "it was not told that a slot serves again";
  EXPECT_EQ(receive.Tell(), 1u);
  EXPECT_TRUE(receive.OnMessage(2));
}

TEST(SlotsTest, TheNumbersWrap) {
  constexpr uint32_t kNearTheEnd = UINT32_MAX - 5;
  SendSlots send(8, kNearTheEnd);
  ReceiveSlots receive(8, kNearTheEnd);
  for (int i = 0; i < 20; ++i) {
    for (int k = 0; k < 3; ++k) {
      ASSERT_TRUE(send.MaySendStream());
      ASSERT_TRUE(receive.OnMessage(send.Send()));
      receive.GiveBack();
    }
    EXPECT_EQ(send.in_flight(), 3u);
    ASSERT_TRUE(send.OnReturned(receive.Tell()));
    EXPECT_EQ(send.in_flight(), 0u);
  }
}

}  // namespace
}  // namespace byteps::transport
