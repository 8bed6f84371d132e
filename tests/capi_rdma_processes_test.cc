// Tests jobs over RDMA in several processes, with the stand-in for libibverbs: the ways of their
// bytes, processes that are killed, and processes that want different transports.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "byteps/byteps.h"
#include "src/transport/rdma/verbs_standin_for_test.h"
#include "tests/capi_job.h"

extern char** environ;

namespace byteps::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kStepElements = 300000;
constexpr int kStepWaitMs = 60000;

using Variables = std::map<std::string, std::string>;

// The processes of a job; each has its own stand-in, and they reach each other through sockets.
class Processes {
 public:
  Processes() {
    char name[] = "/tmp/byteps-rdma-XXXXXX";
    folder_ = mkdtemp(name);
    common_ = {{"DMLC_NUM_WORKER", "2"},
               {"DMLC_NUM_SERVER", "2"},
               {"DMLC_PS_ROOT_URI", "127.0.0.1"},
               {"GTEST_OUTPUT", ""},
               {"BYTEPS_JOB_SECRET", "secret"},
               {"BYTEPS_SHARED_LINKS", "0"},
               {"BYTEPS_LOG_LEVEL", "info"},
               // On a busy machine a process stands still, and lives. Its kernel confirms nothing
               // in its place, other than over TCP.
               {"BYTEPS_EVICTION_TIMEOUT_MS", "60000"},
               {"BYTEPS_LINK_TIMEOUT_MS", "60000"},
               {"BYTEPS_TRANSPORT", "rdma"},
               {"BYTEPS_RDMA_LIBRARY", standin::LibraryPath()},
               {"BYTEPS_VERBS_STANDIN_GIDS", "127.0.0.1,127.0.0.2,127.0.0.3"},
               {"BYTEPS_VERBS_STANDIN_COUNTS", folder_ + "/counts"}};
  }
  ~Processes() {
    for (auto& [id, running] : running_) {
      if (!running) continue;
      kill(id, SIGKILL);
      waitpid(id, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  const std::string& folder() const { return folder_; }
  void Set(const std::string& name, const std::string& value) { common_[name] = value; }
  pid_t Start(const std::vector<std::string>& command, Variables more) {
    more.insert(common_.begin(), common_.end());
    std::vector<std::string> variables;
    for (const auto& [name, value] : more) variables.push_back(name + "=" + value);
    for (char** one = environ; *one != nullptr; ++one) {
      if (more.count(std::string(*one).substr(0, std::string(*one).find('='))) == 0) {
        variables.emplace_back(*one);
      }
    }
    const std::string output = folder_ + "/output-" + std::to_string(running_.size());
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_CREAT | O_WRONLY | O_APPEND,
                                     0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t id = -1;
    EXPECT_EQ(posix_spawn(&id, command[0].c_str(), &actions, nullptr, Pointers(command).data(),
                          Pointers(variables).data()),
              0)
        << command[0];
    posix_spawn_file_actions_destroy(&actions);
    running_[id] = true;
    outputs_[id] = output;
    return id;
  }
  // Returns the exit code; -1: a signal ended it.
  int Wait(pid_t id) {
    int status = 0;
    waitpid(id, &status, 0);
    running_[id] = false;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // Returns what the process has printed so far.
  std::string OutputOf(pid_t id) const {
    std::stringstream text;
    text << std::ifstream(outputs_.at(id)).rdbuf();
    return text.str();
  }
  // Returns a line for each process that has ended in order.
  std::vector<std::string> Counts() const {
    std::ifstream file(folder_ + "/counts");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

 private:
  static std::vector<char*> Pointers(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
    return pointers;
  }

  std::string folder_;
  Variables common_;
  std::map<pid_t, bool> running_;
  std::map<pid_t, std::string> outputs_;
};

// ---- the worker ----

// The bytes that the TCP connections of this process have carried in both directions, as the kernel
// counts them, without those to the scheduler.
struct TcpBytes {
  size_t connections = 0;
  uint64_t bytes = 0;
  bool confirmed = true;  // the peers have all that was sent
};

TcpBytes TcpBytesOfData() {
  TcpBytes all;
  const int root_port = std::atoi(std::getenv("DMLC_PS_ROOT_PORT"));
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_in peer{};
    socklen_t peer_bytes = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0) continue;
    if (peer.sin_family != AF_INET || ntohs(peer.sin_port) == root_port) continue;
    tcp_info info{};
    socklen_t info_bytes = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_bytes) != 0) continue;
    ++all.connections;
    all.bytes += info.tcpi_bytes_acked + info.tcpi_bytes_received;
    all.confirmed = all.confirmed && info.tcpi_unacked == 0;
  }
  return all;
}

// Returns them once the peers have confirmed all that was sent before.
TcpBytes ConfirmedTcpBytes() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  TcpBytes now = TcpBytesOfData();
  while (!now.confirmed && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
    now = TcpBytesOfData();
  }
  return now;
}

