#include "tests/capi_job.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace byteps::testing {
namespace {

constexpr int kWaitMs = 60000;

std::vector<const char*> PointersTo(const std::vector<std::string>& settings) {
  std::vector<const char*> pointers;
  for (const std::string& setting : settings) pointers.push_back(setting.c_str());
  return pointers;
}

void BlockSignals() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
}

}  // namespace

byteps_handle BeginSum(byteps_session* session, std::vector<float>& data) {
  const auto count = static_cast<int64_t>(data.size());
  byteps_request request{};
  request.name = "gradient";
  request.op = BYTEPS_SUM;
  request.dtype = BYTEPS_FLOAT32;
  request.shape = &count;
  request.dimensions = 1;
  request.input = request.output = data.data();
  byteps_handle handle = 0;
  byteps_error error{};
  EXPECT_EQ(byteps_start(session, &request, &handle, &error), BYTEPS_OK) << error.message;
  return handle;
}

void EndWell(byteps_session* session, byteps_handle handle) {
  byteps_error error{};
  EXPECT_EQ(byteps_wait(session, handle, kWaitMs, &error), BYTEPS_OK) << error.message;
}

KeptPort::KeptPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int may_share = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &may_share, sizeof(may_share));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
  ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
  number_ = ntohs(address.sin_port);
}

KeptPort::~KeptPort() { ::close(socket_); }

byteps_session* Opened(const std::vector<std::string>& settings) {
  const std::vector<const char*> texts = PointersTo(settings);
  byteps_session* session = nullptr;
  byteps_error error{};
  EXPECT_EQ(byteps_open(texts.data(), texts.size(), &session, &error), BYTEPS_OK) << error.message;
  return session;
}

std::string WhyNot(const std::vector<std::string>& settings) {
  const std::vector<const char*> texts = PointersTo(settings);
  byteps_session* session = nullptr;
  byteps_error error{};
  EXPECT_NE(byteps_open(texts.data(), texts.size(), &session, &error), BYTEPS_OK);
  byteps_close(session);
  return error.message;
}

CApiJob::CApiJob(const Shape& shape, std::vector<std::string> more)
    : shape_(shape),
      more_(std::move(more)),
      sessions_(static_cast<size_t>(shape.ranks()), nullptr) {
  BlockSignals();
}

CApiJob::~CApiJob() {
  Close();
  for (std::thread& service : services_) service.join();
}

std::vector<std::string> CApiJob::SettingsOf(const std::string& role) const {
  // Makes the limits of silence long, because busy machines and sanitizers are slow.
  std::vector<std::string> settings = {"role=" + role,
                                       "num_worker=" + std::to_string(shape_.machines),
                                       "num_server=" + std::to_string(shape_.has_server ? 1 : 0),
                                       "local_size=" + std::to_string(shape_.local_size),
                                       "root_host=127.0.0.1",
                                       "root_port=" + std::to_string(port_.number()),
                                       "start_timeout_s=60",
                                       "heartbeat_timeout_ms=60000",
                                       "eviction_timeout_ms=60000"};
  settings.insert(settings.end(), more_.begin(), more_.end());
  return settings;
}

void CApiJob::StartServices() {
  if (!shape_.has_server) return;
  for (const char* role : {"scheduler", "server"}) {
    services_.emplace_back([settings = SettingsOf(role)] {
      byteps_error error{};
      const std::vector<const char*> texts = PointersTo(settings);
      EXPECT_EQ(byteps_serve(texts.data(), texts.size(), &error), BYTEPS_OK) << error.message;
    });
  }
}

std::vector<std::string> CApiJob::WorkerSettings(int rank) const {
  std::vector<std::string> settings = SettingsOf("worker");
  settings.push_back("worker_id=" + std::to_string(rank / shape_.local_size));
  settings.push_back("local_rank=" + std::to_string(rank % shape_.local_size));
  return settings;
}

bool CApiJob::Open() {
  StartServices();
  return OpenSessions();
}

bool CApiJob::OpenSessions() {
  std::vector<std::thread> openers;
  for (int rank = 0; rank < shape_.ranks(); ++rank) {
    openers.emplace_back([this, rank] {
      const std::vector<std::string> settings = WorkerSettings(rank);
      const std::vector<const char*> texts = PointersTo(settings);
      byteps_error error{};
      EXPECT_EQ(
          byteps_open(texts.data(), texts.size(), &sessions_[static_cast<size_t>(rank)], &error),
          BYTEPS_OK)
          << error.message;
    });
  }
  bool all = true;
  for (std::thread& opener : openers) opener.join();
  for (byteps_session* session : sessions_) all = all && session != nullptr;
  return all;
}

void CApiJob::Close() {
  std::vector<std::thread> closers;
  for (byteps_session*& session : sessions_) {
    closers.emplace_back([session] { byteps_close(session); });
    session = nullptr;
  }
  for (std::thread& closer : closers) closer.join();
}

}  // namespace byteps::testing
