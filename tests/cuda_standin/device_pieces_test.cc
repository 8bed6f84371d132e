// Large tensors in device memory, behind the C interface, over the stand-in for the CUDA driver.
// Where there is more than one rank, they are copied piece by piece: by the lanes of ranks that are
// members by themselves, and into and out of the window on machines that sum first. The bits are
// those of host memory in all kinds of job, and no copy uses memory that is not pinned.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_standin/device_rank_for_test.h"

namespace byteps::standin::pieces {
namespace {

class LargeTensors : public ::testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(All, LargeTensors,
                         ::testing::Values(Kind{"Alone", {1, 1, false}, false},
                                           Kind{"OneMachine", {1, 3, false}, true},
                                           Kind{"Servers", {3, 1, true}, true},
                                           Kind{"Machines", {2, 2, true}, true}),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(LargeTensors, HaveTheBitsOfHostMemory) {
  const NothingLeft nothing_left;
  const int ranks = GetParam().shape.ranks();
  std::vector<std::string> settings = {"cuda_library=" + LibraryPath()};
  if (GetParam().shape.local_size > 1) settings.emplace_back("local_reduce=1");
  CApiJob job(GetParam().shape, settings);
  ASSERT_TRUE(job.Open());
  stand_in_delay(1, 50);
  for (byteps_op op : {BYTEPS_SUM, BYTEPS_AVERAGE, BYTEPS_MIN, BYTEPS_MAX, BYTEPS_PRODUCT}) {
    SCOPED_TRACE("op " + std::to_string(op));
    const std::vector<End> expected = OnAll(ranks, [&](int rank) { return OnHost(job, rank, op); });
    const uint64_t before = stand_in_count().copies;
    const std::vector<End> ends = OnAll(ranks, [&](int rank) {
      DeviceRank device(job, rank);
      return device.Finish(device.Start(op));
    });
    const uint64_t copies = stand_in_count().copies - before;
    const auto whole = 2 * static_cast<uint64_t>(ranks);
    if (GetParam().by_pieces) {
      EXPECT_GT(copies, whole) << "pieces are copied one by one";
    } else {
      EXPECT_EQ(copies, whole) << "one copy down and one up";
    }
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      EXPECT_EQ(ends[rank].code, BYTEPS_OK) << ends[rank].text;
      EXPECT_TRUE(ends[rank].output == expected[rank].output) << "rank " << rank;
    }
  }
  job.Close();
}

// Jobs in which only one rank has its tensor on a device.
class OneOnADevice : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { ASSERT_TRUE(job_.Open()); }
  void TearDown() override { job_.Close(); }

