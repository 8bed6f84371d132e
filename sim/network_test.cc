#include "sim/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace byteps::sim {
namespace {

void MakeAck(Frame& frame, uint64_t count) { Pack(frame, wire::Ack{count, 0}); }

// Writes down the sender's number and the time of each frame that reaches it.
class Listener final : public Endpoint {
 public:
  explicit Listener(const Network& network) : network_(network) {}

  void OnHead(ConnectionId, uint32_t, const Frame&) override {}
  void OnFrame(ConnectionId connection, uint32_t tag, Frame& frame) override {
    heard.push_back(frame.header.count);
    connections.push_back(connection);
    tags.push_back(tag);
    at.push_back(network_.now());
  }
  void OnLost(ConnectionId connection, uint32_t) override {
    lost.push_back(connection);
    lost_at = network_.now();
  }

  std::vector<uint64_t> heard;
  std::vector<ConnectionId> connections;
  std::vector<uint32_t> tags;
  std::vector<Time> at;
  std::vector<ConnectionId> lost;
  Time lost_at{};

 private:
  const Network& network_;
};

class NetworkTest : public testing::Test {
 protected:
  NetworkTest() : network_(Options()), left_(network_), right_(network_) {
    left_host_ = network_.AddHost(1e9);
    right_host_ = network_.AddHost(1e9);
    connection_ = network_.Connect(left_host_, &left_, 7, right_host_, &right_, 8);
  }

  static NetworkOptions Options() {
    NetworkOptions options;
    options.latency = microseconds(10);
    options.timeout = milliseconds(100);
    return options;
  }

  void Send(ConnectionId connection, const Endpoint* from, uint64_t number) {
    Frame& frame = network_.NewFrame();
    MakeAck(frame, number);
    network_.Send(connection, from, frame);
  }
  void SendData(ConnectionId connection, uint64_t number) {
    const std::vector<std::byte> payload(2000);
    Frame& frame = network_.NewFrame();
    wire::DataHeader header;
    header.count = number;
    header.piece_bytes = header.want_bytes = 2000;
    Pack(frame, wire::DataFrame{wire::FrameKind::kPush, header, payload, {}}, true);
    network_.Send(connection, &left_, frame);
  }
  void At(Duration when, std::function<void()> work) {
    network_.At(Time(when), nullptr, std::move(work));
  }
  void Run() {
    while (network_.Step()) {
    }
  }

