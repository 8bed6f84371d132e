// Conformance: loops, timers, listening, connecting, and moving between loops.
#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "src/transport/transport_conformance.h"

namespace byteps::transport {
namespace {

using ConnectResult = Result<std::unique_ptr<Connection>>;

// Connects on the loop's thread and waits for the answer.
ConnectResult ConnectTo(LoopThread& thread, const std::string& address, Duration timeout) {
  std::promise<ConnectResult> promise;
  auto result = promise.get_future();
  thread.Do([&] {
    thread.loop().Connect(address, timeout, [&](ConnectResult connected) {
      promise.set_value(std::move(connected));
    });
  });
  if (result.wait_for(kPatience) != std::future_status::ready) {
    ADD_FAILURE() << "Connect never answers";
    std::abort();
  }
  return result.get();
}

TEST_P(TransportConformance, PostKeepsTheOrderAndRunsOnTheLoop) {
  constexpr int kCount = 1000;
  std::vector<int> order;
  Loop& loop = ClientLoop();
  EXPECT_FALSE(loop.InLoop());
  for (int i = 0; i < kCount; ++i) {
    loop.Post([&, i] {
      EXPECT_TRUE(loop.InLoop());
      order.push_back(i);
    });
  }
  client_thread_.Do([] {});
  ASSERT_EQ(order.size(), size_t{kCount});
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST_P(TransportConformance, PostFromTheLoopRunsLaterAndInOrder) {
  std::vector<int> order;
  std::promise<void> done;
  client_thread_.Do([&] {
    ClientLoop().Post([&] { order.push_back(2); });
    ClientLoop().Post([&] {
      order.push_back(3);
      done.set_value();
    });
    order.push_back(1);
  });
  ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST_P(TransportConformance, StopRunsWhatWasPostedBefore) {
  auto loop = transport_->MakeLoop();
  int ran = 0;
  loop->Post([&] { ++ran; });
  std::thread thread([&] { loop->Run(); });
  for (int i = 0; i < 100; ++i) loop->Post([&] { ++ran; });
  loop->Stop();
  thread.join();
  EXPECT_EQ(ran, 101);
}

TEST_P(TransportConformance, AfterFiresOnceAndNotTooEarly) {
  std::promise<Time> fired;
  std::atomic<int> count = 0;
  Time begin = ClientLoop().Now();
  auto timer = client_thread_.Do([&] {
    return ClientLoop().After(milliseconds(20), [&] {
      if (count++ == 0) fired.set_value(ClientLoop().Now());
    });
  });
  auto when = fired.get_future();
  ASSERT_EQ(when.wait_for(kPatience), std::future_status::ready);
  EXPECT_GE(when.get() - begin, milliseconds(20));
  client_thread_.Do([&] { timer.reset(); });
  EXPECT_EQ(count, 1);
}

TEST_P(TransportConformance, EveryTicksUntilItIsGone) {
  std::promise<void> enough;
  int ticks = 0;
  std::unique_ptr<Loop::Timer> timer;
  client_thread_.Do([&] {
    timer = ClientLoop().Every(milliseconds(1), [&] {
      if (++ticks < 5) return;
      timer.reset();  // from inside its own callback
      enough.set_value();
    });
  });
  ASSERT_EQ(enough.get_future().wait_for(kPatience), std::future_status::ready);
  std::promise<void> later;
  auto proof = client_thread_.Do(
      [&] { return ClientLoop().After(milliseconds(10), [&] { later.set_value(); }); });
  ASSERT_EQ(later.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(client_thread_.Do([&] { return ticks; }), 5);
  client_thread_.Do([&] { proof.reset(); });
}

TEST_P(TransportConformance, ATimerThatIsGoneDoesNotFire) {
  std::promise<void> later;
  bool fired = false;
  std::unique_ptr<Loop::Timer> timers[3];
  client_thread_.Do([&] {
    // Both timers are due when the loop looks; the first to fire ends the other one.
    timers[0] = ClientLoop().After(milliseconds(1), [&] { timers[1].reset(); });
    timers[1] = ClientLoop().After(milliseconds(1), [&] { fired = true; });
    timers[2] = ClientLoop().After(milliseconds(1), [&] { later.set_value(); });
    Time begin = ClientLoop().Now();
    while (ClientLoop().Now() - begin < milliseconds(2)) std::this_thread::yield();
  });
  ASSERT_EQ(later.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_FALSE(client_thread_.Do([&] { return fired; }));
  client_thread_.Do([&] {
    for (auto& timer : timers) timer.reset();
  });
}

TEST_P(TransportConformance, TimersFireInOrder) {
  std::vector<int> order;
  std::promise<void> done;
  std::vector<std::unique_ptr<Loop::Timer>> timers;
  client_thread_.Do([&] {
    for (int ms : {30, 10, 20}) {
      timers.push_back(ClientLoop().After(milliseconds(ms), [&, ms] {
        order.push_back(ms);
        if (ms == 30) done.set_value();
      }));
    }
  });
  ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  client_thread_.Do([&] { timers.clear(); });
  EXPECT_EQ(order, (std::vector<int>{10, 20, 30}));
}

TEST_P(TransportConformance, ConnectIsRefusedWhereNobodyListens) {
  auto result = ConnectTo(client_thread_, GetParam().nobody, seconds(10));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(result.status().message().find(GetParam().nobody), std::string::npos)
      << result.status().message();
}

TEST_P(TransportConformance, ABadAddressIsTheCallersError) {
  for (const char* address : {"no port", "host:", "host:99999", "host:x"}) {
    auto result = ConnectTo(client_thread_, address, seconds(10));
    ASSERT_FALSE(result.ok()) << address;
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument) << address;
    auto listener = client_thread_.Do([&] { return ClientLoop().Listen(address, {}); });
    ASSERT_FALSE(listener.ok()) << address;
    EXPECT_EQ(listener.status().code(), StatusCode::kInvalidArgument) << address;
  }
}

TEST_P(TransportConformance, APortIsGivenToOneListenerOnly) {
  auto first = server_thread_.Do([&] { return ServerLoop().Listen(GetParam().listen, {}); });
  ASSERT_TRUE(first.ok());
  std::string address = first.value()->Address();
  EXPECT_NE(first.value()->Port(), 0);
  EXPECT_TRUE(address.ends_with(":" + std::to_string(first.value()->Port())));
  auto second = client_thread_.Do([&] { return ClientLoop().Listen(address, {}); });
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  server_thread_.Do([&] { first.value().reset(); });
  auto third = client_thread_.Do([&] { return ClientLoop().Listen(address, {}); });
  EXPECT_TRUE(third.ok()) << third.status().ToString();
  client_thread_.Do([&] { third.value().reset(); });
}

TEST_P(TransportConformance, ConnectionsOutliveTheirListener) {
  ConnectAndStart();  // its listener is gone already
  client_.Send(1, "still here");
  EXPECT_TRUE(server_.recorder().WaitForFrames(1));
}

TEST_P(TransportConformance, ManyConnectionsShareOneLoop) {
  constexpr size_t kCount = 50;
  // The code below destroys these on their loops.
  std::vector<std::unique_ptr<End>> accepted;
  auto listener = server_thread_.Do([&] {
    return ServerLoop().Listen(GetParam().listen, [&](std::unique_ptr<Connection> connection) {
      auto end = std::make_unique<End>(server_thread_);
      End* raw = end.get();
      raw->connection() = std::move(connection);
      raw->recorder().on_frame = [raw] { raw->connection()->Send(MakeFrame(2, "back")); };
      raw->connection()->Start(&raw->recorder());
      accepted.push_back(std::move(end));
    });
  });
  ASSERT_TRUE(listener.ok());
  std::vector<std::unique_ptr<End>> clients;
  for (size_t i = 0; i < kCount; ++i) {
    auto result = ConnectTo(client_thread_, listener.value()->Address(), kPatience);
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    clients.push_back(std::make_unique<End>(client_thread_));
    clients.back()->connection() = std::move(result.value());
    clients.back()->Start();
  }
  for (auto& client : clients) client->Send(1, "there");
  for (auto& client : clients) EXPECT_TRUE(client->recorder().WaitForFrames(1));
  server_thread_.Do([&] { listener.value().reset(); });
}

TEST_P(TransportConformance, BothEndsMayLiveOnOneLoop) {
  End one(client_thread_);
  End other(client_thread_);
  std::promise<void> accepted;
  auto listener = client_thread_.Do([&] {
    return ClientLoop().Listen(GetParam().listen, [&](std::unique_ptr<Connection> connection) {
      other.connection() = std::move(connection);
      accepted.set_value();
    });
  });
  ASSERT_TRUE(listener.ok());
  auto result = ConnectTo(client_thread_, listener.value()->Address(), kPatience);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  one.connection() = std::move(result.value());
  ASSERT_EQ(accepted.get_future().wait_for(kPatience), std::future_status::ready);
  one.Start();
  other.Start();
  const auto& payload = Payload(size_t{10} << 20, 1);
  one.Send(1, "a", payload);
  other.Send(1, "b", payload);
  ASSERT_TRUE(one.recorder().WaitForFrames(1));
  ASSERT_TRUE(other.recorder().WaitForFrames(1));
  EXPECT_TRUE(Same(one.recorder().frames()[0].payload, payload));
  EXPECT_TRUE(Same(other.recorder().frames()[0].payload, payload));
  client_thread_.Do([&] { listener.value().reset(); });
}

TEST_P(TransportConformance, TheStreamMayBeHandedToAnotherReceiverInsideOnFrame) {
  Connect();
  Recorder second;
  server_.recorder().on_frame = [&] { server_.connection()->Start(&second); };
  server_.Start();
  client_.thread().Do([&] {
    client_.connection()->Send(MakeFrame(1, "hello"));
    for (int i = 0; i < 100; ++i) client_.connection()->Send(MakeFrame(2, std::to_string(i)));
  });
  ASSERT_TRUE(second.WaitForFrames(100));
  EXPECT_EQ(server_.recorder().frame_count(), 1u);
  auto frames = second.frames();
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(frames[i].header, std::to_string(i));
  client_.Close();
  ASSERT_TRUE(second.WaitForClosed());
  server_.Destroy();  // `second` ends before it
  EXPECT_EQ(server_.recorder().closed_count(), 0);
}

TEST_P(TransportConformance, AStreamMovesToAnotherLoopWithTheBytesThatAreUnderWay) {
  if (!GetParam().moves) GTEST_SKIP() << "this backend moves only connections without frames";
  Connect();
  LoopThread other(*transport_);
  End moved(other);
  std::promise<void> adopted;
  server_.recorder().on_frame = [&] {
    server_.connection()->MoveTo(other.loop(), [&](std::unique_ptr<Connection> connection) {
      EXPECT_TRUE(other.loop().InLoop());
      moved.connection() = std::move(connection);
      adopted.set_value();
    });
    server_.connection().reset();
  };
  server_.Start();
  const auto& payload = Payload(200000, 2);
  constexpr size_t kCount = 200;
  client_.Start();
  client_.thread().Do([&] {
    client_.connection()->Send(MakeFrame(1, "hello"));
    for (size_t i = 0; i < kCount; ++i) {
      client_.connection()->Send(
          MakeFrame(2, std::to_string(i), ConstByteSpan(payload).first(i * 1000)));
    }
  });
  ASSERT_EQ(adopted.get_future().wait_for(kPatience), std::future_status::ready);
  // The limits have moved along with the stream.
  moved.thread().Do([&] { moved.connection()->Start(&moved.recorder()); });
  ASSERT_TRUE(moved.recorder().WaitForFrames(kCount));
  auto frames = moved.recorder().frames();
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(frames[i].header, std::to_string(i));
    ASSERT_EQ(frames[i].payload.size(), i * 1000);
    ASSERT_TRUE(Same(frames[i].payload, ConstByteSpan(payload).first(frames[i].payload.size())));
  }
  moved.Send(3, "back", payload);
  ASSERT_TRUE(client_.recorder().WaitForFrames(1));
  EXPECT_EQ(server_.recorder().closed_count(), 0);
  EXPECT_EQ(server_.recorder().frame_count(), 1u);
  client_.Close();
  ASSERT_TRUE(moved.recorder().WaitForClosed());
  EXPECT_EQ(moved.recorder().why().code(), StatusCode::kPeerLost);
  server_.Destroy();  // has left `other`, which ends first
}

TEST_P(TransportConformance, AStreamMovesTwiceBeforeItIsStarted) {
  if (!GetParam().moves) GTEST_SKIP() << "this backend moves only connections without frames";
  Connect();
  LoopThread other(*transport_);
  std::promise<void> adopted;
  client_.Send(1, "waiting");
  server_.thread().Do([&] {
    server_.connection()->MoveTo(other.loop(), [&](std::unique_ptr<Connection> there) {
      there->MoveTo(ServerLoop(), [&](std::unique_ptr<Connection> back) {
        server_.connection() = std::move(back);
        adopted.set_value();
      });
    });
  });
  ASSERT_EQ(adopted.get_future().wait_for(kPatience), std::future_status::ready);
  server_.Start();
  ASSERT_TRUE(server_.recorder().WaitForFrames(1));
  server_.Send(2, "answer");
  client_.Start();
  ASSERT_TRUE(client_.recorder().WaitForFrames(1));
  server_.Destroy();  // has left `other`, which ends first
}

TEST_P(TransportConformance, AStreamThatWasSentOnJustBeforeMovesWhole) {
  if (!GetParam().moves) GTEST_SKIP() << "this backend moves only connections without frames";
  Connect();
  LoopThread other(*transport_);
  End moved(other);
  std::promise<void> adopted;
  // The answer is small enough to be written at once, but the peer has not read it yet.
  const auto& sent = Payload(100, 3);
  server_.Send(1, "welcome", sent);
  ASSERT_TRUE(server_.thread().RunUntil(
      [&] { return GetParam().name == "inproc" || server_.connection()->queued_bytes() == 0; }));
  server_.thread().Do([&] {
    server_.connection()->MoveTo(other.loop(), [&](std::unique_ptr<Connection> connection) {
      moved.connection() = std::move(connection);
      adopted.set_value();
    });
    server_.connection().reset();
  });
  ASSERT_EQ(adopted.get_future().wait_for(kPatience), std::future_status::ready);
  client_.Start();
  ASSERT_TRUE(client_.recorder().WaitForFrames(1));
  EXPECT_EQ(client_.recorder().frames()[0].payload, sent);
  moved.Start();
  client_.Send(1, "thanks");
  ASSERT_TRUE(moved.recorder().WaitForFrames(1));
  moved.Send(1, "more");
  ASSERT_TRUE(client_.recorder().WaitForFrames(2));
  server_.Destroy();  // has left `other`, which ends first
}

}  // namespace
}  // namespace byteps::transport