// The program of a worker process: it sums until it has done all steps.
TEST(CApiRdmaProcess, DISABLED_Worker) {
  byteps_error error{};
  byteps_session* session = nullptr;
  ASSERT_EQ(byteps_open(nullptr, 0, &session, &error), BYTEPS_OK) << error.message;
  const int rank = std::atoi(std::getenv("DMLC_WORKER_ID"));
  const int steps = std::atoi(std::getenv("TEST_STEPS"));
  TcpBytes begin;
  for (int step = 0; step < steps; ++step) {
    std::vector<float> data(kStepElements, static_cast<float>(rank + step));
    EndWell(session, BeginSum(session, data));
    if (HasFailure()) break;
    // The sum of both ranks, or of this one once the other is lost. Each piece has one or the
    // other.
    const auto both = static_cast<float>(1 + 2 * step);
    const auto alone = static_cast<float>(rank + step);
    const bool may_lose = std::getenv("BYTEPS_MIN_WORKERS") != nullptr;
    EXPECT_TRUE(std::ranges::all_of(
        data, [&](float one) { return one == both || (may_lose && one == alone); }))
        << "step " << step;
    if (step > 0) continue;
    begin = ConfirmedTcpBytes();
    std::ofstream(std::getenv("TEST_FIRST_STEP")) << "done";
  }
  if (std::getenv("TEST_COUNTS_TCP") != nullptr) {
    const TcpBytes end = TcpBytesOfData();
    std::printf("over TCP: %llu bytes on %zu connections\n",
                static_cast<unsigned long long>(end.bytes - begin.bytes), end.connections);
  }
  byteps_close(session);
}

// ---- jobs ----

