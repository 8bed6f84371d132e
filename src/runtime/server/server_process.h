// A server as a process: one loop for control and accepting, and one thread per shard with its own
// loop, buffers, connections and pieces. Shards share nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
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
  wire::Join join;  // the server fills in the addresses when it knows the ports
  // The number of shards instead of `join.shards` if a round trip to the coordinator takes
  // `long_path` or more; 0: the same number.
  uint32_t far_shards = 0;
  Duration long_path = plan::kLongPath;
  // The port to listen on, at the announced hosts if they are this host; 0: any port.
  uint16_t port = 0;
  // True: workers of this host may also connect through shared memory, which the transport has.
  bool shared_links = false;
  // The hosts to announce. Empty: one, which transport::ChooseAnnouncement derives from the
  // connection. Several: an address of each of this host's interfaces; the workers spread their
  // connections over them.
  std::vector<std::string> announced_hosts;
  // Called first on the thread of each shard, with the shard's number in this server. Must not
  // throw. Null: the server calls nothing.
  std::function<void(uint32_t shard)> on_shard_thread;
  // The codecs that the shards can decode and encode. They outlive the process; all shards use them
  // at once.
  const protocol::Codecs* codecs = &protocol::Codecs::None();
  // Returns the processor time that the process has used so far; null: the server does not tell it.
  std::function<Duration()> cpu_time;
  // Null: the server records no timeline. Outlives the process.
  ServerTimeline* timeline = nullptr;
};

class ServerProcess {
 public:
  ServerProcess(transport::Transport& transport, const ServerProcessOptions& options, Log& log);
  ~ServerProcess();

  // Binds an address ("host:port") and returns it with the port that was really bound. Several
  // calls bind several addresses, for workers of hosts with several interfaces. Without this call
  // the server binds the addresses that it announces, as soon as it has reached the coordinator.
  // REQUIRES: called before Run.
  Result<std::string> Listen(const std::string& address);

  // Blocks on the calling thread until the job is over. kOk: the job ended in order. Otherwise
  // returns the reason; kEvicted: the others went on without this server.
  Status Run();

  // Ends this process' part with `why`; may be called from any thread.
  void Stop(const Status& why);

  // Returns the number of shards that were made. REQUIRES: Run has returned.
  uint32_t shards() const { return shards_made_; }

  // Returns a worker that was in the job together with this server and has never reached it, as
  // "worker 3"; empty: there is none. REQUIRES: Run has returned.
  std::string Unreached() const;

  // Returns the addresses that the server announced. REQUIRES: Run has returned.
  const std::string& announced() const { return announced_; }

 private:
  void OnReady();
  wire::Alive Tell() const;
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
  // Called on the thread of the shard, which ends; takes no memory.
  void OnShardFailed(const Status& why);

  transport::Transport& transport_;
  const ServerProcessOptions options_;
  Log& log_;
  std::unique_ptr<transport::Loop> loop_;
  ControlLink control_;
  std::optional<protocol::Membership> membership_;  // set when the own address is known
  std::vector<std::unique_ptr<ShardThread>> shards_;
  std::vector<std::unique_ptr<transport::Listener>> listeners_;
  std::unique_ptr<transport::Listener> shared_listener_;  // null: no shared memory
  Handshakes handshakes_;
  protocol::Admission admission_;
  wire::View view_;  // the view in force
  ShardId first_shard_ = 0;
  uint32_t shards_made_ = 0;
  std::set<Slot> reached_by_;  // since the start
  std::string announced_;      // the announced addresses, and the reason for the choice
  // The workers, by incarnation, whose connection broke and has not come back. The coordinator was
  // told.
  std::map<uint64_t, wire::Suspect> broken_;
  std::optional<Status> outcome_;

  Mutex mutex_;
  Status shard_failed_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::runtime
