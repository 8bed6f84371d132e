#include "src/machine/member/early_join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "src/runtime/coordinator/coordinator_process.h"
#include "src/transport/inproc/inproc_transport.h"

namespace byteps::machine {
namespace {

using ::testing::HasSubstr;

// A coordinator of a machine with two workers and of a server, which waits for the others.
class EarlyJoinTest : public testing::Test {
 protected:
  explicit EarlyJoinTest(Duration start_timeout = seconds(60)) {
    runtime::CoordinatorProcessOptions process;
    process.address = "inproc:0";
    process.identity = {"early-join-test", "", 9};
    process.protocol.worker_machines = 1;
    process.protocol.server_count = 1;
    process.protocol.version = "1";
    process.protocol.start_timeout = start_timeout;
    coordinator_ = std::make_unique<runtime::CoordinatorProcess>(*transport_, process, log_);
    address_ = coordinator_->Listen().value();
    running_ = std::thread([this] { (void)coordinator_->Run(); });
  }
  ~EarlyJoinTest() override {
    coordinator_->Stop({StatusCode::kShutdown, "the test is over"});
    running_.join();
  }

  std::unique_ptr<EarlyJoin> Tell(const std::string& version) {
    wire::Join join;
    join.incarnation = 5;
    join.rank = 0;
    join.worker_count = 2;
    join.server_count = 1;
    join.piece_bytes_max = 4096;
    join.version = version;
    join.local_size = 2;
    runtime::ControlLinkOptions control;
    control.coordinator = address_;
    control.identity = {"early-join-test", "", join.incarnation};
    return std::make_unique<EarlyJoin>(*transport_, control, join, "0", log_);
  }
  // Returns the failure; Ok: the early join has none for a minute.
  static Status FailureOf(EarlyJoin& early_join) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(60);
    while (early_join.failure().ok() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    return early_join.failure();
  }

  Log log_{"early join", "fatal", true};
  std::unique_ptr<transport::Transport> transport_ = transport::MakeInprocTransport();
  std::unique_ptr<runtime::CoordinatorProcess> coordinator_;
  std::string address_;
  std::thread running_;
};

// A coordinator that waits long enough for the early join, and not longer.
class EarlyJoinInVainTest : public EarlyJoinTest {
 protected:
  EarlyJoinInVainTest() : EarlyJoinTest(seconds(2)) {}
};

TEST_F(EarlyJoinInVainTest, TheEndOfTheJobNamesTheWorkerThatIsMissingAndNotThisOne) {
  auto early_join = Tell("1");
  EXPECT_THAT(FailureOf(*early_join).message(), HasSubstr("1/2 workers"));
  EXPECT_THAT(early_join->failure().message(), HasSubstr("missing worker 1"));
}

TEST_F(EarlyJoinTest, AWorkerThatIsRefusedHearsWhy) {
  auto early_join = Tell("2");
  EXPECT_EQ(FailureOf(*early_join).code(), StatusCode::kRefused);
  EXPECT_THAT(early_join->failure().message(), HasSubstr("version 1, you run 2"));
}

TEST_F(EarlyJoinTest, ARetiredOneIsNotConnectedAgain) {
  auto early_join = Tell("1");
  early_join->Retire();
  auto other = Tell("2");  // the same worker: the coordinator cuts the first connection
  EXPECT_EQ(FailureOf(*other).code(), StatusCode::kRefused);
  EXPECT_TRUE(early_join->failure().ok());
}

}  // namespace
}  // namespace byteps::machine
