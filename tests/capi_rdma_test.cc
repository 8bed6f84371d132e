// Tests jobs over RDMA as their users ask for them, with the stand-in for libibverbs: in one
// process, and in several, of which some are killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
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

constexpr size_t kElements = 300000;
constexpr int kWaitMs = 60000;

std::vector<std::string> OverRdma(const std::string& transport) {
  return {"force_distributed=1", "job_secret=secret", "shared_links=0", "transport=" + transport,
          "rdma_library=" + standin::LibraryPath()};
}

// Sums `data` in place.
void Begin(byteps_session* session, std::vector<float>& data, byteps_handle* handle) {
  const auto count = static_cast<int64_t>(data.size());
  byteps_request request{};
  request.name = "gradient";
  request.op = BYTEPS_SUM;
  request.dtype = BYTEPS_FLOAT32;
  request.shape = &count;
  request.dimensions = 1;
  request.input = request.output = data.data();
  byteps_error error{};
  ASSERT_EQ(byteps_start(session, &request, handle, &error), BYTEPS_OK) << error.message;
}

void End(byteps_session* session, byteps_handle handle) {
  byteps_error error{};
  ASSERT_EQ(byteps_wait(session, handle, kWaitMs, &error), BYTEPS_OK) << error.message;
}

class CApiRdma : public ::testing::Test {
 protected:
  CApiRdma() { standin::TheControl().Reset(); }
  ~CApiRdma() override {
    EXPECT_EQ(standin::TheControl().counts().not_ready, 0u);
    EXPECT_THAT(standin::TheControl().complaints(), ::testing::IsEmpty());
    EXPECT_TRUE(standin::TheControl().counts().nothing_is_open());
  }

  static void ExpectSums(CApiJob& job) {
    std::vector<float> data[2] = {std::vector<float>(kElements, 1.5F),
                                  std::vector<float>(kElements, 2.25F)};
    byteps_handle handles[2] = {};
    for (int rank : {0, 1}) Begin(job.session(rank), data[rank], &handles[rank]);
    for (int rank : {0, 1}) End(job.session(rank), handles[rank]);
    for (int rank : {0, 1}) EXPECT_EQ(data[rank], std::vector<float>(kElements, 3.75F));
  }
};

TEST_F(CApiRdma, AJobThatNeedsRdmaBeginsOverItAndSumsOverIt) {
  CApiJob job(2, OverRdma("rdma"));
  ASSERT_TRUE(job.Open());
  const uint64_t before = standin::TheControl().counts().bytes;
  ExpectSums(job);
  // Each worker pushes its tensor, and gets the sum.
  EXPECT_GE(standin::TheControl().counts().bytes - before, 4 * kElements * sizeof(float));
}

TEST_F(CApiRdma, AutoLeavesRdmaInSoftwareAloneUnlessItIsNamed) {
  {
    CApiJob job(2, OverRdma("auto"));
    ASSERT_TRUE(job.Open());
    ExpectSums(job);
  }
  EXPECT_EQ(standin::TheControl().counts().messages, 0u);
  std::vector<std::string> named = OverRdma("auto");
  named.push_back("rdma_devices=standin0");
  CApiJob job(2, named);
  ASSERT_TRUE(job.Open());
  // The job begins over TCP, and changes soon.
  for (int i = 0; i < 1000 && standin::TheControl().counts().bytes < kElements; ++i) {
    ExpectSums(job);
  }
  EXPECT_GE(standin::TheControl().counts().bytes, kElements);
}

TEST_F(CApiRdma, WithoutADeviceTheStartEndsAndSaysWhatToDo) {
  CApiJob job(1, OverRdma("rdma"));
  standin::TheControl().HideDevices(true);
  EXPECT_THAT(WhyNot(job.WorkerSettings(0)),
              AllOf(HasSubstr("BYTEPS_TRANSPORT"), HasSubstr("/dev/infiniband"),
                    HasSubstr("BYTEPS_TRANSPORT=auto")));
  standin::TheControl().HideDevices(false);
  std::vector<std::string> settings = job.WorkerSettings(0);
  settings.push_back("rdma_devices=mlx5_0");
  EXPECT_THAT(WhyNot(settings), AllOf(HasSubstr("mlx5_0"), HasSubstr("standin0")));
  settings.push_back("rdma_library=/nowhere/libibverbs.so.1");
  EXPECT_THAT(WhyNot(settings), AllOf(HasSubstr("/nowhere"), HasSubstr("ibverbs-providers")));
}

TEST_F(CApiRdma, ATransportUnderTlsIsRefused) {
  std::vector<std::string> settings = OverRdma("rdma");
  settings.push_back("tls=1");
  CApiJob job(1, settings);
  EXPECT_THAT(WhyNot(job.WorkerSettings(0)), HasSubstr("nothing is encrypted over RDMA"));
}

// ---- several processes ----

// The processes of a job; each has its own stand-in, and they reach each other through sockets.
class Processes {
 public:
  Processes() {
    char name[] = "/tmp/byteps-rdma-XXXXXX";
    counts_ = mkdtemp(name);
    common_ = {{"DMLC_NUM_WORKER", "2"},
               {"DMLC_NUM_SERVER", "2"},
               {"DMLC_PS_ROOT_URI", "127.0.0.1"},
               {"GTEST_OUTPUT", ""},
               {"BYTEPS_JOB_SECRET", "secret"},
               {"BYTEPS_SHARED_LINKS", "0"},
               {"BYTEPS_LOG_LEVEL", "info"},
               {"BYTEPS_TRANSPORT", "rdma"},
               {"BYTEPS_RDMA_LIBRARY", standin::LibraryPath()},
               {"BYTEPS_VERBS_STANDIN_GIDS", "127.0.0.1,127.0.0.2,127.0.0.3"},
               {"BYTEPS_VERBS_STANDIN_COUNTS", counts_ + "/counts"}};
  }
  ~Processes() {
    for (auto& [id, running] : running_) {
      if (!running) continue;
      kill(id, SIGKILL);
      waitpid(id, nullptr, 0);
    }
  }

