// Runs one lane of a worker on a loop: its connections, its time, its mail. What it has for the
// front, and for the coordinator, it tells by events.
//
// Lives on one loop; all calls and events on its thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/log.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/worker/lane/lane.h"
#include "src/runtime/ticker.h"
#include "src/runtime/worker/piece_resumer.h"
#include "src/runtime/worker/shard_links.h"

namespace byteps::runtime {

class LaneRunner final : private protocol::LaneDriver {
 public:
  struct Events {
    std::function<void(protocol::FrontMail)> to_front;
    // Whether all shards of this lane that live in the view of `epoch` are connected; told at each
    // view and each change.
    std::function<void(uint64_t epoch, bool all_up)> on_links;
    // Something reached the lane.
    std::function<void()> on_event;
    std::function<void(const wire::Suspect&)> on_suspect;
    // A server says that this worker is out of the view.
    std::function<void(const std::string&)> on_evicted;
  };

  LaneRunner(transport::Loop& loop, const protocol::LaneOptions& lane,
             const ShardLinkOptions& links, const JobIdentity& identity, Log& log, Events events);

  void OnMail(protocol::LaneMail mail);
  // The coordinator is back: tries all servers that are not connected again, and says again which
  // cannot be reached.
  void OnCoordinatorBack();
  // From now on answers are read and thrown away, also those that have begun to arrive.
  void IgnoreAnswers() { links_.IgnoreAnswers(); }
  // Closes all connections, for good: nothing writes to users' memory from them any more. Behind it
  // no view is followed and nothing begins; that an exchange ends is answered.
  void Close();
  // The same when the loop does not run any more and may have ended in the middle of a step: stages
  // touch users' memory no more, either.
  void End();

 private:
  void OnStagesEnded(const std::vector<PieceResumer::Ended>& all);
  void OnView(const protocol::to_lane::View& mail);
  void OnLinks();

  void ToFront(protocol::FrontMail mail) override { events_.to_front(std::move(mail)); }
  void SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                BufferRef keep) override;
  void SendVerdict(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                   BufferRef keep) override;
  void SendHave(ShardId to, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces) override;
  void SendResync(ShardId to, uint64_t epoch) override;
  void SendAbort(ShardId to, const wire::DataHeader& push, const std::string& why) override;
  void SendAck(ShardId to, const wire::Progress& ack) override;
  void SendProcessSet(ShardId to, const wire::Progress& number, const SlotSet& ranks) override;
  void SendJoined(ShardId to, const wire::Progress& number, const SlotSet& ranks) override;
  void Send(ShardId to, transport::OutFrame frame);
  void Forget(ConstByteSpan memory) override { links_.Detach(memory); }

  Events events_;
  BufferPool pool_;
  protocol::KernelArithmetic arithmetic_;
  PieceResumer resumer_;
  protocol::Lane lane_;
  ShardLinks links_;
  Ticker ticker_;
  uint64_t epoch_ = 0;
  bool closed_ = false;
};

}  // namespace byteps::runtime
