#include "src/runtime/worker/lane_group.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "src/runtime/fake_loop_for_test.h"

namespace byteps::runtime {
namespace {

using protocol::FrontMail;
namespace to_front = protocol::to_front;
namespace to_lane = protocol::to_lane;

protocol::WorkerOptions WithLanes(uint32_t lanes) {
  protocol::WorkerOptions options;
  options.lanes = lanes;
  return options;
}

// Returns a view of one worker, and of one server with a shard for each lane.
to_lane::View ViewOf(uint64_t epoch, uint32_t shards) {
  auto view = std::make_shared<wire::View>();
  view->epoch = epoch;
  view->generation = 1;
  view->began = 1;
  view->piece_bytes_max = 4096;
  view->workers.emplace_back();
  wire::ServerInfo server;
  server.incarnation = 7;
  server.address = "nowhere";
  server.since = 1;
  server.shard_weights.assign(shards, 1);
  view->servers.push_back(server);
  return {view, 0};
}

// Lanes on loops. The test runs each loop by hand.
class LaneGroupTest : public testing::Test {
 protected:
  static constexpr uint32_t kLanes = 3;

  class Transport final : public transport::Transport {
   public:
    std::unique_ptr<transport::Loop> MakeLoop() override {
      auto made = std::make_unique<FakeLoop>();
      loops.push_back(made.get());
      return made;
    }
    std::vector<FakeLoop*> loops;
  };

  FakeLoop& LoopOf(uint32_t lane) { return lane == 0 ? loop : *transport.loops[lane - 1]; }
  void RunAll() {
    bool ran = true;
    while (std::exchange(ran, false)) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        ran = ran || !LoopOf(lane).posted.empty();
        LoopOf(lane).RunPosted();
      }
    }
  }
  template <typename Mail>
  void SendAll(const Mail& mail) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) group.Send(lane, mail);
    group.Deliver();
  }
  size_t Connects() {
    size_t count = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane) count += LoopOf(lane).connects.size();
    return count;
  }
  // Returns the lanes that have released the exchange with number `serial`.
  std::vector<uint32_t> ReleasedBy(uint64_t serial) {
    std::vector<uint32_t> lanes;
    for (const FrontMail& mail : told) {
      const auto* released = std::get_if<to_front::Released>(&mail);
      if (released != nullptr && released->serial == serial) lanes.push_back(released->lane);
    }
    return lanes;
  }
  using Lanes = std::vector<uint32_t>;

  Log log{"test", "fatal", true};
  FakeLoop loop;
  Transport transport;
  std::vector<FrontMail> told;
  LaneGroup group{{transport,
                   loop,
                   WithLanes(kLanes),
                   ShardLinkOptions(),
                   JobIdentity{"job", "secret", 1},
                   log,
                   {[this](FrontMail mail) { told.push_back(std::move(mail)); }, [] {}, [] {},
                    [](const wire::Suspect&) {}, [](const std::string&) {}, nullptr}}};
};

TEST_F(LaneGroupTest, EachLaneConnectsToItsShards) {
  SendAll(ViewOf(1, 7));
  EXPECT_EQ(LoopOf(0).connects.size(), 3u);
  RunAll();
  EXPECT_EQ(LoopOf(1).connects.size(), 2u);
  EXPECT_EQ(LoopOf(2).connects.size(), 2u);
}

TEST_F(LaneGroupTest, AClosedLaneFollowsNoView) {
  group.Close(Status::Ok());
  SendAll(ViewOf(1, 7));
  RunAll();
  EXPECT_EQ(Connects(), 0u);
}

TEST_F(LaneGroupTest, AClosedLaneSaysThatAnExchangeIsReleasedAndNothingElse) {
  SendAll(ViewOf(1, 3));
  RunAll();
  told.clear();
  protocol::Exchange exchange;
  exchange.serial = 5;
  exchange.tensor.id = 4;
  group.Close(Status::Ok());
  // The exchange has no pieces, so an open lane would say that it is done.
  SendAll(to_lane::Begin{&exchange});
  SendAll(to_lane::Settle{1});
  SendAll(to_lane::Withdraw{&exchange});
  EXPECT_EQ(ReleasedBy(5), Lanes{0}) << "the other lanes have not come to it";
  RunAll();
  EXPECT_EQ(ReleasedBy(5), (Lanes{0, 1, 2}));
  EXPECT_EQ(told.size(), 3u);
}

TEST_F(LaneGroupTest, AnswersAreIgnoredWhenEveryLaneSaysSo) {
  int done = 0;
  group.IgnoreAnswers([&done] { ++done; });
  LoopOf(1).RunPosted();
  LoopOf(0).RunPosted();
  EXPECT_EQ(done, 0);
  RunAll();
  EXPECT_EQ(done, 1);
}

TEST_F(LaneGroupTest, MailKeepsItsOrderAndOneWordIsEnough) {
  std::vector<protocol::Exchange> exchanges(100);
  for (size_t i = 0; i < exchanges.size(); ++i) {
    exchanges[i].serial = i;
    group.Send(1, to_lane::Withdraw{&exchanges[i]});
  }
  EXPECT_EQ(LoopOf(1).posted.size(), 1u);
  LoopOf(1).RunPosted();
  EXPECT_EQ(loop.posted.size(), 1u);
  RunAll();
  ASSERT_EQ(told.size(), exchanges.size());
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(std::get<to_front::Released>(told[i]).serial, i);
  }
}

TEST_F(LaneGroupTest, MailForWhichThereIsNoMemoryIsThrownByTheNextDelivery) {
  protocol::Exchange exchange;
  LoopOf(2).has_no_memory = true;
  group.Send(2, to_lane::Withdraw{&exchange});
  EXPECT_THROW(group.Deliver(), std::bad_alloc);
}

}  // namespace
}  // namespace byteps::runtime