class CApiRdmaJob : public ::testing::Test {
 protected:
  void Start(int steps, const Variables& of_servers = {}, const Variables& of_workers = {}) {
    processes_.Set("DMLC_PS_ROOT_PORT", std::to_string(port_.number()));
    StartScheduler();
    for (int i : {0, 1}) {
      Variables more = of_servers;
      more["DMLC_ROLE"] = "server";
      more["DMLC_NODE_HOST"] = "127.0.0." + std::to_string(2 + i);
      servers_[i] = processes_.Start({BYTEPS_SERVER_PROGRAM}, more);
    }
    for (int i : {0, 1}) {
      first_step_[i] = processes_.folder() + "/first-step-" + std::to_string(i);
      Variables more = of_workers;
      more["DMLC_ROLE"] = "worker";
      more["DMLC_WORKER_ID"] = std::to_string(i);
      more["TEST_STEPS"] = std::to_string(steps);
      more["TEST_FIRST_STEP"] = first_step_[i];
      workers_[i] = processes_.Start({"/proc/self/exe", "--gtest_also_run_disabled_tests",
                                      "--gtest_filter=CApiRdmaProcess.DISABLED_Worker"},
                                     more);
    }
  }
  void StartScheduler() {
    scheduler_ = processes_.Start({BYTEPS_SCHEDULER_PROGRAM}, {{"DMLC_ROLE", "scheduler"}});
  }
  void WaitForFirstSteps() {
    for (const std::string& path : first_step_) {
      const auto deadline =
          std::chrono::steady_clock::now() + std::chrono::milliseconds(kStepWaitMs);
      while (!std::ifstream(path).good() && std::chrono::steady_clock::now() < deadline) {
        // tidy-allow(sleep): another process writes the file.
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      ASSERT_TRUE(std::ifstream(path).good()) << Outputs();
    }
  }
  void ExpectAllEndWell() {
    for (pid_t worker : workers_) {
      EXPECT_EQ(processes_.Wait(worker), 0) << processes_.OutputOf(worker);
    }
    for (pid_t server : servers_) {
      EXPECT_EQ(processes_.Wait(server), 0) << processes_.OutputOf(server);
    }
    EXPECT_EQ(processes_.Wait(scheduler_), 0);
  }
  std::string Outputs() const {
    std::string all;
    for (pid_t id : {scheduler_, servers_[0], servers_[1], workers_[0], workers_[1]}) {
      all += processes_.OutputOf(id);
    }
    return all;
  }
  // Nobody has complained, and tensors went over the devices.
  void ExpectGoodCounts(size_t processes) {
    const std::vector<std::string> counts = processes_.Counts();
    EXPECT_GE(counts.size(), processes);
    for (const std::string& line : counts) {
      EXPECT_THAT(line, AllOf(HasSubstr("not_ready=0"), HasSubstr("complaints=0")));
      EXPECT_THAT(line, Not(HasSubstr("messages=0 ")));
    }
  }

  const KeptPort port_;
  Processes processes_;
  pid_t scheduler_ = -1;
  pid_t servers_[2] = {};
  pid_t workers_[2] = {};
  std::string first_step_[2];
};

TEST_F(CApiRdmaJob, TwoWorkersAndTwoServersOnAddressesOfTheirOwnSumAndNothingGoesOverTcp) {
  processes_.Set("TEST_COUNTS_TCP", "1");
  Start(20);
  ExpectAllEndWell();
  ExpectGoodCounts(4);
  for (pid_t worker : workers_) {
    EXPECT_THAT(processes_.OutputOf(worker), AllOf(HasSubstr("over TCP: 0 bytes on "),
                                                   Not(HasSubstr("bytes on 0 connections"))));
  }
}

// The same job shows that the count would see bytes.
TEST_F(CApiRdmaJob, WithoutRdmaTheCountOfTcpSeesAllTensors) {
  processes_.Set("TEST_COUNTS_TCP", "1");
  processes_.Set("BYTEPS_TRANSPORT", "tcp");
  Start(5);
  ExpectAllEndWell();
  for (pid_t worker : workers_) {
    const std::string text = processes_.OutputOf(worker);
    const size_t at = text.find("over TCP: ");
    ASSERT_NE(at, std::string::npos) << text;
    EXPECT_GE(std::strtoull(text.c_str() + at + 10, nullptr, 10),
              4 * 2 * kStepElements * sizeof(float));
  }
}

TEST_F(CApiRdmaJob, TheJobGoesOnWhenAServerIsKilled) {
  Start(200);
  WaitForFirstSteps();
  ASSERT_EQ(kill(servers_[1], SIGKILL), 0);
  for (pid_t worker : workers_) EXPECT_EQ(processes_.Wait(worker), 0) << Outputs();
  EXPECT_EQ(processes_.Wait(servers_[0]), 0) << Outputs();
  ExpectGoodCounts(3);
}

TEST_F(CApiRdmaJob, TheJobGoesOnWhenAWorkerIsKilled) {
  processes_.Set("BYTEPS_MIN_WORKERS", "1");
  Start(100);
  WaitForFirstSteps();
  ASSERT_EQ(kill(workers_[1], SIGKILL), 0);
  EXPECT_EQ(processes_.Wait(workers_[0]), 0) << processes_.OutputOf(workers_[0]);
  for (pid_t server : servers_) EXPECT_EQ(processes_.Wait(server), 0) << Outputs();
  ExpectGoodCounts(3);
}

TEST_F(CApiRdmaJob, TheJobGoesOnWhenTheSchedulerIsKilledAndStartedAgain) {
  Start(100);
  WaitForFirstSteps();
  ASSERT_EQ(kill(scheduler_, SIGKILL), 0);
  processes_.Wait(scheduler_);
  StartScheduler();
  ExpectAllEndWell();
  ExpectGoodCounts(4);
}

TEST_F(CApiRdmaJob, TheJobGoesOnAfterAServerHasStoodStill) {
  Start(100);
  WaitForFirstSteps();
  ASSERT_EQ(kill(servers_[0], SIGSTOP), 0);
  // tidy-allow(sleep): a process that stands still for so long is what this test is about.
  std::this_thread::sleep_for(std::chrono::seconds(5));
  ASSERT_EQ(kill(servers_[0], SIGCONT), 0);
  ExpectAllEndWell();
  ExpectGoodCounts(4);
}

// ---- different wishes ----

TEST_F(CApiRdmaJob, AServerThatNeedsRdmaEndsAndNamesTheWorkerThatHasTcp) {
  Start(1, {{"BYTEPS_TRANSPORT", "rdma"}}, {{"BYTEPS_TRANSPORT", "tcp"}});
  for (pid_t server : servers_) {
    EXPECT_NE(processes_.Wait(server), 0);
    EXPECT_THAT(processes_.OutputOf(server),
                AllOf(HasSubstr("transport=rdma (BYTEPS_TRANSPORT): 127.0.0.1:"),
                      HasSubstr("declines RDMA: this process does not want RDMA"),
                      HasSubstr("BYTEPS_TRANSPORT=auto goes on over TCP")));
  }
}

TEST_F(CApiRdmaJob, AWorkerThatNeedsRdmaEndsAndNamesTheServerThatHasTcp) {
  Start(1, {{"BYTEPS_TRANSPORT", "tcp"}}, {{"BYTEPS_TRANSPORT", "rdma"}});
  for (pid_t worker : workers_) {
    EXPECT_NE(processes_.Wait(worker), 0);
    EXPECT_THAT(processes_.OutputOf(worker),
                AllOf(HasSubstr("transport=rdma (BYTEPS_TRANSPORT): server "),
                      HasSubstr("offered no RDMA within 10"),
                      HasSubstr("set BYTEPS_TRANSPORT to the same value everywhere")));
  }
}

TEST_F(CApiRdmaJob, WithAutoAServerSaysOnceThatAWorkerDeclinesAndTheJobRuns) {
  Start(5, {{"BYTEPS_TRANSPORT", "auto"}, {"BYTEPS_RDMA_DEVICES", "standin0"}},
        {{"BYTEPS_TRANSPORT", "tcp"}});
  ExpectAllEndWell();
  for (pid_t server : servers_) {
    const std::string text = processes_.OutputOf(server);
    EXPECT_THAT(text, HasSubstr("declines RDMA: this process does not want RDMA"));
    EXPECT_THAT(text, HasSubstr("this connection stays on TCP"));
    EXPECT_EQ(text.find("stays on TCP"), text.rfind("stays on TCP")) << text;
  }
}

}  // namespace
}  // namespace byteps::testing
