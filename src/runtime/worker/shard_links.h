// A lane's connections to its shards of the view: makes them, and makes them again when they
// break, as long as the view has the shard. Reads what shards send and gives it to the lane;
// tells it which connections stand.
//
// Lives on one loop; all calls and callbacks on its thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/log.h"
#include "src/protocol/worker/lane/lane.h"
#include "src/protocol/worker/lane/shard_targets.h"
#include "src/runtime/handshake.h"
#include "src/runtime/worker/shard_paths.h"
#include "src/transport/transport.h"
#include "src/wire/control.h"

namespace byteps::runtime {

struct ShardLinkOptions {
  // A shard that was connected and cannot be reached again for so long is reported to the
  // coordinator; one that never was gets more time, its process may still be starting.
  Duration unreachable_after = seconds(1);
  Duration first_unreachable_after = seconds(10);
  // The host identity of this process, if its transport has shared memory: servers of this host are
  // reached through it, or through TCP if that fails. Empty: all through TCP.
  std::string shared_host;
  // The interfaces of this host that the lanes share: lane i leaves from addresses of interface i,
  // counted around. Empty: the system chooses.
  std::vector<std::vector<OwnAddress>> interfaces;
};

class ShardLinks {
 public:
  struct Events {
    // A shard's connection stands or is gone, and the lane knows it.
    std::function<void()> on_links;
    // Something reached the lane.
    std::function<void()> on_event;
    std::function<void(const wire::Suspect&)> on_suspect;
    // A server says that this worker is out of the view.
    std::function<void(const std::string&)> on_evicted;
  };

  // `pool` outlives the connections.
  ShardLinks(transport::Loop& loop, const ShardLinkOptions& options, const JobIdentity& identity,
             uint32_t lane_number, uint32_t lanes, BufferPool& pool, protocol::Lane& lane, Log& log,
             Events events);
  ~ShardLinks();

  // Before the lane gets `view`: closes what has no place in it.
  void CloseStale(const wire::View& view);
  // After it: connects what is missing.
  void Connect(Slot slot);
  // All living shards of the view are connected.
  bool AllUp() const;
  // Null when there is none.
  transport::Connection* To(ShardId shard);
  // Nothing that is still queued borrows from `memory` after this call.
  void Detach(ConstByteSpan memory);
  // Which servers are not connected and why, for a coordinator that has forgotten it.
  std::vector<wire::Suspect> Suspects() const;
  // The coordinator is back, or this process is: tries all servers that are not connected again, at
  // once, before it says that one cannot be reached.
  void TryAllAgain();
  // From now on answers are read and thrown away, also those that have begun to arrive.
  void IgnoreAnswers() { ignores_answers_ = true; }
  // Closes all, for good; the lane is not told.
  void Close();

 private:
  struct Link;

  // Null: another lane has it, or it is closed.
  Link* Find(ShardId shard) const;
  void Begin(Link& link);
  void TryTcp(Link& link, const Status& why);
  void TakeNextPath(Link& link);
  void TellShared();
  void OnConnected(ShardId shard, uint64_t attempt,
                   Result<std::unique_ptr<transport::Connection>> connection);
  void OnBound(ShardId shard, Result<std::unique_ptr<transport::Connection>> connection);
  void OnClosed(Link& link, const Status& why);
  void TryAgain(Link& link, const Status& why);
  void OnOverdue(Link& link);
  void LookAtPaths();
  std::string NameOf(const Link& link) const;
  template <typename Use>
  void ForEach(Use use) const {
    for (const auto& link : links_) {
      if (link != nullptr) use(*link);
    }
  }

  transport::Loop& loop_;
  const ShardLinkOptions options_;
  const JobIdentity identity_;
  const std::vector<OwnAddress> own_;  // of the lane's interface
  BufferPool& pool_;
  protocol::Lane& lane_;
  Log& log_;
  Events events_;
  protocol::ShardTargets targets_;
  Slot slot_ = kNoSlot;
  uint64_t next_attempt_ = 1;
  bool ignores_answers_ = false;
  // The server processes that are reached through shared memory, as the log has told.
  std::vector<uint64_t> told_shared_;
  std::unique_ptr<transport::Loop::Timer> looking_;
  std::vector<std::unique_ptr<Link>> links_;  // by shard; null: of another lane, or closed
};

}  // namespace byteps::runtime
