#include "src/runtime/shard_thread.h"

#include <utility>

#include "src/runtime/frames.h"

namespace byteps::runtime {

// A worker's connection.
struct ShardThread::Link final : transport::FrameReceiver {
  Link(ShardThread& owner, Slot worker, std::unique_ptr<transport::Connection> bound)
      : shard(owner), slot(worker), connection(std::move(bound)) {}

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan bytes, size_t payload_bytes) override {
    incoming = static_cast<wire::FrameKind>(kind);
    if (incoming == wire::FrameKind::kPush) {
      Result<wire::DataHeader> header = wire::DecodeDataHeader(bytes, payload_bytes);
      if (!header.ok()) return header.status();
      return shard.machine_.OnPushHeader(slot, header.value(), payload_bytes, shard.loop_->Now());
    }
    if (incoming == wire::FrameKind::kAck && payload_bytes == 0) {
      Result<uint64_t> count = wire::DecodeNumber(bytes);
      if (!count.ok()) return count.status();
      shard.machine_.OnAck(slot, count.value());
      return ByteSpan();
    }
    return Status(StatusCode::kProtocol, "frame " + std::to_string(kind) + " for a shard");
  }

  void OnFrame() override {
    if (incoming == wire::FrameKind::kPush) shard.machine_.OnPush(slot);
    shard.ticker_.Arm();
  }

  void OnClosed(const Status& why) override { shard.OnClosed(*this, why); }

  ShardThread& shard;
  Slot slot;
  std::unique_ptr<transport::Connection> connection;
  wire::FrameKind incoming = wire::FrameKind::kPush;
};

ShardThread::ShardThread(transport::Transport& transport, const protocol::ShardOptions& options,
                         Log& log, OnMisbehaviour on_misbehaviour)
    : log_(log),
      on_misbehaviour_(std::move(on_misbehaviour)),
      loop_(transport.MakeLoop()),
      machine_(options, pool_, arithmetic_, *this),
      ticker_(
          *loop_, [this] { return machine_.NextTick(); },
          [this](Time now) { machine_.OnTick(now); }),
      payload_bytes_max_(options.piece_bytes_max) {}

ShardThread::~ShardThread() {
  loop_->Stop();
  if (thread_.joinable()) thread_.join();
}

void ShardThread::Start() {
  thread_ = std::thread([this] { loop_->Run(); });
}

void ShardThread::PostView(const wire::View& view) {
  loop_->Post([this, view] {
    if (view.generation != generation_) links_.clear();
    generation_ = view.generation;
    machine_.OnView(view);
  });
}

void ShardThread::PostLeft(Slot slot, const Status& why) {
  loop_->Post([this, slot, why] { machine_.OnLeft(slot, why); });
}

void ShardThread::PostRetire(TensorId tensor) {
  loop_->Post([this, tensor] { machine_.Retire(tensor); });
}

void ShardThread::Adopt(Slot slot, uint32_t generation,
                        std::unique_ptr<transport::Connection> connection) {
  if (generation != generation_) return;  // its generation ended while it came over
  machine_.OnLost(slot);
  auto link = std::make_unique<Link>(*this, slot, std::move(connection));
  link->connection->SetLimits({payload_bytes_max_});
  link->connection->Start(link.get());
  links_[slot] = std::move(link);
}

void ShardThread::SendAnswer(Slot to, const wire::DataHeader& header, ConstByteSpan payload,
                             BufferRef keep) {
  auto found = links_.find(to);
  if (found == links_.end()) return;  // gone; the coordinator decides what that means
  found->second->connection->Send(
      DataFrame(wire::FrameKind::kAnswer, header, payload, std::move(keep)));
}

void ShardThread::SendWant(Slot to, const std::vector<wire::PieceRef>& pieces) {
  auto found = links_.find(to);
  if (found == links_.end()) return;
  wire::EncodePieceRefs(pieces, want_bytes_);
  found->second->connection->Send(BytesFrame(pool_, wire::FrameKind::kWant, want_bytes_));
}

void ShardThread::OnClosed(Link& link, const Status& why) {
  Slot slot = link.slot;
  machine_.OnLost(slot);
  auto gone = links_.extract(slot);
  if (why.code() != StatusCode::kProtocol) return;
  log_.Error("worker {} was cut off: {}", slot, why.message());
  on_misbehaviour_(slot, why);
}

}  // namespace byteps::runtime
