// Tests which processes may join, what a job says while it waits, and jobs that start again.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "src/runtime/control_link.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

class Joining : public ::testing::TestWithParam<Medium> {
 protected:
  ClusterOptions Size(uint32_t workers, uint32_t servers) {
    ClusterOptions options;
    options.medium = GetParam();
    options.workers = workers;
    options.servers = servers;
    return options;
  }

  void ExpectSum(Cluster& cluster, const std::string& name) {
    std::vector<Bytes> data;
    std::vector<TicketRef> tickets;
    uint32_t workers = cluster.options().workers;
    for (uint32_t rank = 0; rank < workers; ++rank) {
      data.push_back(Encode(DataType::kFloat32, std::vector<double>(30000, 1)));
    }
    for (uint32_t rank = 0; rank < workers; ++rank) {
      tickets.push_back(cluster.Submit(rank, SumOf(name, data[rank])));
    }
    for (uint32_t rank = 0; rank < workers; ++rank) {
      Status ended = tickets[rank]->WaitStatus();
      ASSERT_TRUE(ended.ok()) << ended.ToString();
      EXPECT_EQ(data[rank], Encode(DataType::kFloat32, std::vector<double>(30000, workers)));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Media, Joining, ::testing::Values(Medium::kTcp, Medium::kInproc),
                         [](const auto& medium) { return std::string(NameOf(medium.param)); });

// A worker that differs in one thing, and the texts that the refusal must contain.
struct Refusal {
  std::function<void(runtime::WorkerEngineOptions&)> change;
  std::vector<std::string> texts;
};

TEST_P(Joining, WhoDiffersIsRefusedWithTheDifferenceNamedAndTheJobStartsWithoutIt) {
  Cluster cluster(Size(2, 1));
  ASSERT_TRUE(cluster.StartServices().ok());
  const std::vector<Refusal> refusals = {
      {[](auto& worker) { worker.join.worker_count = 3; }, {"3 workers", "DMLC_NUM_WORKER"}},
      {[](auto& worker) { worker.join.worker_count = 0; }, {"0 workers", "DMLC_NUM_WORKER"}},
      {[](auto& worker) { worker.join.server_count = 2; }, {"2 servers", "1", "DMLC_NUM_SERVER"}},
      {[](auto& worker) { worker.join.piece_bytes_max = 0; }, {"its partition is 0 bytes"}},
      {[](auto& worker) { worker.join.version = "0.0.9"; }, {"0.0.9", "1.2.3"}},
      {[](auto& worker) { worker.join.rank = 7; }, {"worker 7", "2"}},
      {[](auto& worker) { worker.control.identity.secret = "another"; }, {"secret"}},
      {[](auto& worker) { worker.control.identity.job = "another"; }, {"another job"}},
  };
  for (const Refusal& refusal : refusals) {
    runtime::WorkerEngineOptions options = cluster.WorkerOptions(0);
    refusal.change(options);
    Result<runtime::StartedEngine> started = cluster.StartWorker(options);
    ASSERT_FALSE(started.ok());
    EXPECT_EQ(started.status().code(), StatusCode::kRefused) << started.status().ToString();
    for (const std::string& text : refusal.texts) {
      EXPECT_NE(started.status().message().find(text), std::string::npos)
          << started.status().message() << " lacks " << text;
    }
  }
  ASSERT_TRUE(cluster.StartWorkers().ok());
  ExpectSum(cluster, "w");
  // All places are taken now.
  Result<runtime::StartedEngine> late = cluster.StartWorker(cluster.WorkerOptions(1));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.status().code(), StatusCode::kRefused);
  EXPECT_NE(late.status().message().find("taken"), std::string::npos) << late.status().message();
  ExpectSum(cluster, "w");
  cluster.LeaveInOrder();
}

TEST_P(Joining, AServerThatDiffersIsRefused) {
  Cluster cluster(Size(1, 1));
  ASSERT_TRUE(cluster.StartServices().ok());
  runtime::ServerProcessOptions options = cluster.ServerOptions();
  options.join.server_count = 3;
  cluster.StartServer(options);
  Status ended = cluster.ServerEnd(1);
  EXPECT_EQ(ended.code(), StatusCode::kRefused);
  EXPECT_NE(ended.message().find("DMLC_NUM_SERVER"), std::string::npos) << ended.message();
  options = cluster.ServerOptions();
  options.control.identity.secret = "another";
  cluster.StartServer(options);
  EXPECT_EQ(cluster.ServerEnd(2).code(), StatusCode::kRefused);
  ASSERT_TRUE(cluster.StartWorkers().ok());
  ExpectSum(cluster, "w");
}

// A member that only listens to what the coordinator tells the members that wait.
class Listener {
 public:
  Listener(Cluster& cluster, const runtime::WorkerEngineOptions& options)
      : loop_(cluster.transport()->MakeLoop()),
        link_(*loop_, options.control, cluster.log(),
              {[this, join = options.join] { link_.Send(join); },
               [this](const wire::Message& message) { OnMessage(message); },
               [this](const Status&) { loop_->Stop(); }}) {
    link_.Start();
    give_up_ = loop_->After(kPatience, [this] { loop_->Stop(); });
    loop_->Run();
  }
  const std::string& waiting() const { return waiting_; }
  const Status& over() const { return over_; }