  int ranks() const { return GetParam().shape.ranks(); }
  // Begins the sum of all ranks, and comes back in the middle of the first copy from the device.
  byteps_handle StartHeld(DeviceRank& device, int64_t floats, int64_t limit_ms = 0) {
    stand_in_hold_copies(1);
    const uint64_t before = stand_in_count().copies;
    StartOthers(floats);
    const byteps_handle handle = device.Start(BYTEPS_SUM, limit_ms);
    EXPECT_TRUE(Await([before] { return stand_in_count().copies > before; }));
    return handle;
  }
  // Carries out the sum on all other ranks, on threads of their own.
  void StartOthers(int64_t floats = kLarge) {
    others_begun_.emplace(ranks() - 1);
    others_ = std::thread([this, floats] {
      there_ = OnAll(ranks() - 1, [this, floats](int other) {
        return OnHost(job_, other < device_rank_ ? other : other + 1, BYTEPS_SUM, floats, "w",
                      [this] { others_begun_->count_down(); });
      });
    });
  }
  const std::vector<End>& FinishOthers() {
    others_.join();
    return there_;
  }
  void ExpectSum(const End& here) {
    EXPECT_EQ(here.code, BYTEPS_OK) << here.text;
    for (const End& other : FinishOthers()) {
      EXPECT_EQ(other.code, BYTEPS_OK) << other.text;
      EXPECT_TRUE(other.output == here.output);
    }
  }
  // Expects the error of a copy of rank 0's input on all ranks.
  void ExpectNoInput(const End& here) {
    std::vector<End> ends = FinishOthers();
    ends.push_back(here);
    for (const End& one : ends) {
      EXPECT_EQ(one.code, BYTEPS_UNAVAILABLE) << one.text;
      const std::string expected = "rank 0 has no input for tensor 'w': a copy on cuda:0: ";
      EXPECT_NE(one.text.find(expected), std::string::npos) << one.text;
      EXPECT_NE(one.text.find("CUDA_ERROR_INVALID_VALUE"), std::string::npos) << one.text;
    }
  }
  // Carries out the sum once more, which must work.
  void SumAgain(DeviceRank& device, int64_t floats = kLarge) {
    StartOthers(floats);
    ExpectSum(device.Finish(device.Start(BYTEPS_SUM)));
  }
  // Exchanges small tensors of host memory on these ranks, for so long and in more than ten rounds.
  // Returns how many rounds have ended well.
  int ExchangeOthers(std::chrono::milliseconds time, const std::vector<int>& among, int set = 0) {
    int rounds = 0;
    const auto until = std::chrono::steady_clock::now() + time;
    const int64_t one = 1;
    do {
      std::vector<float> values(among.size(), 1);
      std::vector<byteps_handle> handles(among.size());
      for (size_t i = 0; i < among.size(); ++i) {
        byteps_request request = RequestOf(BYTEPS_SUM, &values[i], &values[i], one);
        request.name = "x";
        request.process_set = set;
        EXPECT_EQ(byteps_start(job_.session(among[i]), &request, &handles[i], nullptr), BYTEPS_OK);
      }
      for (size_t i = 0; i < among.size(); ++i) {
        const End end = WaitFor(job_.session(among[i]), handles[i]);
        EXPECT_EQ(end.code, BYTEPS_OK) << end.text;
        if (end.code != BYTEPS_OK) return rounds;
      }
      ++rounds;
    } while (rounds <= 10 || std::chrono::steady_clock::now() < until);
    return rounds;
  }
  std::vector<int> AllRanks() const {
    std::vector<int> all;
    for (int rank = 0; rank < ranks(); ++rank) all.push_back(rank);
    return all;
  }
  static std::chrono::seconds Standstill() {
    const char* const asked = std::getenv("DEVICE_STANDSTILL_S");
    return std::chrono::seconds(asked == nullptr ? 2 : std::atoi(asked));
  }

