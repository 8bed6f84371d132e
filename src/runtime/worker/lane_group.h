// The lanes of a worker and their threads. The first lane lives on the loop of its owner, and each
// further lane on a thread of its own. Carries mail between the lanes and the front.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "src/base/log.h"
#include "src/base/thread_annotations.h"
#include "src/protocol/worker/worker_options.h"
#include "src/runtime/inbox.h"
#include "src/runtime/worker/lane_runner.h"
#include "src/runtime/worker/worker_lanes.h"

namespace byteps::runtime {

class LaneGroup final : public WorkerLanes {
 public:
  explicit LaneGroup(WorkerLanesParts parts);
  // Ends the threads. REQUIRES: the owner's loop does not run any more.
  ~LaneGroup() override;

  uint32_t front_lanes() const override { return static_cast<uint32_t>(lanes_.size()); }
  void Start() override;
  void Send(uint32_t lane, protocol::LaneMail mail) noexcept override;
  void Deliver() override;
  bool AllUp(uint64_t epoch) const override;
  void OnCoordinatorBack() override;
  void IgnoreAnswers(std::function<void()> done) override;
  // Closes all connections.
  void Close(const Status& why) override;
  void End() noexcept override;
  Status failure() override;

 private:
  using Command = std::function<void(LaneRunner&)>;
  using News = std::function<void()>;

  struct Lane {
    std::unique_ptr<transport::Loop> loop;  // null: on the owner's loop
    std::unique_ptr<LaneRunner> runner;
    std::unique_ptr<Inbox<std::variant<protocol::LaneMail, Command>>> inbox;  // null: the owner's
    uint64_t up_epoch = 0;  // the view in which all shards of the lane are connected; 0: none
    std::thread thread;
  };

  LaneRunner::Events EventsOf(uint32_t number);
  void Run(uint32_t number) noexcept;
  // Runs `work` on the lane's thread; at once if that is the owner's thread.
  void Do(Lane& lane, Command work);
  // Runs `work` on the owner's thread; at once if `lane` lives there.
  void Tell(uint32_t lane, News work);
  void TakeNews(std::vector<std::variant<protocol::FrontMail, News>>& all);

  transport::Loop& loop_;
  const Events events_;
  const std::function<void(uint32_t)> on_thread_;
  Inbox<std::variant<protocol::FrontMail, News>> inbox_;  // from lanes with threads of their own
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::deque<protocol::LaneMail> to_first_;
  std::deque<protocol::FrontMail> to_front_;
  bool delivering_ = false;
  bool lost_mail_ = false;

  std::atomic<bool> ends_ = false;
  Mutex mutex_;
  Status failure_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::runtime
