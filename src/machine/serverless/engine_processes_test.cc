// Runs the ranks of a machine as real processes: random operations from seeds, with ranks that are
// late, and ranks that are killed at random points.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/local/packet_socket.h"
#include "src/local/unique_fd.h"
#include "src/machine/room/words.h"

namespace byteps::machine {
namespace {

constexpr Duration kPatience = seconds(200);

// A member process. The test can read its only line.
class MemberProcess {
 public:
  explicit MemberProcess(const std::vector<std::string>& arguments) {
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
    output_ = local::UniqueFd(ends[0]);
    local::UniqueFd writing(ends[1]);
  }
  MemberProcess(const MemberProcess&) = delete;
  MemberProcess& operator=(const MemberProcess&) = delete;
  void Signal(int number) const { kill(pid_, number); }
  ~MemberProcess() {
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  // Returns all that the process writes until it ends.
  std::string Said() {
    std::string text;
    char one = 0;
    const Time deadline = std::chrono::steady_clock::now() + kPatience;
    while (local::PollReadable({output_.get()}, deadline)[0] && read(output_.get(), &one, 1) == 1) {
      text += one;
    }
    return text;
  }

 private:
  pid_t pid_ = -1;
  local::UniqueFd output_;
};

std::vector<std::string> Play(uint32_t size, uint32_t seed, RankSet killed, uint32_t kill_at) {
  std::vector<std::unique_ptr<MemberProcess>> ranks;
  std::string job = "engines of " + std::to_string(getpid());
  for (uint32_t rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<MemberProcess>(std::vector<std::string>{
        BYTEPS_MACHINE_MEMBER, job, std::to_string(rank), std::to_string(size),
        std::to_string(seed), std::to_string(killed), std::to_string(kill_at)}));
  }
  std::vector<std::string> said;
  for (auto& rank : ranks) said.push_back(rank->Said());
  return said;
}

// A campaign takes other seeds than the default: --gtest_random_seed=N.
constexpr uint32_t kEngineSeeds = 10;

class EngineSeeds : public testing::TestWithParam<uint32_t> {
 protected:
  const uint32_t seed =
      GetParam() + kEngineSeeds * static_cast<uint32_t>(GTEST_FLAG_GET(random_seed));
};

TEST_P(EngineSeeds, AllGetWhatTheyShall) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  uint32_t size = 2 + random() % 4;
  std::vector<std::string> said = Play(size, seed, 0, 0);
  for (const std::string& one : said) EXPECT_EQ(one, "ok\n");
}

TEST_P(EngineSeeds, WhoIsKilledIsNamedToTheOthers) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(1000 + seed);
  uint32_t size = 2 + random() % 4;
  RankSet killed = 1 + random() % ((RankSet{1} << size) - 1);
  std::vector<std::string> said = Play(size, seed, killed, random() % 12);
  for (uint32_t rank = 0; rank < size; ++rank) {
    bool is_dead = (killed >> rank & 1) != 0;
    // If several are killed, one of them may hear of another's end before its own.
    if (is_dead && said[rank].empty()) continue;
    EXPECT_EQ(said[rank].rfind("peer lost: worker ", 0), 0u) << said[rank];
    bool named = false;
    for (uint32_t one = 0; one < size; ++one) {
      std::string name = "worker " + std::to_string(one) + " was lost: its process has ended";
      bool is_this = said[rank].find(name) != std::string::npos;
      named = named || ((killed >> one & 1) != 0 && is_this);
    }
    EXPECT_TRUE(named) << said[rank];
  }
}

// The frozen rank stops in the middle of a batch; the others may be through with the batch.
TEST(EngineProcesses, WhoIsFrozenIsGivenUpByNameAndToldSoWhenItThaws) {
  std::vector<std::unique_ptr<MemberProcess>> ranks;
  std::string job = "frozen of " + std::to_string(getpid());
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<MemberProcess>(std::vector<std::string>{
        BYTEPS_MACHINE_MEMBER, job, std::to_string(rank), "3", "5", "2", "3", "freeze"}));
  }
  for (uint32_t rank : {0, 2}) {
    std::string said = ranks[rank]->Said();
    EXPECT_EQ(said.rfind("peer lost: worker 1 was lost: it has been silent", 0), 0u) << said;
  }
  ranks[1]->Signal(SIGCONT);
  std::string said = ranks[1]->Said();
  EXPECT_EQ(said.rfind("evicted: this worker was declared lost", 0), 0u) << said;
}

INSTANTIATE_TEST_SUITE_P(From, EngineSeeds, testing::Range(1u, 1 + kEngineSeeds));

}  // namespace
}  // namespace byteps::machine