 private:
  void OnMessage(const wire::Message& message) {
    if (const auto* waiting = std::get_if<wire::Waiting>(&message)) waiting_ = waiting->text;
    if (const auto* over = std::get_if<wire::JobOver>(&message)) {
      over_ = Status(over->code, over->text);
      loop_->Stop();
    }
  }

  std::unique_ptr<transport::Loop> loop_;
  std::string waiting_;
  Status over_;
  runtime::ControlLink link_;
  std::unique_ptr<transport::Loop::Timer> give_up_;
};

TEST_P(Joining, AJobThatIsNotCompleteSaysWhoIsMissingAndGivesUp) {
  ClusterOptions options = Size(3, 2);
  options.start_timeout = seconds(2);
  options.report_every = milliseconds(400);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.StartServices().ok());
  Listener listener(cluster, cluster.WorkerOptions(1));
  for (const std::string& text : {listener.waiting(), listener.over().message()}) {
    EXPECT_NE(text.find("1/3 workers"), std::string::npos) << text;
    EXPECT_NE(text.find("2/2 servers"), std::string::npos) << text;
    EXPECT_NE(text.find("missing workers 0, 2"), std::string::npos) << text;
    EXPECT_NE(text.find("waited"), std::string::npos) << text;
  }
  EXPECT_EQ(listener.over().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(cluster.CoordinatorEnd().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(cluster.ServerEnd(0).code(), StatusCode::kDeadlineExceeded);
}

// Each worker differs in another thing; only one of them knows the secret.
TEST_P(Joining, AJobThatIsNotCompleteSaysWhomItRefusedAndWhy) {
  ClusterOptions options = Size(1, 1);
  options.start_timeout = seconds(4);
  options.report_every = milliseconds(400);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.StartServices().ok());
  cluster.KillServer(0);
  runtime::ServerProcessOptions server = cluster.ServerOptions();
  server.join.server_count = 3;
  cluster.StartServer(server);
  EXPECT_EQ(cluster.ServerEnd(1).code(), StatusCode::kRefused);
  server = cluster.ServerOptions();
  server.control.identity.secret = "another";
  cluster.StartServer(server);
  EXPECT_EQ(cluster.ServerEnd(2).code(), StatusCode::kRefused);
  server = cluster.ServerOptions();
  server.control.identity.job = "another";
  cluster.StartServer(server);
  EXPECT_EQ(cluster.ServerEnd(3).code(), StatusCode::kRefused);
  Listener listener(cluster, cluster.WorkerOptions(0));
  Status ended = cluster.CoordinatorEnd();
  for (const std::string& text : {listener.waiting(), listener.over().message(), ended.message()}) {
    for (const char* part :
         {"missing 1 server", "; refused server (process ", "DMLC_NUM_SERVER",
          "(server): it has another BYTEPS_JOB_SECRET", "(server): it belongs to another job"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text << " lacks " << part;
    }
  }
}

TEST_P(Joining, AWorkerThatWaitsInVainIsTold) {
  ClusterOptions options = Size(2, 1);
  options.start_timeout = seconds(2);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.StartServices().ok());
  Result<runtime::StartedEngine> started = cluster.StartWorker(cluster.WorkerOptions(0));
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(started.status().message().find("missing worker 1"), std::string::npos)
      << started.status().message();
}

TEST_P(Joining, WhoBreaksOffIsWaitedForAndMayComeAgain) {
  Cluster cluster(Size(2, 1));
  ASSERT_TRUE(cluster.StartServices().ok());
  runtime::WorkerEngineOptions options = cluster.WorkerOptions(0);
  options.go_on = [asked = 0]() mutable { return ++asked < 10; };
  Result<runtime::StartedEngine> started = cluster.StartWorker(options);
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.status().code(), StatusCode::kShutdown) << started.status().ToString();
  ASSERT_TRUE(cluster.StartWorkers().ok());
  ExpectSum(cluster, "w");
  cluster.LeaveInOrder();
}

