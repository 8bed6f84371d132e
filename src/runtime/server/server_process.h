// A server as a process: one loop for control and accepting, and one thread per shard with its own
// loop, buffers, connections and pieces. Shards share nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/log.h"
#include "src/base/thread_annotations.h"
#include "src/base/time.h"
#include "src/plan/network_threads.h"
#include "src/protocol/codec.h"
#include "src/protocol/control/views/membership.h"
#include "src/protocol/shard/admission.h"
#include "src/runtime/control_link.h"
#include "src/runtime/handshakes.h"
#include "src/transport/transport.h"
#include "src/wire/control.h"

namespace byteps::runtime {

class ServerTimeline;
class ShardThread;

struct ServerProcessOptions {
  ControlLinkOptions control;
  wire::Join join;  // its addresses are filled in when the ports are known
  // How many shards it has instead if a round trip to the coordinator takes `long_path` or more; 0:
  // as many as on a short one.
  uint32_t far_shards = 0;
  Duration long_path = plan::kLongPath;
  uint16_t port = 0;  // to listen on, at the announced hosts if they are this one; 0: any
  // Workers of this host may come through shared memory, too: the transport has it.
  bool shared_links = false;
  // Empty: one, which transport::ChooseAnnouncement makes of the connection. Several: an address of
  // each of this host's interfaces, which workers spread their connections over.
  std::vector<std::string> announced_hosts;
  // Called first on the thread of each shard, by its number in this server. Must not throw. Null:
  // nothing is.
  std::function<void(uint32_t shard)> on_shard_thread;
  // What the shards can decode and encode. They outlive the process; all shards use them at once.
  const protocol::Codecs* codecs = &protocol::Codecs::None();
  // Null: none is recorded. Outlives the process.
  ServerTimeline* timeline = nullptr;
};

class ServerProcess {
 public:
  ServerProcess(transport::Transport& transport, const ServerProcessOptions& options, Log& log);
  ~ServerProcess();

  // Binds an address ("host:port") and returns it with the port that was really bound. Without this
  // call the server binds what it announces, as soon as it has reached the coordinator.
  // Several calls: what workers of hosts with several interfaces find.
  // REQUIRES: called before Run.
  Result<std::string> Listen(const std::string& address);

  // Blocks until the job is over, on the calling thread. kOk: in order. Otherwise why; kEvicted:
  // the others went on without this server.
  Status Run();

  // Ends this process' part with `why`, from any thread.
  void Stop(const Status& why);

  // How many it has. REQUIRES: Run has returned.
  uint32_t shards() const { return shards_made_; }

 private:
  void OnReady();
  void MakeShards(uint32_t count);
  uint32_t ShardCount();
  Status Announce(wire::Join& join);
  void ListenShared();
  void OnMessage(const wire::Message& message);
  void OnView(const wire::View& view);
  void OnBroken(uint64_t worker, const Status& why);
  void Decide(const wire::Hello& hello, HandshakeAcceptor::Answer answer);
  void OnBound(Result<std::unique_ptr<transport::Connection>> connection, const wire::Hello& hello,
               const std::string& peer);
  Status CheckShard(const wire::Hello& hello) const;
  const wire::WorkerInfo* FindWorker(uint64_t incarnation) const;
  void End(const Status& why);
  // On the shard's thread, which has come to its end; takes no memory.
  void OnShardFailed(const Status& why);

  transport::Transport& transport_;
  const ServerProcessOptions options_;
  Log& log_;
  std::unique_ptr<transport::Loop> loop_;
  BufferPool pool_;
  ControlLink control_;
  std::optional<protocol::Membership> membership_;  // once the own address is known
  std::vector<std::unique_ptr<ShardThread>> shards_;
  std::vector<std::unique_ptr<transport::Listener>> listeners_;
  std::unique_ptr<transport::Listener> shared_listener_;  // null: there is none
  Handshakes handshakes_;
  protocol::Admission admission_;
  wire::View view_;  // in force
  ShardId first_shard_ = 0;
  uint32_t shards_made_ = 0;
  std::string announced_;  // its address, and why this one
  // Workers whose connection broke and has not come back, by incarnation: the coordinator was told.
  std::map<uint64_t, wire::Suspect> broken_;
  std::optional<Status> outcome_;

  Mutex mutex_;
  Status shard_failed_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::runtime