  const NothingLeft nothing_left_;
  int device_rank_ = 0;
  std::vector<End> there_;
  std::optional<std::latch> others_begun_;
  std::thread others_;
  // Pieces that wait for the device keep their credit, so there is enough.
  CApiJob job_{
      GetParam().shape,
      {"cuda_library=" + LibraryPath(), "heartbeat_timeout_ms=1500", "credit_bytes=4000000",
       GetParam().shape.local_size > 1 ? "local_reduce=1" : "local_reduce=0"}};
};

INSTANTIATE_TEST_SUITE_P(All, OneOnADevice,
                         ::testing::Values(Kind{"OneMachine", {1, 2, false}, true},
                                           Kind{"Servers", {2, 1, true}, true},
                                           Kind{"Machines", {2, 2, true}, true}),
                         [](const auto& kind) { return std::string(kind.param.name); });

// The driver answers nobody, in the middle of copies, for longer than the job waits for a silent
// process.
TEST_P(OneOnADevice, ADriverThatStandsStillHoldsUpNoOtherTensor) {
  DeviceRank device(job_, 0, kSmaller);
  const byteps_handle here = StartHeld(device, kSmaller);
  stand_in_lock();
  EXPECT_GT(ExchangeOthers(Standstill(), AllRanks()), 10);
  stand_in_hold_copies(0);
  stand_in_unlock();
  ExpectSum(device.Finish(here));
}

// Here copies to and from the device have all blocks of a machine but the reserve.
TEST_P(OneOnADevice, ADriverThatStandsStillHoldsUpNoOtherRanks) {
  if (ranks() < 4) return;
  device_rank_ = 1;
  const std::vector<int> others = {0, 2, 3};
  const std::vector<int32_t> members = {0, 2, 3};
  for (int rank : AllRanks()) {
    EXPECT_EQ(
        byteps_add_process_set(job_.session(rank), members.data(), members.size(), 1, nullptr),
        BYTEPS_OK);
  }
  DeviceRank device(job_, 1);
  const byteps_handle here = StartHeld(device, kLarge);
  stand_in_lock();
  EXPECT_GT(ExchangeOthers(Standstill(), others, 1), 10);
  stand_in_hold_copies(0);
  stand_in_unlock();
  ExpectSum(device.Finish(here));
}

// At its limit the operation ends on the other ranks. Here it ends when no copy uses its memory.
TEST_P(OneOnADevice, AtTheLimitOnlyThisRankWaitsForItsDriver) {
  DeviceRank device(job_, 0, kSmaller);
  const byteps_handle here = StartHeld(device, kSmaller, 2000);
  stand_in_lock();
  for (const End& other : FinishOthers()) {
    EXPECT_EQ(other.code, BYTEPS_DEADLINE_EXCEEDED) << other.text;
  }
  EXPECT_GT(ExchangeOthers(std::chrono::milliseconds(300), AllRanks()), 10);
  stand_in_hold_copies(0);
  stand_in_unlock();
  const End end = device.Finish(here);
  EXPECT_EQ(end.code, BYTEPS_DEADLINE_EXCEEDED) << end.text;
  SumAgain(device, kSmaller);
}

// A copy from the device fails.
TEST_P(OneOnADevice, ACopyThatFailsIsTheErrorOfAllRanks) {
  DeviceRank device(job_, 0);
  StartOthers();
  stand_in_fail("cuMemcpyAsync", 1, CUDA_ERROR_INVALID_VALUE, 0);
  ExpectNoInput(device.Finish(device.Start(BYTEPS_SUM)));
  SumAgain(device);
}

// No copy ends before the second one fails, and all pieces have their blocks by then. The driver
// stands still until the copies wait in the line: a line begins no copy while it waits for another.
TEST_P(OneOnADevice, ASecondCopyThatFailsIsTheErrorOfAllRanks) {
  const int64_t floats = GetParam().shape.has_server ? kSmaller : kLarge;
  DeviceRank device(job_, 0, floats);
  SumAgain(device, floats);  // the driver has given memory for the copies
  stand_in_lock();
  stand_in_hold_copies(1);
  stand_in_fail("cuMemcpyAsync", 2, CUDA_ERROR_INVALID_VALUE, 0);
  StartOthers(floats);
  const byteps_handle here = device.StartAtOnce(BYTEPS_SUM);
  EXPECT_GT(ExchangeOthers(std::chrono::milliseconds(100), AllRanks()), 10);
  stand_in_unlock();
  EXPECT_TRUE(Await([] { return stand_in_count().failures == 0; }));
  stand_in_hold_copies(0);
  ExpectNoInput(device.Finish(here));
  SumAgain(device, floats);
}

// Sessions that are shut down in the middle of copies of pieces leave nothing. A rank may hear
// first that another one has left, or that its block was withdrawn.
TEST_P(OneOnADevice, AShutdownInTheMiddleOfCopiesEndsTheOperation) {
  DeviceRank device(job_, 0);
  const byteps_handle here = StartHeld(device, kLarge);
  others_begun_->wait();
  std::thread goes_on([] {
    // tidy-allow(sleep): the sessions are in the middle of their ends.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    stand_in_hold_copies(0);
  });
  OnAll(ranks(), [this](int rank) {
    byteps_error error{};
    EXPECT_EQ(byteps_shutdown(job_.session(rank), &error), BYTEPS_OK) << error.message;
    return End{};
  });
  std::vector<End> ends = FinishOthers();
  ends.push_back(device.Finish(here));
  for (const End& one : ends) {
    const bool is_end_of_job = one.code == BYTEPS_SHUTDOWN || one.code == BYTEPS_PEER_LOST ||
                               one.code == BYTEPS_UNAVAILABLE;
    EXPECT_TRUE(is_end_of_job || one.code == BYTEPS_OK) << one.code << ": " << one.text;
  }
  goes_on.join();
}

// The driver cannot pin the window, so it copies through memory of its own.
TEST_P(OneOnADevice, AWindowThatCannotBePinnedCostsTimeOnly) {
  stand_in_fail("cuMemHostRegister_v2", 1, CUDA_ERROR_NOT_SUPPORTED, 1);
  DeviceRank device(job_, 0);
  SumAgain(device);
  const bool has_window = GetParam().shape.local_size > 1;
  EXPECT_EQ(stand_in_count().pageable_copies > 0, has_window);
  job_.Close();
  stand_in_reset();
}

}  // namespace
}  // namespace byteps::standin::pieces
