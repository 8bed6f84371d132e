// The lanes of a worker and their threads: the first lane lives on the loop of its owner, each
// further one on a thread of its own. Carries mail between them and the front.
//
// All calls on the owner's loop, and all events there, too; before it runs and when it does not run
// any more, on the thread that owns it.
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
#include "src/protocol/worker/worker.h"
#include "src/runtime/inbox.h"
#include "src/runtime/lane_runner.h"

namespace byteps::runtime {

class LaneGroup {
 public:
  struct Events {
    std::function<void(protocol::FrontMail)> to_front;
    // Something reached the first lane, or came from another one; nothing is left to be delivered.
    std::function<void()> on_event;
    // All shards that live in the view are connected: ask AllUp.
    std::function<void()> on_links;
    std::function<void(const wire::Suspect&)> on_suspect;
    std::function<void(const std::string&)> on_evicted;
  };

  LaneGroup(transport::Transport& transport, transport::Loop& loop,
            const protocol::WorkerOptions& worker, const ShardLinkOptions& links,
            const JobIdentity& identity, Log& log, Events events);
  // Ends the threads. The owner's loop must not run any more.
  ~LaneGroup();

  // Starts the threads; to be called once. Throws std::system_error where there are none left.
  // A lane whose thread comes to its end before End stops the owner's loop.
  void Start();

  // To the lane, in order; delivered by Deliver or on the lane's thread. Never throws: where there
  // is no memory for it the next Deliver does.
  void Send(uint32_t lane, protocol::LaneMail mail) noexcept;
  // Delivers what the first lane and the front have told each other.
  void Deliver();

  bool AllUp(uint64_t epoch) const;
  void OnCoordinatorBack();
  // Answers are thrown away from now on; `done` is called when that holds for all lanes.
  void IgnoreAnswers(std::function<void()> done);
  // Closes all connections, for good. Of what is sent afterwards the lanes only look at what ends
  // an exchange, and say that it is released.
  void Close();

  // The owner's loop does not run any more. Ends the threads and closes all connections: nothing
  // touches users' memory when this returns, and nothing is told any more. Waits for what a lane is
  // in the middle of; may be called again.
  void End() noexcept;
  // Why the thread of a lane has come to its end before; kOk: none has, or its loop was stopped.
  Status failure();

 private:
  using Command = std::function<void(LaneRunner&)>;
  using News = std::function<void()>;

  struct Lane {
    std::unique_ptr<transport::Loop> loop;  // null: the owner's
    std::unique_ptr<LaneRunner> runner;
    std::unique_ptr<Inbox<std::variant<protocol::LaneMail, Command>>> inbox;  // null: the owner's
    uint64_t up_epoch = 0;  // the view of which all its shards are connected
    std::thread thread;
  };

  LaneRunner::Events EventsOf(uint32_t number);
  void Run(Lane& lane) noexcept;
  // On the lane's thread; at once if that is the owner's.
  void Do(Lane& lane, Command work);
  // On the owner's thread; at once if `lane` lives there.
  void Tell(uint32_t lane, News work);
  void TakeNews(std::vector<std::variant<protocol::FrontMail, News>>& all);

  transport::Loop& loop_;
  const Events events_;
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
