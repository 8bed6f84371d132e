// Runs one lane of a worker on a loop: the lane's connections, its time and its mail. Reports to
// the front and to the coordinator by events.
//
// Lives on one loop; all calls and events on the thread of the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/log.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/worker/lane/lane.h"
#include "src/runtime/frames.h"
#include "src/runtime/ticker.h"
#include "src/runtime/worker/piece_resumer.h"
#include "src/runtime/worker/shard_links.h"

namespace byteps::runtime {

class LaneRunner final : private protocol::LaneDriver {
 public:
  struct Events {
    std::function<void(protocol::FrontMail)> to_front;
    // Tells whether all shards of this lane that live in the view of `epoch` are connected. Called
    // at each view and at each change.
    std::function<void(uint64_t epoch, bool all_up)> on_links;
    // The lane has got something from a shard, or has heard that a connection was made or lost.
    std::function<void()> on_event;
    std::function<void(const wire::Suspect&)> on_suspect;
    // A server says that the view does not contain this worker any more.
    std::function<void(const std::string&)> on_evicted;
  };

  LaneRunner(transport::Loop& loop, const protocol::LaneOptions& lane,
             const ShardLinkOptions& links, const JobIdentity& identity, Log& log, Events events);

  void OnMail(protocol::LaneMail mail);
  // The coordinator is back. Tries all unconnected servers again, and reports again the servers
  // that it cannot reach.
  void OnCoordinatorBack();
  // Reads and drops all answers from now on, also answers that have begun to arrive.
  void IgnoreAnswers() { links_.IgnoreAnswers(); }
  // Closes all connections for good, so no connection writes to users' memory any more. Afterwards
  // the lane follows no view and begins nothing, but it still answers mail that ends an exchange.
  void Close();
  // Like Close, after the loop has stopped, perhaps in the middle of a step. Stages do not touch
  // users' memory any more, either.
  void End();

 private:
  void OnStagesEnded(const std::vector<PieceResumer::Ended>& all);
  void OnView(const protocol::to_lane::View& mail);
  void OnLinks();

  void ToFront(protocol::FrontMail mail) override { events_.to_front(std::move(mail)); }
  void SendData(ShardId to, wire::DataFrame frame) override {
    SendOut(to, FrameOf(std::move(frame)));
  }
  void Send(ShardId to, const wire::Frame& frame) override {
    SendOut(to, FrameOf(loop_.Buffers(), frame));
  }
  void SendOut(ShardId to, transport::OutFrame frame);
  void Forget(ConstByteSpan memory) override { links_.Detach(memory); }

  transport::Loop& loop_;
  Events events_;
  protocol::KernelArithmetic arithmetic_;
  PieceResumer resumer_;
  protocol::Lane lane_;
  ShardLinks links_;
  Ticker ticker_;
  uint64_t epoch_ = 0;
  bool closed_ = false;
};

}  // namespace byteps::runtime
