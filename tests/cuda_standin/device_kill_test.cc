// A rank that is killed, or stands still, in the middle of a copy between its device and the host.
// It is a process of its own; all other ranks are sessions of this process.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_standin/child_for_test.h"
#include "tests/cuda_standin/device_rank_for_test.h"

namespace byteps::standin::killed {
namespace {

using byteps::testing::Opened;
using pieces::CApiJob;
using pieces::End;
using pieces::InputOf;
using pieces::kLarge;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kSettings = "STAND_IN_CHILD_SETTINGS";
constexpr const char* kRank = "STAND_IN_CHILD_RANK";
constexpr const char* kTells = "STAND_IN_CHILD_TELLS";
constexpr const char* kHears = "STAND_IN_CHILD_HEARS";

// Returns the same number for the same bytes.
uint64_t MarkOf(const Bytes& bytes) {
  uint64_t mark = 14695981039346656037U;
  for (uint8_t byte : bytes) mark = (mark ^ byte) * 1099511628211U;
  return mark;
}

// Returns the sum of the inputs of one or two ranks.
Bytes SumOf(const std::vector<int>& ranks) {
  if (ranks.empty()) return {};
  std::vector<float> sum(kLarge);
  std::memcpy(sum.data(), InputOf(ranks.front()).data(), kLarge * sizeof(float));
  for (size_t i = 1; i < ranks.size(); ++i) {
    std::vector<float> more(kLarge);
    std::memcpy(more.data(), InputOf(ranks[i]).data(), kLarge * sizeof(float));
    for (size_t at = 0; at < sum.size(); ++at) sum[at] += more[at];
  }
  Bytes bytes(kLarge * sizeof(float));
  std::memcpy(bytes.data(), sum.data(), bytes.size());
  return bytes;
}

// Begins the sum of a large tensor on a device.
byteps_handle StartSum(byteps_session* session, UserMemory& memory, int rank) {
  memory.Set(InputOf(rank));
  byteps_request request =
      pieces::RequestOf(BYTEPS_SUM, memory.data(), memory.data(), pieces::kLarge);
  request.memory = BYTEPS_MEMORY_DEVICE;
  request.stream = BYTEPS_NO_STREAM;
  byteps_handle handle = 0;
  byteps_error error{};
  EXPECT_EQ(byteps_start(session, &request, &handle, &error), BYTEPS_OK) << error.message;
  return handle;
}

// The process that is killed, or stopped; the tests below start it. It tells when it is in the
// middle of its copies, goes on when it hears so, and tells how its sum has ended.
TEST(RankInAProcess, DISABLED_Child) {
  const char* const settings = std::getenv(kSettings);
  if (settings == nullptr) return;
  const int tells = std::atoi(std::getenv(kTells));
  byteps_session* const session = Opened(SettingsIn(settings));
  {
    const UserContext context;
    UserMemory memory(kLarge * sizeof(float));
    stand_in_hold_copies(1);
    const byteps_handle handle = StartSum(session, memory, std::atoi(std::getenv(kRank)));
    while (stand_in_count().copies == 0) std::this_thread::yield();
    EXPECT_EQ(write(tells, "x", 1), 1);
    char go = 0;
    EXPECT_EQ(read(std::atoi(std::getenv(kHears)), &go, 1), 1);
    stand_in_hold_copies(0);
    const End end = pieces::WaitFor(session, handle);
    const std::string told = std::to_string(end.code) + " " +
                             std::to_string(MarkOf(memory.Read())) + " " + end.text + "\n";
    EXPECT_EQ(write(tells, told.data(), told.size()), static_cast<ssize_t>(told.size()));
  }
  byteps_close(session);
}

struct Kind {
  const char* name;
  CApiJob::Shape shape;
  int rank;  // in the process that is killed
};
void PrintTo(const Kind& kind, std::ostream* to) { *to << kind.name; }

class RankInACopy : public ::testing::TestWithParam<Kind> {
 protected:
  ~RankInACopy() override {
    for (int end : {hears_, goes_}) close(end);
    if (child_ > 0) waitpid(child_, nullptr, 0);
  }
  int child_rank() const { return GetParam().rank; }
  int ranks() const { return GetParam().shape.ranks(); }
  bool IsOfItsMachine(int rank) const {
    const int size = GetParam().shape.local_size;
    return rank / size == child_rank() / size;
  }

