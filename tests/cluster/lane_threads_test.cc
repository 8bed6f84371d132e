// Tests the lanes of a worker on threads of their own, without a job.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/runtime/worker/lane_group.h"
#include "src/transport/inproc/inproc_transport.h"
#include "src/transport/tcp/tcp_transport.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/shared_transport.h"

namespace byteps::cluster {
namespace {

constexpr uint32_t kLanes = 4;
// The first lane lives on its owner's loop, which is made first.
constexpr size_t kLoopOfLaneTwo = 2;

class LaneThreads : public ::testing::TestWithParam<Medium> {
 protected:
  LaneThreads() {
    protocol::WorkerOptions options;
    options.lanes = kLanes;
    const runtime::ShardLinkOptions links;
    const runtime::JobIdentity identity{"job", "secret", 1};
    runtime::WorkerLanes::Events events;
    events.to_front = [this](protocol::FrontMail) { ++told; };
    events.on_event = events.on_links = [] {};
    events.on_suspect = [](const wire::Suspect&) {};
    events.on_evicted = [](const std::string&) {};
    group.emplace(runtime::WorkerLanesParts{transport, *loop, options, links, identity, log,
                                            std::move(events)});
    group->Start();
  }

  // Runs the owner's loop on a thread, with `work` on it, until something stops the loop.
  void Run(std::function<void()> work) {
    loop->Post(std::move(work));
    std::promise<void> ended;
    std::thread thread([&] {
      loop->Run();
      ended.set_value();
    });
    bool in_time = ended.get_future().wait_for(kPatience) == std::future_status::ready;
    EXPECT_TRUE(in_time);
    if (!in_time) loop->Stop();
    thread.join();
  }

  void WithdrawAll() {
    for (const protocol::Exchange& exchange : exchanges) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        group->Send(lane, protocol::to_lane::Withdraw{&exchange});
      }
    }
    group->Deliver();
  }

  Log log{"test", "fatal", true};
  SharedTransport transport{GetParam() == Medium::kTcp ? transport::MakeTcpTransport({})
                                                       : transport::MakeInprocTransport()};
  const std::unique_ptr<transport::Loop> loop = transport.MakeLoop();
  std::vector<protocol::Exchange> exchanges{1000};
  size_t told = 0;
  std::optional<runtime::LaneGroup> group;
};

INSTANTIATE_TEST_SUITE_P(Media, LaneThreads, ::testing::Values(Medium::kTcp, Medium::kInproc),
                         [](const auto& medium) { return std::string(NameOf(medium.param)); });

TEST_P(LaneThreads, AnswerAllTheyAreAskedBeforeAndBehindAClose) {
  Run([&] {
    WithdrawAll();
    group->Close(Status::Ok());
    WithdrawAll();
    group->IgnoreAnswers([this] { loop->Stop(); });
  });
  EXPECT_EQ(told, 2 * kLanes * exchanges.size());
}

TEST_P(LaneThreads, EndWhileMailIsUnderWay) {
  Run([&] {
    WithdrawAll();
    group->Close(Status::Ok());
    loop->Stop();
  });
  group.reset();
  exchanges.clear();
  EXPECT_LE(told, kLanes * 1000);
}

TEST_P(LaneThreads, OneWhoseLoopIsStoppedStopsThatOfItsOwner) {
  Run([&] { transport.PostTo(kLoopOfLaneTwo, [this] { transport.StopLoop(kLoopOfLaneTwo); }); });
  EXPECT_TRUE(group->failure().ok());
}

TEST_P(LaneThreads, OneThatThrowsStopsTheLoopOfItsOwnerAndSaysWhy) {
  Run([&] { transport.PostTo(kLoopOfLaneTwo, [] { throw std::bad_alloc(); }); });
  EXPECT_EQ(group->failure().code(), StatusCode::kExhausted);
  group->End();
  group->End();
}

}  // namespace
}  // namespace byteps::cluster