  void Set(const std::string& name, const std::string& value) { common_[name] = value; }
  pid_t Start(const std::vector<std::string>& command, std::map<std::string, std::string> more) {
    more.insert(common_.begin(), common_.end());
    std::vector<std::string> variables;
    for (const auto& [name, value] : more) variables.push_back(name + "=" + value);
    for (char** one = environ; *one != nullptr; ++one) {
      if (more.count(std::string(*one).substr(0, std::string(*one).find('='))) == 0) {
        variables.emplace_back(*one);
      }
    }
    pid_t id = -1;
    EXPECT_EQ(posix_spawn(&id, command[0].c_str(), nullptr, nullptr, Pointers(command).data(),
                          Pointers(variables).data()),
              0)
        << command[0];
    running_[id] = true;
    return id;
  }
  // Returns the exit code; -1: a signal ended it.
  int Wait(pid_t id) {
    int status = 0;
    waitpid(id, &status, 0);
    running_[id] = false;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // Returns a line for each process that has ended in order.
  std::vector<std::string> Counts() const {
    std::ifstream file(counts_ + "/counts");
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

  std::string counts_;
  std::map<std::string, std::string> common_;
  std::map<pid_t, bool> running_;
};

// The program of a worker process: it sums until it has done all steps.
TEST(CApiRdmaProcess, DISABLED_Worker) {
  byteps_error error{};
  byteps_session* session = nullptr;
  ASSERT_EQ(byteps_open(nullptr, 0, &session, &error), BYTEPS_OK) << error.message;
  const int rank = std::atoi(std::getenv("DMLC_WORKER_ID"));
  const int steps = std::atoi(std::getenv("TEST_STEPS"));
  for (int step = 0; step < steps; ++step) {
    std::vector<float> data(kElements, static_cast<float>(rank + step));
    byteps_handle handle = 0;
    Begin(session, data, &handle);
    End(session, handle);
    if (HasFatalFailure()) break;
    EXPECT_EQ(data, std::vector<float>(kElements, static_cast<float>(1 + 2 * step)));
    if (step == 0) std::ofstream(std::getenv("TEST_FIRST_STEP")) << "done";
  }
  byteps_close(session);
}

class CApiRdmaJob : public ::testing::Test {
 protected:
  void Start(int steps) {
    CApiJob port(1);
    const std::string root_port = PortOf(port);
    processes_.Set("DMLC_PS_ROOT_PORT", root_port);
    scheduler_ = processes_.Start({BYTEPS_SCHEDULER_PROGRAM}, {{"DMLC_ROLE", "scheduler"}});
    for (int i : {0, 1}) {
      servers_[i] = processes_.Start(
          {BYTEPS_SERVER_PROGRAM},
          {{"DMLC_ROLE", "server"}, {"DMLC_NODE_HOST", "127.0.0." + std::to_string(2 + i)}});
    }
    for (int i : {0, 1}) {
      first_step_[i] =
          ::testing::TempDir() + "first-step-" + std::to_string(getpid()) + "-" + std::to_string(i);
      std::remove(first_step_[i].c_str());
      workers_[i] = processes_.Start({"/proc/self/exe", "--gtest_also_run_disabled_tests",
                                      "--gtest_filter=CApiRdmaProcess.DISABLED_Worker"},
                                     {{"DMLC_ROLE", "worker"},
                                      {"DMLC_WORKER_ID", std::to_string(i)},
                                      {"TEST_STEPS", std::to_string(steps)},
                                      {"TEST_FIRST_STEP", first_step_[i]}});
    }
  }
  static std::string PortOf(const CApiJob& job) {
    for (const std::string& setting : job.WorkerSettings(0)) {
      if (setting.starts_with("root_port=")) return setting.substr(10);
    }
    return "";
  }
  void WaitForFirstSteps() {
    for (const std::string& path : first_step_) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kWaitMs);
      while (!std::ifstream(path).good() && std::chrono::steady_clock::now() < deadline) {
        // tidy-allow(sleep): another process writes the file.
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      ASSERT_TRUE(std::ifstream(path).good());
    }
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

  Processes processes_;
  pid_t scheduler_ = -1;
  pid_t servers_[2] = {};
  pid_t workers_[2] = {};
  std::string first_step_[2];
};

TEST_F(CApiRdmaJob, TwoWorkersAndTwoServersOnAddressesOfTheirOwnSumOverRdma) {
  Start(20);
  for (pid_t worker : workers_) EXPECT_EQ(processes_.Wait(worker), 0);
  for (pid_t server : servers_) EXPECT_EQ(processes_.Wait(server), 0);
  EXPECT_EQ(processes_.Wait(scheduler_), 0);
  ExpectGoodCounts(4);
}

TEST_F(CApiRdmaJob, TheJobGoesOnWhenAServerIsKilled) {
  Start(200);
  WaitForFirstSteps();
  ASSERT_EQ(kill(servers_[1], SIGKILL), 0);
  for (pid_t worker : workers_) EXPECT_EQ(processes_.Wait(worker), 0);
  EXPECT_EQ(processes_.Wait(servers_[0]), 0);
  ExpectGoodCounts(3);
}

}  // namespace
}  // namespace byteps::testing
