// One shard: a thread, a loop, the connections of the workers, and the state machine. Receiving,
// combining and answering a piece happen here, on one thread, without a lock or a hand-over.
//
// Start, Stop and the Post methods may be called from any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/log.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/shard/admission.h"
#include "src/protocol/shard/shard.h"
#include "src/runtime/ticker.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

class ShardThread final : public protocol::ShardDriver {
 public:
  // A worker's connection broke: kProtocol when it sent what no correct worker sends. Called on the
  // shard's thread.
  using OnBroken = std::function<void(uint64_t incarnation, const Status&)>;

  // The thread does nothing any more, because something was thrown (RunLoop). Called on it; must
  // not need memory.
  using OnFailed = std::function<void(const Status&)>;

  // `on_thread`: called first on the shard's thread; must not throw.
  ShardThread(transport::Transport& transport, const protocol::ShardOptions& options, Log& log,
              OnBroken on_broken, OnFailed on_failed, std::function<void()> on_thread);
  // Stops the thread and waits for it.
  ~ShardThread() override;

  void Start();
  transport::Loop& loop() { return *loop_; }

  // Views must come in order; `self` is this shard's number.
  void PostView(const wire::View& view, ShardId self);
  void PostRetire(const std::vector<TensorId>& tensors, uint64_t use);
  void PostForgotten(const std::vector<TensorId>& tensors);
  void PostStillKnown(const wire::StillKnown& known);

  // On the shard's thread: a worker's connection, its handshake done. It takes the place of an
  // older one; one of a worker that is not in the view any more is closed.
  void Adopt(Slot slot, uint64_t incarnation, uint32_t generation,
             std::unique_ptr<transport::Connection> connection);

 private:
  struct Link;

  void SendAnswer(Slot to, const wire::DataHeader& header, ConstByteSpan payload,
                  BufferRef keep) override;
  void SendWant(Slot to, const std::vector<wire::PieceRef>& pieces) override;
  void SendStable(Slot to, const wire::Progress& stable) override;
  void Send(Slot to, transport::OutFrame frame);
  void OnClosed(Link& link, const Status& why);

  Log& log_;
  OnBroken on_broken_;
  OnFailed on_failed_;
  const std::function<void()> on_thread_;
  std::unique_ptr<transport::Loop> loop_;
  BufferPool pool_;  // before everything that holds its buffers
  protocol::KernelArithmetic arithmetic_;
  std::map<Slot, std::unique_ptr<Link>> links_;
  protocol::Shard machine_;
  protocol::WorkerLinks bound_;  // which of `links_` there are
  Ticker ticker_;
  size_t payload_bytes_max_;
  std::thread thread_;
};

}  // namespace byteps::runtime
