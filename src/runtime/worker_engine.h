// A worker in a job with servers: one thread with one loop for the coordinator and all shards.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/log.h"
#include "src/base/thread_annotations.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/worker.h"
#include "src/runtime/control_link.h"
#include "src/runtime/engine.h"
#include "src/runtime/ticker.h"

namespace byteps::runtime {

class WorkerEngine final : public Engine, private protocol::WorkerDriver {
 public:
  WorkerEngine(std::unique_ptr<transport::Transport> transport, const WorkerEngineOptions& options,
               Log& log);
  // Leaves if that was not done; the coordinator's connection ends here, which tells the job that
  // this process will not join it again.
  ~WorkerEngine() override;

  // Blocks until ready or failed.
  Result<Standing> Start();

  void Submit(protocol::Operation operation, Done done) override;
  void Declare(const std::string& name) override;
  void Leave() override;

 private:
  struct ShardLink;
  struct Submission {
    protocol::Operation operation;
    Done done;
  };
  enum class Phase : uint8_t { kStarting, kReady, kLeaving, kOver };

  // On the loop's thread.
  void OnControl(const wire::Message& message);
  void OnView(const wire::View& view);
  void ConnectShard(ShardId shard, const wire::ServerInfo& server);
  void OnShardBound(ShardId shard, Result<std::unique_ptr<transport::Connection>> connection);
  void OnShardClosed(ShardId shard, const Status& why);
  void ReadyIfComplete();
  void End(const Status& why);
  void LeaveInLoop();
  void CloseShards();
  void TakeSubmissions();
  std::string NameOfServer(ShardId shard) const;

  void SendControl(const wire::Message& message) override;
  void SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload) override;
  void SendAck(ShardId to, uint64_t count) override;
  void Forget(ConstByteSpan memory) override;
  void Complete(protocol::OperationId id, protocol::Outcome outcome) override;

  const std::unique_ptr<transport::Transport> transport_;
  const WorkerEngineOptions options_;
  Log& log_;
  const std::unique_ptr<transport::Loop> loop_;

  // Owned by the loop's thread.
  BufferPool pool_;
  ControlLink control_;
  std::vector<std::unique_ptr<ShardLink>> links_;  // by shard
  protocol::KernelArithmetic arithmetic_;
  protocol::Worker machine_;
  Ticker ticker_;
  wire::View view_;
  Phase phase_ = Phase::kStarting;
  std::unordered_map<protocol::OperationId, Done> open_;
  protocol::OperationId next_id_ = 1;
  std::vector<Submission> taken_;
  std::unique_ptr<transport::Loop::Timer> verdict_due_;

  Mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<Standing>> started_ BYTEPS_GUARDED_BY(mutex_);
  bool left_ BYTEPS_GUARDED_BY(mutex_) = false;
  bool stopped_ BYTEPS_GUARDED_BY(mutex_) = false;  // the loop takes nothing any more
  std::vector<Submission> submissions_ BYTEPS_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace byteps::runtime
