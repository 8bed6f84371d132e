// Copies between host and device that stand still, in whole jobs behind the C interface: who hears
// of them, and when their operations end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_standin/device_rank_for_test.h"

namespace byteps::standin::stalls {
namespace {

using pieces::Await;
using pieces::CApiJob;
using pieces::DeviceRank;
using pieces::End;
using pieces::Kind;
using pieces::OnAll;
using pieces::OnHost;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// A tensor that goes whole, and one that goes by pieces, where pieces are copied.
constexpr int64_t kWhole = 1000;
constexpr int64_t kByPieces = pieces::kSmaller;

// Rank 0 has a tensor on its device that goes whole, and rank 1 one that goes by pieces. All other
// ranks have both in the host's memory.
class StandingCopies : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { ASSERT_TRUE(job_.Open()); }
  void TearDown() override { job_.Close(); }

  int ranks() const { return GetParam().shape.ranks(); }
  // Returns how many sums of ranks do not wait for a copy of their own.
  int others() const { return 2 * ranks() - 2; }
  static std::string NameOf(int tensor) { return tensor == 0 ? "whole" : "pieces"; }
  static int64_t FloatsOf(int tensor) { return tensor == 0 ? kWhole : kByPieces; }
  // Begins both sums on all ranks, each on a thread of its own.
  void Start() {
    ended_ = 0;
    for (int tensor : {0, 1}) {
      for (int rank = 0; rank < ranks(); ++rank) {
        threads_.emplace_back([this, tensor, rank] {
          End& end = ends_[tensor][static_cast<size_t>(rank)];
          if (rank == tensor) {
            DeviceRank device(job_, rank, FloatsOf(tensor), NameOf(tensor));
            end = device.Finish(device.StartAtOnce(BYTEPS_SUM));
          } else {
            end = OnHost(job_, rank, BYTEPS_SUM, FloatsOf(tensor), NameOf(tensor));
          }
          ++ended_;
        });
      }
    }
  }
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  const NothingLeft nothing_left_;
  CApiJob job_{GetParam().shape,
               {"cuda_library=" + LibraryPath(), "stall_check_time_s=3", "operation_timeout_s=6",
                GetParam().shape.local_size > 1 ? "local_reduce=1" : "local_reduce=0"}};
  std::vector<End> ends_[2] = {std::vector<End>(static_cast<size_t>(ranks())),
                               std::vector<End>(static_cast<size_t>(ranks()))};
  std::vector<std::thread> threads_;
  std::atomic<int> ended_ = 0;
};

INSTANTIATE_TEST_SUITE_P(All, StandingCopies,
                         ::testing::Values(Kind{"OneMachine", {1, 2, false}},
                                           Kind{"Servers", {2, 1, true}},
                                           Kind{"Machines", {2, 2, true}}),
                         [](const auto& kind) { return std::string(kind.param.name); });

// The report names rank, device and age, and the operations end at their limit, on every rank.
TEST_P(StandingCopies, AreInTheReportAndEndTheirOperationsAtTheLimit) {
  Start();
  Join();  // the driver has given memory for the copies
  ::testing::internal::CaptureStderr();
  stand_in_hold_copies(1);
  Start();
  EXPECT_TRUE(Await([this] { return ended_ == others(); }));
  // tidy-allow(sleep): the two ranks wait for their copies, which use their memory.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(ended_, others());
  stand_in_hold_copies(0);
  Join();
  const std::string log = ::testing::internal::GetCapturedStderr();
  for (int tensor : {0, 1}) {
    const std::string number = std::to_string(tensor);
    EXPECT_THAT(log, ContainsRegex("stalled for [0-9]+ s: [^\n]*worker " + number +
                                   " [^\n]*waits for a copy of '" + NameOf(tensor) +
                                   "' from cuda:" + number +
                                   ", which has been under way for [0-9] s: its driver"));
    for (const End& end : ends_[tensor]) {
      EXPECT_EQ(end.code, BYTEPS_DEADLINE_EXCEEDED) << end.text;
      EXPECT_THAT(end.text, HasSubstr("cuda:" + number)) << "it names the reason";
    }
  }
  // The names work again.
  Start();
  Join();
  for (int tensor : {0, 1}) {
    for (const End& end : ends_[tensor]) {
      EXPECT_EQ(end.code, BYTEPS_OK) << end.text;
      EXPECT_TRUE(end.output == ends_[tensor][0].output);
    }
  }
}

// A copy uses the tensor's memory, so the end of the session waits for it, in all kinds of job.
TEST_P(StandingCopies, AreAwaitedByWhoClosesTheSession) {
  Start();
  Join();  // the driver has given memory for the copies
  stand_in_hold_copies(1);
  const uint64_t before = stand_in_count().copies;
  std::promise<void> over;
  std::thread with_device([&] {
    DeviceRank device(job_, 0, kWhole, "whole");
    device.StartAtOnce(BYTEPS_SUM);
    over.get_future().wait();
  });
  EXPECT_TRUE(Await([before] { return stand_in_count().copies > before; }));
  std::atomic<bool> closed = false;
  std::thread closes([&] {
    job_.Close();
    closed = true;
  });
  // tidy-allow(sleep): the test shows that nothing happens.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_FALSE(closed);
  const auto let_go = std::chrono::steady_clock::now();
  stand_in_hold_copies(0);
  closes.join();
  EXPECT_LT(std::chrono::steady_clock::now() - let_go, std::chrono::seconds(10));
  over.set_value();
  with_device.join();
}

// If each of so many steps waited for 5 s, a job would take longer than Await does.
constexpr int kSteps = 15;

// Carries out some sums, in which rank 0 has its tensor on a device. Calls `done` when they have
// ended, and frees memory of the device when `over` is ready.
void SumSomeTimes(const CApiJob::Shape& shape, const std::function<void()>& done,
                  const std::shared_future<void>& over) {
  CApiJob job(shape, {"cuda_library=" + LibraryPath(),
                      shape.local_size > 1 ? "local_reduce=1" : "local_reduce=0"});
  ASSERT_TRUE(job.Open());
  {
    DeviceRank device(job, 0, kWhole);
    for (int step = 0; step < kSteps; ++step) {
      std::vector<End> there;
      std::thread others([&] {
        there = OnAll(shape.ranks() - 1,
                      [&](int other) { return OnHost(job, other + 1, BYTEPS_SUM, kWhole); });
      });
      const End here = device.Finish(device.StartAtOnce(BYTEPS_SUM));
      others.join();
      EXPECT_EQ(here.code, BYTEPS_OK) << here.text;
      for (const End& end : there) EXPECT_TRUE(end.output == here.output) << end.text;
    }
    done();
    over.wait();
  }
  job.Close();
}

// The GPU of rank 0 has work that ends only after the steps, so its driver gives no pinned memory.
// In all kinds of job the first tensor uses ordinary memory after 5 s, and the next ones at once.
TEST(PinnedMemoryOfAJob, ThatDoesNotComeHoldsUpNoJob) {
  stand_in_reset();
  {
    const UserContext context;
    const UserStream busy;
    stand_in_hold(busy.get());
    std::promise<void> over;
    const std::shared_future<void> is_over = over.get_future().share();
    const auto before = std::chrono::steady_clock::now();
    std::vector<std::thread> jobs;
    std::atomic<int> done = 0;
    for (const CApiJob::Shape& shape : {CApiJob::Shape{1, 1, false}, CApiJob::Shape{1, 2, false},
                                        CApiJob::Shape{2, 1, true}, CApiJob::Shape{2, 2, true}}) {
      jobs.emplace_back([&, shape] { SumSomeTimes(shape, [&] { ++done; }, is_over); });
    }
    EXPECT_TRUE(Await([&] { return done == 4; })) << "each step waits";
    const auto took = std::chrono::steady_clock::now() - before;
    EXPECT_GE(took, std::chrono::seconds(5)) << "the driver has given memory";
    stand_in_let_go(busy.get());
    over.set_value();
    for (std::thread& job : jobs) job.join();
  }
  stand_in_reset();
}

// The first call of each function stands still, with the driver's lock, one after the other. Other
// tensors of the same ranks go on meanwhile: no thread of the job waits for the driver.
class DriverThatStops : public ::testing::TestWithParam<Kind> {
 protected:
  int ranks() const { return GetParam().shape.ranks(); }
  // Carries out a sum for which rank 0 has its tensor on a device.
  void Sum(const std::string& name, int64_t floats) {
    std::vector<End> there;
    std::thread others([&] {
      there = OnAll(ranks() - 1,
                    [&](int other) { return OnHost(job_, other + 1, BYTEPS_SUM, floats, name); });
    });
    DeviceRank device(job_, 0, floats, name);
    const End here = device.Finish(device.Start(BYTEPS_SUM));
    others.join();
    EXPECT_EQ(here.code, BYTEPS_OK) << here.text;
    for (const End& end : there) EXPECT_TRUE(end.output == here.output) << end.text;
  }
  // Calls `work` on another thread, and lets each call of the driver that stands still go on after
  // `meanwhile`. Returns how many calls did.
  static int WithStops(const std::function<void()>& work, const std::function<void()>& meanwhile) {
    std::atomic<bool> is_over = false;
    std::thread works([&] {
      work();
      is_over = true;
    });
    int stops = 0;
    while (Await([&] { return is_over || stand_in_is_stopped() != 0; }) && !is_over) {
      meanwhile();
      stand_in_unlock();
      ++stops;
    }
    works.join();
    return stops;
  }

