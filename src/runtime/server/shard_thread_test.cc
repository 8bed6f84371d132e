// Tests the frames that workers send to a shard, and the frames that no correct worker sends.
#include "src/runtime/server/shard_thread.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "src/runtime/clock_loop_for_test.h"
#include "src/wire/data.h"
#include "src/wire/frame_kind.h"

namespace byteps::runtime {
namespace {

using wire::FrameKind;
using Bytes = std::vector<std::byte>;

class ClockTransport final : public transport::Transport {
 public:
  std::unique_ptr<transport::Loop> MakeLoop() override {
    auto made = std::make_unique<ClockLoop>();
    loop = made.get();
    return made;
  }
  ClockLoop* loop = nullptr;  // the loop that was made last
};

// A shard with two connected workers. The test plays the thread of the shard.
class ShardThreadTest : public testing::Test, public transport::FrameReceiver {
 protected:
  void SetUp() override {
    wire::View view;
    view.epoch = view.began = 1;
    view.generation = 3;
    view.piece_bytes_max = 4096;
    for (Slot slot : {0u, 1u}) {
      wire::WorkerInfo worker;
      worker.slot = worker.rank = slot;
      worker.incarnation = 10 + slot;
      view.workers.push_back(worker);
    }
    wire::ServerInfo server;
    server.incarnation = 7;
    server.since = 1;
    server.shard_weights = {1};
    view.servers.push_back(server);
    shard.PostView(view, 0);
    loop().Settle();
    for (Slot slot : {0u, 1u}) Connect(slot);
  }
  ClockLoop& loop() { return *transport.loop; }

  void Connect(Slot slot) {
    auto [near, far] = ClockConnection::Pair(loop());
    shard.Adopt(slot, 10 + slot, 3, std::move(far));
    near->Start(this);
    workers[slot] = std::move(near);
    loop().Settle();
  }
  void Say(Slot from, FrameKind kind, const Bytes& header, const Bytes& payload = {}) {
    transport::OutFrame frame;
    frame.kind = static_cast<uint8_t>(kind);
    std::copy(header.begin(), header.end(), frame.header);
    frame.header_bytes = static_cast<uint16_t>(header.size());
    frame.payload = payload;
    workers[from]->Send(std::move(frame));
    loop().Settle();
  }
  void ExpectCutOff(Slot worker, const Status& why) {
    ASSERT_EQ(broken.size(), 1u);
    EXPECT_EQ(broken[0].first, 10 + worker);
    EXPECT_EQ(broken[0].second.code(), StatusCode::kProtocol);
    EXPECT_EQ(broken[0].second.message(), why.message());
    broken.clear();
    Connect(worker);  // the worker may connect again
  }

  // This test ignores what the shard sends to workers.
  Result<ByteSpan> OnHeader(uint8_t, ConstByteSpan, size_t payload_bytes) override {
    heard.resize(payload_bytes);
    return ByteSpan(heard);
  }
  void OnFrame() override {}
  void OnClosed(const Status&) override {}

  static protocol::ShardOptions Options() {
    protocol::ShardOptions options;
    options.piece_bytes_max = 4096;
    return options;
  }

  ClockTransport transport;
  Log log{"test", "fatal", true};
  std::vector<std::pair<uint64_t, Status>> broken;
  ShardThread shard{transport,
                    Options(),
                    log,
                    [this](uint64_t who, const Status& why) { broken.emplace_back(who, why); },
                    [](const Status&) {},
                    [] {}};
  Bytes heard;
  std::unique_ptr<ClockConnection> workers[2];
};

TEST_F(ShardThreadTest, AHeaderThatIsNoneCutsItsSenderOffAndNobodyElse) {
  for (size_t bytes : {0u, 1u, 7u, 127u}) {
    const Bytes header(bytes, std::byte{0xff});
    for (FrameKind kind : {FrameKind::kPush, FrameKind::kVerdict, FrameKind::kAbort}) {
      Say(1, kind, header, Bytes(8));
      ExpectCutOff(1, wire::DecodeDataHeader(kind, header, 8).status());
    }
    for (FrameKind kind : {FrameKind::kAck, FrameKind::kJoined, FrameKind::kProcessSet}) {
      Say(1, kind, header);
      ExpectCutOff(1, {StatusCode::kProtocol, "malformed ack: wrong length"});
    }
    for (FrameKind kind : {FrameKind::kResync, FrameKind::kHave}) {
      Say(1, kind, header);
      ExpectCutOff(1, {StatusCode::kProtocol, "malformed number: wrong length"});
    }
  }
}

TEST_F(ShardThreadTest, FramesThatNobodySendsToAShardAreNamed) {
  for (int kind : {0, 1, 4, 6, 7, 9, 17, 255}) {
    Say(0, static_cast<FrameKind>(kind), {});
    ExpectCutOff(0, {StatusCode::kProtocol, "frame " + std::to_string(kind) + " for a shard"});
  }
  // These frames have no payload; a payload is an error.
  for (FrameKind kind : {FrameKind::kAck, FrameKind::kResync}) {
    Say(0, kind, Bytes(8), Bytes(1));
    ExpectCutOff(0, {StatusCode::kProtocol,
                     "frame " + std::to_string(static_cast<int>(kind)) + " for a shard"});
  }
}

TEST_F(ShardThreadTest, AWorkerOfAnotherGenerationIsNotTaken) {
  auto [near, far] = ClockConnection::Pair(loop());
  shard.Adopt(0, 10, 2, std::move(far));
  loop().Settle();
  Say(0, FrameKind::kPush, {});  // the older connection still works
  ExpectCutOff(0, wire::DecodeDataHeader(FrameKind::kPush, {}, 0).status());
}

}  // namespace
}  // namespace byteps::runtime
