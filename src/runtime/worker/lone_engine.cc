#include <utility>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/runtime/worker/engine.h"

namespace byteps::runtime {
namespace {

// The engine of a job of one process. Operations run in the caller, on the same path as in larger
// jobs.
class LoneEngine final : public Engine, private protocol::WorkerDriver {
 public:
  LoneEngine() : machine_(protocol::WorkerOptions(), pool_, arithmetic_, *this) {
    wire::View view;
    view.workers.emplace_back();
    machine_.OnView(view, 0);
  }

  void Submit(protocol::Operation operation, Done done) override {
    protocol::Outcome outcome;
    {
      MutexLock lock(mutex_);
      Status accepted = machine_.Submit(std::move(operation));
      if (accepted.ok()) {
        outcome = std::move(completed_);
      } else {
        outcome.status = accepted;
      }
    }
    done(std::move(outcome));
  }

  void Declare(const std::string& name) override {
    MutexLock lock(mutex_);
    machine_.Declare(name);
  }

  void SetStuck(const std::string&) override {}

  std::vector<uint32_t> Members() override { return {0}; }

  Status AddProcessSet(uint32_t number, const std::vector<uint32_t>& ranks) override {
    MutexLock lock(mutex_);
    return machine_.AddProcessSet(number, ranks);
  }

  Status RemoveProcessSet(uint32_t number) override {
    MutexLock lock(mutex_);
    return machine_.RemoveProcessSet(number);
  }

  void GiveUp(const std::string&) override {}

  bool Leave() override {
    MutexLock lock(mutex_);
    machine_.Stop({StatusCode::kShutdown, "the session was shut down"});
    return true;
  }

 private:
  void SendControl(const wire::Message&) override {}
  void SendPush(ShardId, const wire::DataHeader&, ConstByteSpan, BufferRef) override {}
  void SendVerdict(ShardId, const wire::DataHeader&, ConstByteSpan, BufferRef) override {}
  void SendHave(ShardId, uint64_t, const std::vector<wire::HeldPiece>&) override {}
  void SendResync(ShardId, uint64_t) override {}
  void SendAbort(ShardId, const wire::DataHeader&, const std::string&) override {}
  void SendAck(ShardId, const wire::Progress&) override {}
  void SendProcessSet(ShardId, const wire::Progress&, const SlotSet&) override {}
  void SendJoined(ShardId, const wire::Progress&, const SlotSet&) override {}
  void Forget(uint32_t, ConstByteSpan) override {}
  // Called inside machine_.Submit, so the lock is held.
  void Complete(protocol::OperationId,
                protocol::Outcome outcome) override BYTEPS_NO_THREAD_SAFETY_ANALYSIS {
    completed_ = std::move(outcome);
  }

  Mutex mutex_;
  BufferPool pool_;
  protocol::KernelArithmetic arithmetic_;
  protocol::Worker machine_ BYTEPS_GUARDED_BY(mutex_);
  protocol::Outcome completed_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Engine> MakeLoneEngine() { return std::make_unique<LoneEngine>(); }

}  // namespace byteps::runtime
