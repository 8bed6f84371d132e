// Groups whose ranks are processes: sums, a rank that is killed or stopped, ranks that refuse each
// other.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "src/base/count_for_test.h"

namespace byteps::device {
namespace {

// A rank, which does what the test tells it and answers in lines.
class Process {
 public:
  explicit Process(std::vector<std::string> command) {
    int to[2] = {-1, -1};
    int from[2] = {-1, -1};
    EXPECT_EQ(pipe2(to, O_CLOEXEC) + pipe2(from, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    std::vector<char*> arguments;
    for (std::string& one : command) arguments.push_back(one.data());
    arguments.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&id_, arguments[0], &actions, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    input_ = to[1];
    output_ = from[0];
  }
  ~Process() {
    Signal(SIGKILL);
    waitpid(id_, nullptr, 0);
    close(input_);
    close(output_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Signal(int number) const { kill(id_, number); }
  void Say(const std::string& words) const {
    const std::string line = words + "\n";
    EXPECT_EQ(write(input_, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  // Returns the next line. An empty text: none came in time.
  std::string Line() const {
    std::string line;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      pollfd ready{.fd = output_, .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, 1000) <= 0) continue;
      char one = 0;
      if (read(output_, &one, 1) != 1 || one == '\n') return line;
      line += one;
    }
    return "";
  }

 private:
  pid_t id_ = -1;
  int input_ = -1;
  int output_ = -1;
};

constexpr int kVersion = 22803;

class GroupProcesses : public ::testing::Test {
 protected:
  void Start(int size, const std::vector<int>& gpus, int last_version = kVersion) {
    for (int rank = 0; rank < size; ++rank) {
      const int version = rank == size - 1 ? last_version : kVersion;
      ranks_.push_back(std::make_unique<Process>(std::vector<std::string>{
          BYTEPS_NCCL_RANK_PROGRAM, std::to_string(rank), std::to_string(size),
          std::to_string(gpus[static_cast<size_t>(rank)]), std::to_string(version)}));
    }
    All("id");
    const std::string name = ranks_[0]->Line();
    for (size_t rank = 1; rank < ranks_.size(); ++rank) ranks_[rank]->Line();
    All("join " + name);
  }
  void All(const std::string& words) {
    for (auto& rank : ranks_) rank->Say(words);
  }
  void ExpectAll(const std::string& line) {
    for (auto& rank : ranks_) EXPECT_EQ(rank->Line(), line);
  }
  std::vector<std::unique_ptr<Process>> ranks_;
};

TEST_F(GroupProcesses, SumAndLeaveNothing) {
  Start(3, {0, 1, 2});
  ExpectAll("met: ok");
  for (int round = 0; round < 3; ++round) {
    All("sum");
    ExpectAll("sum: ok");
  }
  All("leave");
  EXPECT_EQ(ranks_[0]->Line(), "left: 0 communicators, 0 names, 0 streams");
}

// The others hang in their launch until they abort. Then nothing is left of the group.
TEST_F(GroupProcesses, ARankThatIsKilledHoldsTheOthersUpUntilTheyAbort) {
  Start(3, {0, 1, 2});
  ExpectAll("met: ok");
  ranks_[2]->Signal(SIGKILL);
  ranks_.pop_back();
  All("hang");
  ExpectAll("begun");
  All("abort");
  ExpectAll("ended: peer lost: a rank is lost");
  All("leave");
  for (auto& rank : ranks_) {
    EXPECT_EQ(rank->Line().substr(0, 21), "left: 0 communicators");
  }
}

TEST_F(GroupProcesses, RanksOfOtherVersionsAreTold) {
  Start(2, {0, 1}, 22907);
  for (auto& rank : ranks_) {
    const std::string line = rank->Line();
    EXPECT_NE(line.find("met: unavailable"), std::string::npos) << line;
    EXPECT_NE(line.find("22803 and 22907"), std::string::npos) << line;
  }
}

TEST_F(GroupProcesses, RanksOfOneGpuAreTold) {
  Start(2, {1, 1});
  for (auto& rank : ranks_) {
    const std::string line = rank->Line();
    EXPECT_NE(line.find("same GPU: rank 0 and rank 1"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace byteps::device
