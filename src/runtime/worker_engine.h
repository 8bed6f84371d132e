// A worker in a job with servers: one thread with one loop for the coordinator and all shards.
//
// The coordinator may go away and come back: operations do not notice. Servers may, too: what they
// had not answered is said again to whoever owns it then.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
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
#include "src/protocol/control/membership.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/worker/worker.h"
#include "src/runtime/control_link.h"
#include "src/runtime/engine.h"
#include "src/runtime/shard_links.h"
#include "src/runtime/ticker.h"

namespace byteps::runtime {

class WorkerEngine final : public Engine, private protocol::WorkerDriver {
 public:
  WorkerEngine(std::unique_ptr<transport::Transport> transport, const WorkerEngineOptions& options,
               Log& log);
  // Leaves if that was not done; the coordinator's connection ends here, which tells the job that
  // this process will not join it again.
  ~WorkerEngine() override;

  // Blocks until ready, failed or told to stop (WorkerEngineOptions::go_on).
  Result<Standing> Start();

  void Submit(protocol::Operation operation, Done done) override;
  void Declare(const std::string& name) override;
  void SetStuck(const std::string& name) override;
  Status AddGroup(uint32_t number, const std::vector<uint32_t>& ranks) override;
  Status RemoveGroup(uint32_t number) override;
  std::vector<uint32_t> Members() override;
  void GiveUp(const std::string& why) override;
  bool Leave() override;

 private:
  struct Submission {
    protocol::Operation operation;
    Done done;
  };
  enum class Phase : uint8_t {
    kStarting,
    kReady,
    kSettling,  // leaves, but others may still need what it holds
    kLeaving,   // has said so
    kOver,
  };

  std::optional<Result<Standing>> WaitForStart(std::chrono::steady_clock::time_point until);

  // On the loop's thread.
  void BreakOff();
  void OnControlReady();
  void OnControl(const wire::Message& message);
  void OnView(const wire::View& view);
  void NoteMembers(const wire::View& view);
  void ReadyIfComplete();
  void OnEvent();
  void Suspect(const wire::Suspect& suspect);
  void End(const Status& why);
  void BeginToLeave();
  void CutShort();
  void LeaveIfSettled();
  void SayLeave();
  void Left();
  void StopMachine();
  void NotifyLeft();
  bool WaitUntilLeft(Duration limit);
  void TakeSubmissions();
  Status OnLoop(std::function<Status()> work);
  void AbortLateOnes(protocol::OperationId from);

  void SendControl(const wire::Message& message) override;
  void SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload) override;
  void SendVerdict(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                   BufferRef keep) override;
  void SendHave(ShardId to, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces) override;
  void SendResync(ShardId to, uint64_t epoch) override;
  void SendAbort(ShardId to, const wire::DataHeader& push, const std::string& why) override;
  void SendAck(ShardId to, const wire::Progress& ack) override;
  void SendGroup(ShardId to, const wire::Progress& number, const protocol::SlotSet& slots) override;
  void SendJoined(ShardId to, const wire::Progress& number) override;
  void Send(ShardId to, transport::OutFrame frame);
  void Forget(ConstByteSpan memory) override;
  void Complete(protocol::OperationId id, protocol::Outcome outcome) override;

  const std::unique_ptr<transport::Transport> transport_;
  const WorkerEngineOptions options_;
  Log& log_;
  const std::unique_ptr<transport::Loop> loop_;

  // Owned by the loop's thread.
  BufferPool pool_;
  ControlLink control_;
  protocol::Membership membership_;
  protocol::KernelArithmetic arithmetic_;
  protocol::Worker machine_;
  ShardLinks shards_;
  Ticker ticker_;
  Phase phase_ = Phase::kStarting;
  uint32_t rank_ = 0;
  bool leave_clean_ = true;
  bool machine_stopped_ = false;
  std::optional<wire::Suspect> gave_up_;  // said again to a coordinator that was away
  std::unordered_map<protocol::OperationId, Done> open_;
  protocol::OperationId next_id_ = 1;
  std::vector<Submission> taken_;
  std::map<protocol::OperationId, Time> due_;  // of open operations, if there is a limit
  std::unique_ptr<transport::Loop::Timer> due_timer_;
  bool aborting_ = false;  // the rest of the late ones has its turn soon
  std::unique_ptr<transport::Loop::Timer> settle_limit_;

  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint32_t> members_ BYTEPS_GUARDED_BY(mutex_);
  std::optional<Result<Standing>> started_ BYTEPS_GUARDED_BY(mutex_);
  bool left_ BYTEPS_GUARDED_BY(mutex_) = false;     // no operation is open, now and later
  bool stopped_ BYTEPS_GUARDED_BY(mutex_) = false;  // the loop takes nothing any more
  bool awaits_coordinator_ BYTEPS_GUARDED_BY(mutex_) = false;  // to say that this worker leaves
  std::vector<Submission> submissions_ BYTEPS_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace byteps::runtime
