#include "src/runtime/server/shard_thread.h"

#include <algorithm>
#include <utility>

#include "src/runtime/frames.h"
#include "src/runtime/loop_thread.h"

namespace byteps::runtime {
namespace {

// A verdict carries the bitmap of the members whose contributions are in it, and a codec may add a
// few bytes.
constexpr size_t kBytesMoreMax = wire::kMembersMax / 8 + wire::kCodecExtraBytesMax;

}  // namespace

// A worker's connection.
struct ShardThread::Link final : transport::FrameReceiver {
  Link(ShardThread& owner, Slot worker, std::unique_ptr<transport::Connection> bound)
      : shard(owner), slot(worker), connection(std::move(bound)) {}

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan bytes, size_t payload_bytes) override {
    incoming = static_cast<wire::FrameKind>(kind);
    switch (incoming) {
      case wire::FrameKind::kPush:
      case wire::FrameKind::kVerdict: return OnData(bytes, payload_bytes);
      case wire::FrameKind::kAck:
      case wire::FrameKind::kResync:
        if (payload_bytes == 0) return OnNumber(bytes);
        break;
      case wire::FrameKind::kHave:
        if (payload_bytes > wire::kWantCountMax * wire::kHeldPieceBytes) break;
        return Collect(bytes, payload_bytes);
      case wire::FrameKind::kAbort: return CollectAbort(bytes, payload_bytes);
      case wire::FrameKind::kJoined:
      case wire::FrameKind::kProcessSet: {
        if (payload_bytes > wire::kProcessSetBytesMax) break;
        Result<wire::Progress> number = wire::DecodeProgress(bytes);
        if (!number.ok()) return number.status();
        process_set = number.value();
        payload.resize(payload_bytes);
        return ByteSpan(payload);
      }
      default: break;
    }
    return Status(StatusCode::kProtocol, "frame " + std::to_string(kind) + " for a shard");
  }

  Result<ByteSpan> OnData(ConstByteSpan bytes, size_t payload_bytes) {
    Result<wire::DataHeader> header = wire::DecodeDataHeader(incoming, bytes, payload_bytes);
    if (!header.ok()) return header.status();
    Time now = shard.loop_->EventTime();
    return incoming == wire::FrameKind::kPush
               ? shard.machine_.OnPushHeader(slot, header.value(), payload_bytes, now)
               : shard.machine_.OnVerdictHeader(slot, header.value(), payload_bytes, now);
  }

  Result<ByteSpan> OnNumber(ConstByteSpan bytes) {
    if (incoming != wire::FrameKind::kResync) {
      Result<wire::Progress> progress = wire::DecodeProgress(bytes);
      if (!progress.ok()) return progress.status();
      shard.machine_.OnAck(slot, progress.value(), shard.loop_->EventTime());
      return ByteSpan();
    }
    Result<uint64_t> number = wire::DecodeNumber(bytes);
    if (!number.ok()) return number.status();
    shard.machine_.OnResync(slot, number.value());
    return ByteSpan();
  }

  // Receives the whole payload of a held or abort frame, because decoding needs all of it.
  Result<ByteSpan> Collect(ConstByteSpan bytes, size_t payload_bytes) {
    Result<uint64_t> number = wire::DecodeNumber(bytes);
    if (!number.ok()) return number.status();
    epoch = number.value();
    payload.resize(payload_bytes);
    return ByteSpan(payload);
  }

  Result<ByteSpan> CollectAbort(ConstByteSpan bytes, size_t payload_bytes) {
    Result<wire::DataHeader> header = wire::DecodeDataHeader(incoming, bytes, payload_bytes);
    if (!header.ok()) return header.status();
    abort = header.value();
    payload.resize(payload_bytes);
    return ByteSpan(payload);
  }

  void OnFrame() override {
    bool data = incoming == wire::FrameKind::kPush || incoming == wire::FrameKind::kVerdict;
    if (data) shard.machine_.OnPayload(slot);
    Status sound;
    if (incoming == wire::FrameKind::kHave) {
      sound = wire::DecodeHeldPieces(payload, held);
      if (sound.ok()) shard.machine_.OnHave(slot, epoch, held);
    }
    if (incoming == wire::FrameKind::kAbort) {
      const auto* text = reinterpret_cast<const char*>(payload.data());
      sound = shard.machine_.OnAbort(slot, abort, std::string(text, payload.size()));
    }
    if (incoming == wire::FrameKind::kProcessSet)
      sound = shard.machine_.OnProcessSet(slot, process_set, payload);
    if (incoming == wire::FrameKind::kJoined) shard.machine_.OnJoined(slot, process_set, payload);
    if (sound.ok() && !data) sound = shard.machine_.CheckPostponed(slot);
    shard.ticker_.Arm();
    if (!sound.ok()) shard.OnClosed(*this, sound);
  }

