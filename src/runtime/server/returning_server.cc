#include "src/runtime/server/returning_server.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "src/base/proof.h"

namespace byteps::runtime {

ReturningServer::ReturningServer(transport::Transport& transport,
                                 const ServerProcessOptions& options,
                                 const ComebackOptions& comebacks, Log& log)
    : transport_(transport), options_(options), comebacks_(comebacks), log_(log) {
  Begin();
}

ReturningServer::~ReturningServer() = default;

void ReturningServer::Begin() {
  auto process = std::make_unique<ServerProcess>(transport_, options_, log_);
  MutexLock lock(mutex_);
  process_ = std::move(process);
  if (stop_.has_value()) process_->Stop(*stop_);
}

Result<std::string> ReturningServer::Listen(const std::string& address) {
  MutexLock lock(mutex_);
  address_ = address;
  return process_->Listen(address);
}

Status ReturningServer::Run() {
  uint32_t in_a_row = 0;
  Duration pause = Duration::zero();
  for (;;) {
    auto began = std::chrono::steady_clock::now();
    Status ended = RunOnce();
    if (ended.code() != StatusCode::kEvicted) return ended;
    if (unreached_ >= comebacks_.unreached_max) {
      return {StatusCode::kEvicted,
              unreached_by_ + " has never reached this server at " + announced_ +
                  ": is there a firewall? Let the workers through to its port (bps run --ports, or "
                  "DMLC_PORT, chooses it); 'bps doctor --hosts A,B --ports FIRST-LAST' tries them "
                  "both ways"};
    }
    if (std::chrono::steady_clock::now() - began >= comebacks_.steady) {
      in_a_row = 0;
      pause = Duration::zero();
    }
    if (in_a_row == comebacks_.in_a_row_max) {
      std::string times =
          in_a_row == 0 ? "" : " (the last of " + std::to_string(in_a_row) + " times in a row)";
      return {StatusCode::kEvicted,
              ended.message() + times + "; start it again if it is to take part"};
    }
    ++in_a_row;
    log_.Warning("{}; joining again ({} of at most {} times in a row)", ended.message(), in_a_row,
                 comebacks_.in_a_row_max);
    if (!Pause(pause)) return RunOnce();  // RunOnce returns the reason of Stop
    pause = std::clamp(pause * 2, comebacks_.pause_first, comebacks_.pause_max);
    options_.control.identity.incarnation = RandomIncarnation();
    options_.join.incarnation = options_.control.identity.incarnation;
    Begin();
    if (address_.empty()) continue;
    MutexLock lock(mutex_);
    Result<std::string> bound = process_->Listen(address_);
    if (!bound.ok()) return bound.status();
  }
}

// Runs the server once. The server and the threads of its shards are gone when this returns, so the
// addresses are free.
Status ReturningServer::RunOnce() {
  ServerProcess* process = nullptr;
  {
    MutexLock lock(mutex_);
    if (process_ == nullptr) return stop_.value_or(Status::Ok());
    process = process_.get();
  }
  Status ended = process->Run();
  MutexLock lock(mutex_);
  // The server may only come back with the same number of shards.
  options_.join.shards = process->shards();
  unreached_by_ = process->Unreached();
  unreached_ = unreached_by_.empty() ? 0 : unreached_ + 1;
  announced_ = process->announced();
  options_.far_shards = 0;
  process_.reset();
  return ended;
}

void ReturningServer::Stop(const Status& why) {
  MutexLock lock(mutex_);
  if (!stop_.has_value()) stop_ = why;
  if (process_ != nullptr) process_->Stop(*stop_);
  stopped_.notify_all();
}

bool ReturningServer::Pause(Duration pause) {
  auto until = std::chrono::steady_clock::now() + pause;
  MutexLock lock(mutex_);
  while (!stop_.has_value() && lock.WaitUntil(stopped_, until)) {
  }
  return !stop_.has_value();
}

}  // namespace byteps::runtime
