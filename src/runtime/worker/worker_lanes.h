// What a worker's engine has behind its front: the lanes with their connections (lane_group.h), or
// a part of a machine whose ranks share them (machine/member/machine_lanes.h).
//
// All calls on the owner's loop, and all events there, too; before it runs and when it does not run
// any more, on the thread that owns it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/base/log.h"
#include "src/base/status.h"
#include "src/protocol/worker/worker.h"
#include "src/runtime/handshake.h"
#include "src/runtime/worker/shard_links.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

class WorkerLanes {
 public:
  struct Events {
    std::function<void(protocol::FrontMail)> to_front;
    // Something reached the first lane, or came from another one; nothing is left to be delivered.
    std::function<void()> on_event;
    // All shards that live in the view are connected: ask AllUp.
    std::function<void()> on_links;
    std::function<void(const wire::Suspect&)> on_suspect;
    std::function<void(const std::string&)> on_evicted;
    // This worker cannot go on, because of a process that it shares memory with.
    std::function<void(const Status&)> on_lost;
  };
  virtual ~WorkerLanes() = default;

  // How many lanes the front has mail for.
  virtual uint32_t front_lanes() const = 0;
  // Starts the threads; to be called once. Throws std::system_error where there are none left.
  // If one of them comes to its end before End, it stops the owner's loop.
  virtual void Start() = 0;
  // To the lane, in order; delivered by Deliver or on the lane's thread. Never throws: where there
  // is no memory for it the next Deliver does.
  virtual void Send(uint32_t lane, protocol::LaneMail mail) noexcept = 0;
  // Delivers what the first lane and the front have told each other.
  virtual void Deliver() = 0;
  virtual bool AllUp(uint64_t epoch) const = 0;
  virtual void OnCoordinatorBack() = 0;
  // Answers are thrown away from now on; `done` is called when that holds for all lanes.
  virtual void IgnoreAnswers(std::function<void()> done) = 0;
  // Nothing comes and goes any more, for good: this worker has left (kShutdown), or its job is
  // over. Of what is sent afterwards the lanes only look at what ends an exchange, and say that it
  // is released.
  virtual void Close(const Status& why) = 0;
  // The owner's loop does not run any more. Ends the threads: nothing touches users' memory when
  // this returns, and nothing is told any more. Waits for what a lane is in the middle of; may be
  // called again.
  virtual void End() noexcept = 0;
  // Why a thread has come to its end before; kOk: none has, or its loop was stopped.
  virtual Status failure() = 0;
};

// What lanes are made of. All that is borrowed outlives them.
struct WorkerLanesParts {
  transport::Transport& transport;
  transport::Loop& loop;  // the owner's
  const protocol::WorkerOptions& worker;
  const ShardLinkOptions& links;
  const JobIdentity& identity;
  Log& log;
  WorkerLanes::Events events;
  // As WorkerEngineOptions::on_lane_thread.
  std::function<void(uint32_t lane)> on_lane_thread;
};
using MakeWorkerLanes = std::function<std::unique_ptr<WorkerLanes>(WorkerLanesParts parts)>;

}  // namespace byteps::runtime
