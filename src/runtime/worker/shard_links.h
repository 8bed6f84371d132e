// The connections of a lane to its shards of the view. Makes each connection, and makes it again
// when it breaks, as long as the view has the shard. Reads the frames of shards, gives them to the
// lane, and tells the lane which connections work.
//
// Lives on one loop; all calls and callbacks on the thread of the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/log.h"
#include "src/protocol/worker/lane/lane.h"
#include "src/protocol/worker/lane/shard_targets.h"
#include "src/runtime/handshake.h"
#include "src/runtime/worker/shard_paths.h"
#include "src/transport/transport.h"
#include "src/wire/membership.h"
#include "src/wire/view.h"

namespace byteps::runtime {

struct ShardLinkOptions {
  // The link reports a shard to the coordinator after this time without a connection. A shard that
  // was never connected gets the longer time, because its process may still be starting. A shard
  // with several paths gets this time once more for each path whose attempt has not failed yet.
  Duration unreachable_after = seconds(1);
  Duration first_unreachable_after = seconds(10);
  // The host identity of this process, if its transport has shared memory. The link reaches servers
  // of this host through shared memory, or through TCP if that fails. Empty: all servers through
  // TCP.
  std::string shared_host;
  // The interfaces of this host, which the lanes share: lane i sends from the addresses of
  // interface i modulo their number. Empty: the system chooses.
  std::vector<std::vector<OwnAddress>> interfaces;
  // If this is true, the job begins only when the connections to other hosts go over RDMA. If one
  // does not within `rdma_limit`, the links call `on_no_rdma` with the reason, on the lane's
  // thread. Later connections may stay on TCP.
  bool awaits_rdma = false;
  Duration rdma_limit = seconds(10);
  std::function<void(const std::string& why)> on_no_rdma;
};

class ShardLinks {
 public:
  struct Events {
    // A shard's connection was made or lost. The lane has been told before.
    std::function<void()> on_links;
    // The lane has got something from a shard, or has heard that a connection was made or lost.
    std::function<void()> on_event;
    std::function<void(const wire::Suspect&)> on_suspect;
    // A server says that the view does not contain this worker any more.
    std::function<void(const std::string&)> on_evicted;
  };

  ShardLinks(transport::Loop& loop, const ShardLinkOptions& options, const JobIdentity& identity,
             uint32_t lane_number, uint32_t lanes, protocol::Lane& lane, Log& log, Events events);
  ~ShardLinks();

  // Closes the connections that have no place in `view`. Must be called before the lane gets the
  // view.
  void CloseStale(const wire::View& view);
  // Connects the shards that are not connected. Must be called after the lane has got the view.
  void Connect(Slot slot);
  // Returns whether all living shards of the view are connected, and over RDMA if the job waits for
  // that.
  bool AllUp() const;
  // Returns the connection, or null if there is none.
  transport::Connection* To(ShardId shard);
  // Makes sure that no queued frame borrows from `memory` after this call.
  void Detach(ConstByteSpan memory);
  // Returns the servers that are not connected, and why, for a coordinator that has forgotten them.
  std::vector<wire::Suspect> Suspects() const;
  // The coordinator or this process was away and is back. Tries all unconnected servers again at
  // once, before it reports any as unreachable.
  void TryAllAgain();
  // Reads and drops all answers from now on, also answers that have begun to arrive.
  void IgnoreAnswers() { ignores_answers_ = true; }
  // Closes all connections for good, without telling the lane.
  void Close();

 private:
  struct Link;

  // Returns null if another lane has the shard, or if the link is closed.
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
  void Await(Link& link);
  void OnOverdue(Link& link);
  void LookAtPaths();
  void AwaitRdma(Link& link);
  void LookAtMedium(Link& link, Time deadline);
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
  const std::vector<OwnAddress> own_;  // addresses of the lane's interface
  protocol::Lane& lane_;
  Log& log_;
  Events events_;
  protocol::ShardTargets targets_;
  Slot slot_ = kNoSlot;
  uint64_t next_attempt_ = 1;
  bool ignores_answers_ = false;
  // The server processes reached through shared memory, as last written to the log.
  std::vector<uint64_t> told_shared_;
  std::unique_ptr<transport::Loop::Timer> looking_;
  std::vector<std::unique_ptr<Link>> links_;  // by shard; null: another lane's shard, or closed
};

}  // namespace byteps::runtime
