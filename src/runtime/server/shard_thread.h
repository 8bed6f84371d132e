// One shard: a thread, a loop, the connections of the workers, and the state machine. A piece is
// received, combined and answered here, on one thread, without a lock or a hand-over.
//
// Start, Stop and the Post methods may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/log.h"
#include "src/base/thread_annotations.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/shard/admission.h"
#include "src/protocol/shard/shard.h"
#include "src/runtime/frames.h"
#include "src/runtime/ticker.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

class ShardThread final : public protocol::ShardDriver {
 public:
  // The workers of connections, once for each connection, by how the connections travel.
  using Ways = std::map<std::string, std::vector<Slot>>;

  // The connection of a worker broke. kProtocol: the worker sent bytes that no correct worker
  // sends. Called on the shard's thread.
  using OnBroken = std::function<void(uint64_t incarnation, const Status&)>;

  // Something was thrown on the thread (RunLoop), so the thread has stopped working. Called on the
  // shard's thread; must not need memory.
  using OnFailed = std::function<void(const Status&)>;

  // `on_thread`: called first on the shard's thread; must not throw.
  ShardThread(transport::Transport& transport, const protocol::ShardOptions& options, Log& log,
              OnBroken on_broken, OnFailed on_failed, std::function<void()> on_thread);
  // Stops the thread and waits for it.
  ~ShardThread() override;

  void Start();
  transport::Loop& loop() { return *loop_; }
  // The bytes of contributions that came in, and of answers that went out, so far.
  uint64_t received_bytes() const { return received_bytes_.load(std::memory_order_relaxed); }
  uint64_t sent_bytes() const { return sent_bytes_.load(std::memory_order_relaxed); }
  // Adds the connections of this shard, as they were up to half a second ago, to `ways`.
  void AddWays(Ways& ways) const;

  // Views must come in order. `self`: the number of this shard.
  void PostView(const wire::View& view, ShardId self);
  void PostRetire(const std::vector<TensorId>& tensors, uint64_t use);
  void PostForgotten(const std::vector<TensorId>& tensors);
  void PostStillKnown(const wire::StillKnown& known);

  // Takes the connection of a worker, whose handshake is done, in place of an older connection of
  // the worker. Closes it if the worker is not in the view any more. Must be called on the shard's
  // thread.
  void Adopt(Slot slot, uint64_t incarnation, uint32_t generation,
             std::unique_ptr<transport::Connection> connection);

 private:
  struct Link;

  void SendData(Slot to, wire::DataFrame frame) override {
    Add(frame.payload.size(), sent_bytes_);
    SendOut(to, FrameOf(std::move(frame)));
  }
  void Send(Slot to, const wire::Frame& frame) override {
    SendOut(to, FrameOf(loop_->Buffers(), frame));
  }
  void SendOut(Slot to, transport::OutFrame frame);
  void OnClosed(Link& link, const Status& why);
  void LookAtWays();
  // The shard's thread alone changes the counter, and others read it.
  static void Add(size_t bytes, std::atomic<uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }

  Log& log_;
  OnBroken on_broken_;
  OnFailed on_failed_;
  const std::function<void()> on_thread_;
  std::unique_ptr<transport::Loop> loop_;  // before everything that holds its buffers
  protocol::KernelArithmetic arithmetic_;
  std::map<Slot, std::unique_ptr<Link>> links_;
  protocol::Shard shard_;
  protocol::WorkerLinks bound_;  // the connections in `links_`
  Ticker ticker_;
  size_t payload_bytes_max_;
  std::atomic<uint64_t> received_bytes_ = 0;
  std::atomic<uint64_t> sent_bytes_ = 0;
  std::unique_ptr<transport::Loop::Timer> looking_;
  mutable Mutex mutex_;
  std::vector<std::pair<Slot, std::string>> ways_ BYTEPS_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace byteps::runtime
