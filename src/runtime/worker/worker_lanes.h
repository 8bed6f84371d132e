// The part of a worker's engine behind its front: lanes with connections of their own
// (lane_group.h), or a part of a machine whose ranks share lanes (machine/member/member_lanes.h).
//
// All calls and events happen on the owner's loop; before the loop runs and after it has stopped,
// on the thread that owns the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/base/log.h"
#include "src/base/status.h"
#include "src/protocol/worker/worker_options.h"
#include "src/runtime/handshake.h"
#include "src/runtime/worker/shard_links.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

class WorkerLanes {
 public:
  struct Events {
    std::function<void(protocol::FrontMail)> to_front;
    // The first lane or another lane has had an event; all mail is delivered.
    std::function<void()> on_event;
    // A connection to a shard was made or lost: the receiver asks AllUp.
    std::function<void()> on_links;
    std::function<void(const wire::Suspect&)> on_suspect;
    std::function<void(const std::string&)> on_evicted;
    // This worker cannot go on, because of a process that it shares memory with.
    std::function<void(const Status&)> on_lost;
  };
  virtual ~WorkerLanes() = default;

  // Returns the number of lanes that the front has mail for.
  virtual uint32_t front_lanes() const = 0;
  // Starts the threads. Must be called once. Throws std::system_error if no thread is left. If one
  // of the threads stops before End, it stops the owner's loop.
  virtual void Start() = 0;
  // Sends mail to the lane, in order. Deliver or the lane's thread delivers it. Never throws: if
  // there is no memory for the mail, the next Deliver throws.
  virtual void Send(uint32_t lane, protocol::LaneMail mail) noexcept = 0;
  // Delivers the mail between the first lane and the front.
  virtual void Deliver() = 0;
  virtual bool AllUp(uint64_t epoch) const = 0;
  virtual void OnCoordinatorBack() = 0;
  // Drops all answers from now on; calls `done` when that holds for all lanes.
  virtual void IgnoreAnswers(std::function<void()> done) = 0;
  // Closes the lanes for good: nothing comes in or goes out any more. `why`: this worker has left
  // (kShutdown), or its job is over. Of later mail the lanes only answer mail that ends an
  // exchange, and say that the exchange is released.
  virtual void Close(const Status& why) = 0;
  // Ends the threads. REQUIRES: the owner's loop does not run any more. When this returns, nothing
  // touches users' memory and no event comes any more. Waits until each lane has finished its
  // current step. May be called again.
  virtual void End() noexcept = 0;
  // Returns why a thread has ended too early; kOk: none has, or its loop was stopped.
  virtual Status failure() = 0;
};

// The arguments from which lanes are made. All that is borrowed outlives the lanes.
struct WorkerLanesParts {
  transport::Transport& transport;
  transport::Loop& loop;  // the owner's
  const protocol::WorkerOptions& worker;
  const ShardLinkOptions& links;
  const JobIdentity& identity;
  Log& log;
  WorkerLanes::Events events;
  // Like WorkerEngineOptions::on_lane_thread.
  std::function<void(uint32_t lane)> on_lane_thread;
};
using MakeWorkerLanes = std::function<std::unique_ptr<WorkerLanes>(WorkerLanesParts parts)>;

}  // namespace byteps::runtime
