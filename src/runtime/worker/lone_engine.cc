#include <utility>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/protocol/control/views/sum_order.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/worker/front/front.h"
#include "src/runtime/worker/engine.h"

namespace byteps::runtime {
namespace {

// The engine of a job of one process. Operations run in the caller, on the same path as in larger
// jobs, and no lane has anything to do.
class LoneEngine final : public Engine, private protocol::FrontDriver {
 public:
  LoneEngine() : front_(protocol::FrontOptions(), arithmetic_, *this) {
    wire::View view;
    view.workers.emplace_back();
    front_.OnView(view, 0, 0);
    sums_ = protocol::DescribeSums(view);
  }

  void Submit(protocol::Operation operation, Done done) override {
    protocol::Outcome outcome;
    {
      MutexLock lock(mutex_);
      Status accepted = front_.Submit(std::move(operation));
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
    front_.Declare(name);
  }

  void SetStuck(const std::string&) override {}
  void SetDeviceWaits(protocol::DeviceWaits) override {}

  std::vector<uint32_t> Members() override { return {0}; }

  plan::SumReport Sums() override { return sums_; }

  Status AddProcessSet(uint32_t number, const std::vector<uint32_t>& ranks) override {
    MutexLock lock(mutex_);
    return front_.AddProcessSet(number, ranks);
  }

  Status RemoveProcessSet(uint32_t number) override {
    MutexLock lock(mutex_);
    return front_.RemoveProcessSet(number);
  }

  void GiveUp(const std::string&) override {}

  bool Leave() override {
    MutexLock lock(mutex_);
    front_.Stop({StatusCode::kShutdown, "the session was shut down"});
    return true;
  }

 private:
  void SendControl(const wire::Message&) override {}
  void ToLane(uint32_t, protocol::LaneMail) override {}
  void OnSettled() override {}
  // Called inside front_.Submit, so the lock is held.
  void Complete(protocol::OperationId,
                protocol::Outcome outcome) override BYTEPS_NO_THREAD_SAFETY_ANALYSIS {
    completed_ = std::move(outcome);
  }

  plan::SumReport sums_;  // does not change

  Mutex mutex_;
  protocol::KernelArithmetic arithmetic_;
  protocol::Front front_ BYTEPS_GUARDED_BY(mutex_);
  protocol::Outcome completed_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Engine> MakeLoneEngine() { return std::make_unique<LoneEngine>(); }

}  // namespace byteps::runtime