  const NothingLeft nothing_left_;
  CApiJob job_{GetParam().shape,
               {"cuda_library=" + LibraryPath(),
                GetParam().shape.local_size > 1 ? "local_reduce=1" : "local_reduce=0"}};
};

INSTANTIATE_TEST_SUITE_P(All, DriverThatStops,
                         ::testing::Values(Kind{"Alone", {1, 1, false}},
                                           Kind{"OneMachine", {1, 2, false}},
                                           Kind{"Servers", {2, 1, true}},
                                           Kind{"Machines", {2, 2, true}}),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(DriverThatStops, InAnyCallHoldsUpNoOtherTensor) {
  ASSERT_TRUE(job_.Open());
  auto sum_beside = [this] {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    do {
      for (const End& end : OnAll(ranks(), [this](int rank) {
             return OnHost(job_, rank, BYTEPS_SUM, 10, "beside");
           })) {
        EXPECT_EQ(end.code, BYTEPS_OK) << end.text;
      }
    } while (std::chrono::steady_clock::now() < until);
  };
  stand_in_stop_each_call();
  const int stops = WithStops(
      [this] {
        Sum("whole", kWhole);
        Sum("pieces", kByPieces);
      },
      sum_beside);
  EXPECT_GE(stops, 15) << "functions";
  EXPECT_GE(WithStops([this] { job_.Close(); }, [] {}), 1);
}

}  // namespace
}  // namespace byteps::standin::stalls