// A port at which a program accepts connections and says nothing.
class SilentPort {
 public:
  SilentPort(const char* host, uint16_t port)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_port = htons(port);
    EXPECT_EQ(inet_pton(AF_INET, host, &own.sin_addr), 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
  }
  ~SilentPort() {
    for (int accepted : accepted_) close(accepted);
    close(fd_);
  }
  // Returns whether somebody has connected.
  bool IsMet() {
    int accepted = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted >= 0) accepted_.push_back(accepted);
    return !accepted_.empty();
  }

 private:
  int fd_;
  std::vector<int> accepted_;
};

// The view is in force, but the worker has not met its server yet.
TEST(BreakingOff, AfterTheViewAWorkerLeavesInOrder) {
  constexpr const char* kElsewhere = "127.0.0.9";
  ClusterOptions size;
  size.workers = 1;
  Cluster cluster(size);
  ASSERT_TRUE(cluster.StartServices().ok());
  cluster.KillServer(0);
  runtime::ServerProcessOptions server = cluster.ServerOptions();
  server.announced_hosts = {kElsewhere};
  cluster.StartServer(server);
  std::string number = cluster.server_address(1);
  number.erase(0, number.rfind(':') + 1);
  SilentPort port(kElsewhere, static_cast<uint16_t>(std::stoi(number)));
  runtime::WorkerEngineOptions options = cluster.WorkerOptions(0);
  options.go_on = [&port] { return !port.IsMet(); };
  Result<runtime::StartedEngine> started = cluster.StartWorker(options);
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.status().code(), StatusCode::kShutdown) << started.status().ToString();
  Status ended = cluster.CoordinatorEnd();
  EXPECT_TRUE(ended.ok()) << ended.ToString();
}

TEST_P(Joining, WithoutACoordinatorAWorkerGivesUpWithItsAddress) {
  ClusterOptions options = Size(1, 1);
  Cluster cluster(options);
  ASSERT_TRUE(cluster.StartServices().ok());
  runtime::WorkerEngineOptions worker = cluster.WorkerOptions(0);
  worker.control.coordinator = GetParam() == Medium::kTcp ? "127.0.0.1:1" : "inproc:65535";
  worker.control.connect_limit = milliseconds(200);
  Result<runtime::StartedEngine> started = cluster.StartWorker(worker);
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(started.status().message().find(worker.control.coordinator), std::string::npos)
      << started.status().message();
}

TEST_P(Joining, TwentyGenerationsWithTheSameServers) {
  ClusterOptions options = Size(2, 2);
  options.shards = 2;
  Cluster cluster(options);
  ASSERT_TRUE(cluster.Start().ok());
  for (int generation = 0; generation < 20; ++generation) {
    ExpectSum(cluster, "w");
    ExpectSum(cluster, "w");
    ExpectSum(cluster, "of generation " + std::to_string(generation));
    if (HasFatalFailure()) return;
    Status again = cluster.NextGeneration();
    ASSERT_TRUE(again.ok()) << again.ToString();
  }
  ExpectSum(cluster, "w");
  cluster.LeaveInOrder();
}

// Every path is long for this server.
TEST(FarServers, HaveMoreShards) {
  ClusterOptions size;
  size.workers = 1;
  Cluster cluster(size);
  ASSERT_TRUE(cluster.StartServices().ok());
  cluster.KillServer(0);
  runtime::ServerProcessOptions far = cluster.ServerOptions();
  far.far_shards = 3;
  far.long_path = Duration(1);
  cluster.StartServer(far);
  ASSERT_TRUE(cluster.StartWorkers().ok());
  std::vector<Bytes> data = {Encode(DataType::kFloat32, std::vector<double>(300'000, 1))};
  EXPECT_TRUE(cluster.Submit(0, SumOf("w", data[0]))->WaitStatus().ok());
  // A server with another number of shards cannot have the place, and the error says both numbers.
  runtime::ServerProcessOptions near = cluster.ServerOptions();
  near.far_shards = 3;
  near.long_path = kPatience;
  near.join.rank = 0;
  cluster.StartServer(near);
  const Status refused = cluster.ServerEnd(2);
  EXPECT_EQ(refused.code(), StatusCode::kRefused);
  EXPECT_NE(refused.message().find("had 3 shards, you have 1"), std::string::npos)
      << refused.message();
}

}  // namespace
}  // namespace byteps::cluster