  // Begins the sum on all ranks, and comes back when the child is in the middle of its copies.
  void Start(const std::vector<std::string>& more) {
    std::vector<std::string> settings = {"cuda_library=" + LibraryPath()};
    if (GetParam().shape.local_size > 1) settings.emplace_back("local_reduce=1");
    if (GetParam().shape.has_server) settings.emplace_back("min_workers=1");
    settings.insert(settings.end(), more.begin(), more.end());
    job_.emplace(GetParam().shape, settings);
    int tells[2] = {-1, -1};
    int hears[2] = {-1, -1};
    ASSERT_EQ(pipe(tells), 0);
    ASSERT_EQ(pipe(hears), 0);
    StartChild(tells[1], hears[0]);  // before other threads read the environment
    job_->StartServices();
    close(tells[1]);
    close(hears[0]);
    hears_ = tells[0];
    goes_ = hears[1];
    for (int rank = 0; rank < ranks(); ++rank) {
      if (rank != child_rank()) threads_.emplace_back([this, rank] { RunRank(rank); });
    }
    pollfd in_the_middle{hears_, POLLIN, 0};
    EXPECT_EQ(poll(&in_the_middle, 1, 60000), 1);
    char told = 0;
    EXPECT_EQ(read(hears_, &told, 1), 1) << "the child could not begin";
  }
  void Kill(int signal) const { EXPECT_EQ(::kill(child_, signal), 0); }
  // Lets the child go on, and returns how its sum has ended: its code, the mark of its bytes, and
  // its error.
  std::string LetGo() const {
    EXPECT_EQ(write(goes_, "g", 1), 1);
    std::string told;
    for (char one = 0; read(hears_, &one, 1) == 1 && one != '\n';) told += one;
    return told;
  }
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // Returns whether a rank ends because it, or another one of its machine, was lost.
  static bool IsLoss(int code) { return code == BYTEPS_PEER_LOST || code == BYTEPS_EVICTED; }
  // The ranks of the child's machine hear that it was lost. The others have their sum.
  void ExpectLoss() const {
    std::vector<int> left;
    for (int rank = 0; rank < ranks(); ++rank) {
      if (!IsOfItsMachine(rank)) left.push_back(rank);
    }
    const Bytes sum = SumOf(left);
    for (int rank = 0; rank < ranks(); ++rank) {
      if (rank == child_rank()) continue;
      const End& end = ends_[static_cast<size_t>(rank)];
      if (IsOfItsMachine(rank)) {
        EXPECT_TRUE(IsLoss(end.code)) << end.text;
        const std::string lost = "worker " + std::to_string(child_rank());
        EXPECT_THAT(end.text, AllOf(HasSubstr(lost), HasSubstr(" was lost: ")));
      } else {
        EXPECT_EQ(end.code, BYTEPS_OK) << end.text;
        EXPECT_TRUE(end.output == sum);
      }
    }
  }

  const NothingLeft nothing_left_;
  std::vector<End> ends_ = std::vector<End>(static_cast<size_t>(ranks()));

 private:
  void RunRank(int rank) {
    byteps_session* const session = Opened(job_->WorkerSettings(rank));
    {
      const UserContext context;
      UserMemory memory(kLarge * sizeof(float));
      End& end = ends_[static_cast<size_t>(rank)];
      end = pieces::WaitFor(session, StartSum(session, memory, rank));
      end.output = memory.Read();
    }
    byteps_close(session);
  }
  void StartChild(int tells, int hears) {
    child_ = StartTest("RankInAProcess.DISABLED_Child",
                       {{kSettings, LinesOf(job_->WorkerSettings(child_rank()))},
                        {kRank, std::to_string(child_rank())},
                        {kTells, std::to_string(tells)},
                        {kHears, std::to_string(hears)}});
  }

  std::optional<CApiJob> job_;
  std::vector<std::thread> threads_;
  pid_t child_ = 0;
  int hears_ = -1;
  int goes_ = -1;
};

INSTANTIATE_TEST_SUITE_P(All, RankInACopy,
                         ::testing::Values(Kind{"OneMachine", {1, 2, false}, 1},
                                           Kind{"Servers", {2, 1, true}, 1},
                                           Kind{"Machines", {2, 2, true}, 1},
                                           Kind{"MachinesFirstRank", {2, 2, true}, 2}),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(RankInACopy, ThatIsKilledIsNamedToTheOthersWhoLeaveNothing) {
  Start({});
  Kill(SIGKILL);
  Join();
  ExpectLoss();
}

// No limit passes, so the sum ends well.
TEST_P(RankInACopy, ThatStandsStillForAWhileCostsTimeOnly) {
  Start({});
  Kill(SIGSTOP);
  // tidy-allow(sleep): the child stands still meanwhile.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  Kill(SIGCONT);
  const std::string told = LetGo();
  Join();
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank == child_rank()) continue;
    const End& end = ends_[static_cast<size_t>(rank)];
    EXPECT_EQ(end.code, BYTEPS_OK) << end.text;
    EXPECT_EQ(told, "0 " + std::to_string(MarkOf(end.output)) + " ");
  }
}

// It hears of that when it goes on.
TEST_P(RankInACopy, ThatStandsStillForTooLongIsNamed) {
  Start({"heartbeat_timeout_ms=2000", "eviction_timeout_ms=2000"});
  Kill(SIGSTOP);
  Join();
  ExpectLoss();
  Kill(SIGCONT);
  EXPECT_TRUE(IsLoss(std::stoi(LetGo())));
}

}  // namespace
}  // namespace byteps::standin::killed
