// Ranks of a machine as real processes, which are stopped and killed in every state of a block.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "src/local/local_for_test.h"
#include "src/local/meeting.h"
#include "src/local/packet_socket.h"
#include "src/local/window.h"

namespace byteps::local {
namespace {

constexpr uint32_t kSize = 4;

// Runs a process and reads its lines.
class Process {
 public:
  Process(const std::vector<std::string>& arguments) {  // NOLINT: explicit would say nothing here
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    std::vector<char*> argv;
    for (const std::string& one : arguments) argv.push_back(const_cast<char*>(one.c_str()));
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
    output_ = UniqueFd(ends[0]);
    UniqueFd writing(ends[1]);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  void Signal(int number) const { kill(pid_, number); }
  // Returns when the process has stopped itself.
  void AwaitStop() const {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
    EXPECT_TRUE(WIFSTOPPED(status));
  }

  // Returns the next line; an empty text at the end, or if no line has come for a long time.
  std::string Line() {
    std::string line;
    char one = 0;
    while (PollReadable({output_.get()}, In(2 * kLong))[0] && read(output_.get(), &one, 1) == 1) {
      if (one == '\n') return line;
      line += one;
    }
    return line;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd output_;
};

class ProcessesTest : public testing::Test {
 protected:
  void Start(RankSet stoppers, const std::string& state, int signal, Duration limit) {
    for (uint32_t rank = 0; rank < kSize; ++rank) {
      ranks_.push_back(std::make_unique<Process>(std::vector<std::string>{
          BYTEPS_LOCAL_MEMBER, Job(), std::to_string(rank), std::to_string(kSize),
          std::to_string(stoppers), state, std::to_string(signal),
          std::to_string(std::chrono::duration_cast<milliseconds>(limit).count())}));
    }
  }

  static std::string Job() { return "processes of " + std::to_string(getpid()); }

  void SetUp() override { before_ = Traces(); }
  // Checks that nothing is left of a job, however it ended.
  void TearDown() override {
    ranks_.clear();
    EXPECT_EQ(Traces(), before_);
    MeetingOptions options;
    options.job = Job();
    options.secret = "secret";
    std::ifstream sockets("/proc/net/unix");
    std::string all{std::istreambuf_iterator<char>(sockets), std::istreambuf_iterator<char>()};
    EXPECT_EQ(all.find(MeetingName(options)), std::string::npos);
  }

  // Counts the descriptors of this process.
  static size_t Traces() {
    auto all = std::filesystem::directory_iterator("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }

  std::vector<std::unique_ptr<Process>> ranks_;
  size_t before_ = 0;
};

bool Has(RankSet set, uint32_t rank) { return (set >> rank & 1) != 0; }

TEST_F(ProcessesTest, AllSumAndEnd) {
  Start(0, "", 0, kLong);
  for (auto& rank : ranks_) EXPECT_EQ(rank->Line(), "ok");
}

// The parameter has the ranks that are killed, and the state in which that happens.
class KilledTest : public ProcessesTest,
                   public testing::WithParamInterface<std::tuple<RankSet, const char*>> {};

TEST_P(KilledTest, TheOthersEndWithAnErrorThatNamesTheRank) {
  auto [killed, state] = GetParam();
  Start(killed, state, SIGKILL, kLong);
  for (uint32_t rank = 0; rank < kSize; ++rank) {
    std::string line = ranks_[rank]->Line();
    // If two ranks are killed, one may hear of the other's end before its own.
    if (Has(killed, rank) && line.empty()) continue;
    EXPECT_NE(killed, RankSet{1} << rank) << line;
    // A rank that has all that it needs has the sum.
    std::string when = state;
    if ((when == "filled" || when == "decided" || when == "reading") && line == "ok") continue;
    EXPECT_EQ(line.rfind("peer lost: the process of local rank", 0), 0u) << line;
    bool named = false;
    for (uint32_t one = 0; one < kSize; ++one) {
      named = named || (Has(killed, one) && line.find(std::to_string(one)) != std::string::npos);
    }
    EXPECT_TRUE(named) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(InEveryState, KilledTest,
                         testing::Combine(testing::Values<RankSet>(1, 4, 6),
                                          testing::Values("met", "admitted", "filling", "filled",
                                                          "summing", "decided", "reading")));

// A rank that is not the carrier stops in a state.
class FrozenTest : public ProcessesTest, public testing::WithParamInterface<const char*> {};

TEST_P(FrozenTest, TheOthersSumBesideItAndAllGoOnWhenItThaws) {
  Start(4, GetParam(), SIGSTOP, kLong);
  ranks_[2]->AwaitStop();
  for (uint32_t rank : {0, 1, 3}) EXPECT_EQ(ranks_[rank]->Line(), "beside");
  ranks_[2]->Signal(SIGCONT);
  for (auto& rank : ranks_) EXPECT_EQ(rank->Line(), "ok");
}

INSTANTIATE_TEST_SUITE_P(InEveryState, FrozenTest,
                         testing::Values("admitted", "filling", "filled", "decided", "reading"));

// In these states the others need the rank that stops.
class NeededTest : public ProcessesTest, public testing::WithParamInterface<const char*> {};

TEST_P(NeededTest, TheOthersGiveUpInTimeAndNameIt) {
  std::string state = GetParam();
  Start(4, state, SIGSTOP, kSoon);
  ranks_[2]->AwaitStop();
  for (uint32_t rank : {0, 1, 3}) {
    EXPECT_EQ(ranks_[rank]->Line(), "beside");
    std::string line = ranks_[rank]->Line();
    EXPECT_EQ(line.rfind("deadline exceeded: local rank 2 ", 0), 0u) << line;
  }
}

TEST_P(NeededTest, TheOthersHearWhenItIsKilled) {
  Start(4, GetParam(), SIGSTOP, kLong);
  ranks_[2]->AwaitStop();
  for (uint32_t rank : {0, 1, 3}) EXPECT_EQ(ranks_[rank]->Line(), "beside");
  ranks_[2]->Signal(SIGKILL);
  for (uint32_t rank : {0, 1, 3}) {
    std::string line = ranks_[rank]->Line();
    EXPECT_EQ(line.rfind("peer lost: the process of local rank 2 ", 0), 0u) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(InSuchStates, NeededTest,
                         testing::Values("admitted", "filling", "summing"));

}  // namespace
}  // namespace byteps::local
