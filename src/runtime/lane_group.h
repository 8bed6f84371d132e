// The lanes of a worker and their threads: the first lane lives on the loop of its owner, each
// further one on a thread of its own. Carries mail between them and the front.
//
// All calls on the owner's loop, and all events there, too.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/log.h"
#include "src/protocol/worker/worker.h"
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
  // Ends the threads. Nothing touches users' memory any more.
  ~LaneGroup();

  // To the lane, in order; delivered by Deliver or on the lane's thread.
  void Send(uint32_t lane, protocol::LaneMail mail);
  // Delivers what the first lane and the front have told each other.
  void Deliver();

  bool AllUp(uint64_t epoch) const;
  void OnCoordinatorBack();
  // Answers are thrown away from now on; `done` is called when that holds for all lanes.
  void IgnoreAnswers(std::function<void()> done);
  // Closes all connections, for good. What is sent afterwards finds them closed.
  void Close();

 private:
  struct Thread {
    std::unique_ptr<transport::Loop> loop;  // null: the owner's
    std::unique_ptr<LaneRunner> runner;
    std::thread thread;
    uint64_t up_epoch = 0;  // the view of which all its shards are connected
  };
  LaneRunner::Events EventsOf(uint32_t lane);
  // On the lane's thread; at once if that is the owner's.
  void Do(Thread& lane, std::function<void(LaneRunner&)> work);
  // On the owner's thread; at once if `lane` lives there.
  void Tell(uint32_t lane, std::function<void()> work);

  transport::Loop& loop_;
  Events events_;
  std::vector<std::unique_ptr<Thread>> lanes_;
  std::deque<protocol::LaneMail> to_first_;
  std::deque<protocol::FrontMail> to_front_;
  bool delivering_ = false;
};

}  // namespace byteps::runtime