  Network network_;
  Listener left_;
  Listener right_;
  HostId left_host_ = 0;
  HostId right_host_ = 0;
  ConnectionId connection_ = 0;
};

TEST_F(NetworkTest, EachEndKnowsTheConnectionByItsOwnNumber) {
  Send(connection_, &left_, 1);
  Send(connection_, &right_, 2);
  Run();
  EXPECT_EQ(right_.heard, std::vector<uint64_t>{1});
  EXPECT_EQ(right_.tags, std::vector<uint32_t>{8});
  EXPECT_EQ(left_.heard, std::vector<uint64_t>{2});
  EXPECT_EQ(left_.tags, std::vector<uint32_t>{7});
}

TEST_F(NetworkTest, UrgentFramesLeaveFirstAndEqualOnesInOrder) {
  std::vector<std::byte> payload(1000);
  for (uint64_t number = 1; number <= 4; ++number) {
    Frame& frame = network_.NewFrame();
    wire::DataHeader header;
    header.count = number;
    header.priority = number == 4 ? 1 : 0;
    header.piece_bytes = header.want_bytes = 1000;
    Pack(frame, wire::DataFrame{wire::FrameKind::kPush, header, payload, {}}, true);
    network_.Send(connection_, &left_, frame);
  }
  Send(connection_, &left_, 5);
  Run();
  EXPECT_EQ(right_.heard, (std::vector<uint64_t>{1, 5, 4, 2, 3}));  // the first had left already
}

TEST_F(NetworkTest, ConnectionsTakeTurnsAndASmallFrameIsNoTurn) {
  ConnectionId other = network_.Connect(left_host_, &left_, 9, right_host_, &right_, 10);
  SendData(connection_, 1);
  Send(connection_, &left_, 2);
  SendData(other, 3);
  SendData(connection_, 4);
  SendData(connection_, 5);
  Run();
  EXPECT_EQ(right_.heard, (std::vector<uint64_t>{1, 2, 4, 3, 5}));
}

TEST_F(NetworkTest, AOneWayCutEndsTheConnectionByTheTimeout) {
  network_.Cut(connection_, 0, true);
  At(milliseconds(5), [this] { Send(connection_, &left_, 1); });
  At(milliseconds(6), [this] { Send(connection_, &right_, 2); });
  Run();
  EXPECT_TRUE(right_.heard.empty());
  EXPECT_EQ(left_.heard, std::vector<uint64_t>{2}) << "the other direction is not cut";
  EXPECT_EQ(left_.lost.size(), 1U);
  EXPECT_EQ(right_.lost.size(), 1U);
  EXPECT_EQ(left_.lost_at, Time(milliseconds(105)) + microseconds(10));
}

TEST_F(NetworkTest, NobodyNoticesACutThatNothingIsSentInto) {
  network_.Cut(connection_, 0, true);
  At(seconds(10), [] {});
  Run();
  EXPECT_TRUE(left_.lost.empty());
}

TEST_F(NetworkTest, WhatIsNotAcknowledgedEndsTheConnectionToo) {
  network_.Cut(connection_, 0, true);
  Send(connection_, &right_, 1);
  Run();
  EXPECT_EQ(left_.heard, std::vector<uint64_t>{1});
  EXPECT_EQ(right_.lost.size(), 1U);
}

TEST_F(NetworkTest, AHealedCutBringsEverythingInOrder) {
  network_.Cut(connection_, 0, true);
  for (uint64_t number = 1; number <= 3; ++number) Send(connection_, &left_, number);
  At(milliseconds(50), [this] {
    network_.Cut(connection_, 0, false);
    Send(connection_, &left_, 4);
  });
  Run();
  EXPECT_EQ(right_.heard, (std::vector<uint64_t>{1, 2, 3, 4}));
  EXPECT_GE(right_.at.front(), Time(milliseconds(50)));
  EXPECT_TRUE(left_.lost.empty());
}

TEST_F(NetworkTest, ASecondCutHasATimeoutOfItsOwn) {
  auto cut = [this](bool now) {
    network_.Cut(connection_, 0, now);
    if (now) Send(connection_, &left_, 1);
  };
  cut(true);
  At(milliseconds(50), [&cut] { cut(false); });
  At(milliseconds(60), [&cut] { cut(true); });
  At(milliseconds(140), [&cut] { cut(false); });
  Run();
  EXPECT_EQ(right_.heard.size(), 2U);
  EXPECT_TRUE(right_.lost.empty());
}

TEST_F(NetworkTest, APartitionSparesConnectionsWithinAGroup) {
  Listener third(network_);
  HostId third_host = network_.AddHost(1e9);
  ConnectionId inside = network_.Connect(left_host_, &left_, 9, third_host, &third, 1);
  network_.Partition({0, 1, 0});
  Send(connection_, &left_, 1);
  Send(inside, &left_, 2);
  At(milliseconds(20), [this] { network_.Partition({}); });
  Run();
  EXPECT_EQ(third.heard, std::vector<uint64_t>{2});
  EXPECT_LT(third.at.front(), Time(milliseconds(1)));
  EXPECT_EQ(right_.heard, std::vector<uint64_t>{1});
  EXPECT_GE(right_.at.front(), Time(milliseconds(20)));
}

TEST_F(NetworkTest, TheEndOfAProcessIsNotHeardAcrossAPartitionBeforeTheTimeout) {
  network_.Partition({0, 1});
  network_.Kill(&left_);
  Run();
  EXPECT_TRUE(left_.lost.empty());
  EXPECT_EQ(right_.lost.size(), 1U);
  EXPECT_EQ(right_.lost_at, Time(milliseconds(100)));
}

TEST_F(NetworkTest, LateConnectionsAreOvertakenAndKeepTheirOwnOrder) {
  ConnectionId other = network_.Connect(left_host_, &left_, 9, right_host_, &right_, 9);
  network_.SetJitter(connection_, milliseconds(5));
  for (uint64_t number = 1; number <= 100; ++number) {
    Send(connection_, &left_, number);
    Send(other, &left_, number);
  }
  Run();
  std::vector<uint64_t> late;
  size_t overtaken = 0;
  for (size_t i = 0; i < right_.heard.size(); ++i) {
    bool slow = right_.connections[i] == connection_;
    if (slow) late.push_back(right_.heard[i]);
    overtaken += !slow && late.size() < right_.heard[i] ? 1 : 0;
  }
  EXPECT_EQ(late.size(), 100U);
  EXPECT_TRUE(std::is_sorted(late.begin(), late.end()));
  EXPECT_GT(overtaken, 50U);
}

TEST_F(NetworkTest, ASlowLinkCarriesLess) {
  auto time_of = [this](Duration from) {
    Time start = Time(from);
    size_t index = right_.at.size();
    At(from, [this] {
      std::vector<std::byte> payload(100000);
      Frame& frame = network_.NewFrame();
      wire::DataHeader header;
      header.piece_bytes = header.want_bytes = 100000;
      Pack(frame, wire::DataFrame{wire::FrameKind::kPush, header, payload, {}}, true);
      network_.Send(connection_, &left_, frame);
    });
    Run();
    return right_.at.at(index) - start;
  };
  Duration fast = time_of(seconds(1));
  network_.SetRate(right_host_, 1e7);
  EXPECT_GT(time_of(seconds(2)), 50 * fast);
}

TEST_F(NetworkTest, AFrozenProcessHearsEverythingInOrderWhenItThaws) {
  network_.Freeze(&right_, true);
  bool worked = false;
  network_.At(Time(milliseconds(1)), &right_, [&worked] { worked = true; });
  for (uint64_t number = 1; number <= 3; ++number) Send(connection_, &left_, number);
  At(milliseconds(30), [this, &worked] {
    EXPECT_TRUE(right_.heard.empty());
    EXPECT_FALSE(worked);
    network_.Freeze(&right_, false);
    Send(connection_, &left_, 4);
  });
  Run();
  EXPECT_TRUE(worked);
  EXPECT_EQ(right_.heard, (std::vector<uint64_t>{1, 2, 3, 4}));
}

// Without bytes, all frames on their way to a host are one event, and nothing else changes.
TEST(LightNetworkTest, DeliversAtTheSameTimes) {
  std::vector<Time> arrivals[2];
  for (bool carry : {false, true}) {
    NetworkOptions options;
    options.carry_bytes = carry;
    Network network(options);
    Listener end(network);
    Listener target(network);
    HostId hosts[] = {network.AddHost(1e8), network.AddHost(2e8), network.AddHost(1e8)};
    ConnectionId from_first = network.Connect(hosts[0], &end, 0, hosts[2], &target, 0);
    ConnectionId from_second = network.Connect(hosts[1], &end, 1, hosts[2], &target, 1);
    ConnectionId local = network.Connect(hosts[2], &end, 2, hosts[2], &target, 2);
    for (uint32_t number = 0; number < 30; ++number) {
      for (ConnectionId connection : {from_first, from_second, local}) {
        std::vector<std::byte> payload(100 * number);
        Frame& frame = network.NewFrame();
        wire::DataHeader header;
        header.piece_bytes = header.want_bytes = 100 * number;
        Pack(frame, wire::DataFrame{wire::FrameKind::kPush, header, payload, {}}, carry);
        network.Send(connection, &end, frame);
      }
    }
    while (network.Step()) {
    }
    arrivals[carry ? 1 : 0] = target.at;
  }
  EXPECT_EQ(arrivals[0].size(), 90U);
  EXPECT_EQ(arrivals[0], arrivals[1]);
}

}  // namespace
}  // namespace byteps::sim