  void OnClosed(const Status& why) override { shard.OnClosed(*this, why); }

  ShardThread& shard;
  Slot slot;
  std::unique_ptr<transport::Connection> connection;
  wire::FrameKind incoming = wire::FrameKind::kPush;
  uint64_t epoch = 0;
  wire::Progress process_set;
  wire::DataHeader abort;
  std::vector<std::byte> payload;
  std::vector<wire::HeldPiece> held;
};

ShardThread::ShardThread(transport::Transport& transport, const protocol::ShardOptions& options,
                         Log& log, OnBroken on_broken, OnFailed on_failed,
                         std::function<void()> on_thread)
    : log_(log),
      on_broken_(std::move(on_broken)),
      on_failed_(std::move(on_failed)),
      on_thread_(std::move(on_thread)),
      loop_(transport.MakeLoop()),
      machine_(options, pool_, arithmetic_, *this),
      bound_(machine_, *options.rules, [this](Slot slot) { links_.erase(slot); }),
      ticker_(
          *loop_, [this] { return machine_.NextTick(); },
          [this](Time now) { machine_.OnTick(now); }),
      payload_bytes_max_(options.piece_bytes_max + kBytesMoreMax) {}

ShardThread::~ShardThread() {
  loop_->Stop();
  if (thread_.joinable()) thread_.join();
}

void ShardThread::Start() {
  thread_ = std::thread([this] {
    on_thread_();
    Status how = RunLoop(*loop_);
    if (!how.ok()) on_failed_(how);
  });
}

void ShardThread::PostView(const wire::View& view, ShardId self) {
  loop_->Post([this, view, self] {
    bound_.OnView(view, self);
    ticker_.Arm();
  });
}

void ShardThread::PostRetire(const std::vector<TensorId>& tensors, uint64_t use) {
  loop_->Post([this, tensors, use] { machine_.Retire(tensors, use); });
}

void ShardThread::PostForgotten(const std::vector<TensorId>& tensors) {
  loop_->Post([this, tensors] { machine_.OnForgotten(tensors); });
}

void ShardThread::PostStillKnown(const wire::StillKnown& known) {
  loop_->Post([this, known] { machine_.OnStillKnown(known); });
}

void ShardThread::Adopt(Slot slot, uint64_t incarnation, uint32_t generation,
                        std::unique_ptr<transport::Connection> connection) {
  // A new view may have come into force while the connection was handed to this thread.
  if (!bound_.Bind(slot, incarnation, generation)) return;
  auto link = std::make_unique<Link>(*this, slot, std::move(connection));
  link->connection->SetLimits({payload_bytes_max_});
  link->connection->Start(link.get());
  links_[slot] = std::move(link);
}

void ShardThread::Send(Slot to, transport::OutFrame frame) {
  auto found = links_.find(to);
  if (found == links_.end()) return;  // gone; the worker will ask again, or the coordinator decides
  found->second->connection->Send(std::move(frame));
}

void ShardThread::SendAnswer(Slot to, const wire::DataHeader& header, ConstByteSpan payload,
                             BufferRef keep) {
  Send(to, DataFrame(wire::FrameKind::kAnswer, header, payload, std::move(keep)));
}

void ShardThread::SendWant(Slot to, const std::vector<wire::PieceRef>& pieces) {
  Send(to, WantFrame(pool_, pieces));
}

void ShardThread::SendStable(Slot to, const wire::Progress& stable) {
  Send(to, ProgressFrame(wire::FrameKind::kStable, stable));
}

void ShardThread::OnClosed(Link& link, const Status& why) {
  auto gone = links_.extract(link.slot);
  uint64_t incarnation = bound_.OnClosed(gone.key());
  if (why.code() == StatusCode::kProtocol) {
    log_.Error("worker {} was cut off: {}", gone.key(), why.message());
  } else if (why.code() == StatusCode::kExhausted) {
    log_.Warning("the connection of worker {} was closed: {}", gone.key(), why.message());
  }
  on_broken_(incarnation, why);
}

}  // namespace byteps::runtime
