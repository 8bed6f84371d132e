#include "src/runtime/server/shard_thread.h"

#include <algorithm>
#include <utility>

#include "src/runtime/loop_thread.h"

namespace byteps::runtime {
namespace {

// A verdict carries the bitmap of the members whose contributions are in it, and a codec may add a
// few bytes.
constexpr size_t kBytesMoreMax = wire::kMembersMax / 8 + wire::kCodecExtraBytesMax;
// The interval at which a shard looks how its connections travel, for people.
constexpr Duration kLookAtWaysEvery = milliseconds(500);

}  // namespace

// A worker's connection.
struct ShardThread::Link final : transport::FrameReceiver {
  Link(ShardThread& owner, Slot worker, std::unique_ptr<transport::Connection> bound)
      : thread(owner), slot(worker), connection(std::move(bound)) {}

  bool ReceivesData() const {
    return incoming == wire::FrameKind::kPush || incoming == wire::FrameKind::kVerdict;
  }

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan bytes, size_t payload_bytes) override {
    incoming = static_cast<wire::FrameKind>(kind);
    if (!ReceivesData()) return others.Begin(incoming, bytes, payload_bytes);
    Result<wire::DataHeader> header = wire::DecodeDataHeader(incoming, bytes, payload_bytes);
    if (!header.ok()) return header.status();
    Add(payload_bytes, thread.received_bytes_);
    return thread.shard_.OnDataHeader(slot, incoming, header.value(), payload_bytes,
                                      thread.loop_->EventTime());
  }

  void OnFrame() override {
    Status sound = TakeFrame();
    thread.ticker_.Arm();
    if (!sound.ok()) thread.OnClosed(*this, sound);
  }

  Status TakeFrame() {
    if (ReceivesData()) {
      thread.shard_.OnPayload(slot);
      return Status::Ok();
    }
    Result<wire::Frame> frame = others.End();
    if (!frame.ok()) return frame.status();
    return thread.shard_.OnFrame(slot, std::move(frame).value(), thread.loop_->EventTime());
  }

  void OnClosed(const Status& why) override { thread.OnClosed(*this, why); }

  ShardThread& thread;
  Slot slot;
  std::unique_ptr<transport::Connection> connection;
  wire::FrameKind incoming = wire::FrameKind::kPush;
  FrameIntake others{wire::Reader::kShard};
};

ShardThread::ShardThread(transport::Transport& transport, const protocol::ShardOptions& options,
                         Log& log, OnBroken on_broken, OnFailed on_failed,
                         std::function<void()> on_thread)
    : log_(log),
      on_broken_(std::move(on_broken)),
      on_failed_(std::move(on_failed)),
      on_thread_(std::move(on_thread)),
      loop_(transport.MakeLoop()),
      shard_(options, loop_->Buffers(), arithmetic_, *this),
      bound_(shard_, *options.rules, [this](Slot slot) { links_.erase(slot); }),
      ticker_(
          *loop_, [this] { return shard_.NextTick(); }, [this](Time now) { shard_.OnTick(now); }),
      payload_bytes_max_(options.piece_bytes_max + kBytesMoreMax) {}

ShardThread::~ShardThread() {
  loop_->Stop();
  if (thread_.joinable()) thread_.join();
}

void ShardThread::Start() {
  looking_ = loop_->Every(kLookAtWaysEvery, [this] { LookAtWays(); });
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
  loop_->Post([this, tensors, use] { shard_.Retire(tensors, use); });
}

void ShardThread::PostForgotten(const std::vector<TensorId>& tensors) {
  loop_->Post([this, tensors] { shard_.OnForgotten(tensors); });
}

void ShardThread::PostStillKnown(const wire::StillKnown& known) {
  loop_->Post([this, known] { shard_.OnStillKnown(known); });
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

void ShardThread::LookAtWays() {
  MutexLock lock(mutex_);
  ways_.resize(links_.size());
  auto way = ways_.begin();
  for (const auto& [slot, link] : links_) {
    way->first = slot;
    way->second = link->connection->Medium();
    ++way;
  }
}

void ShardThread::AddWays(Ways& ways) const {
  MutexLock lock(mutex_);
  for (const auto& [slot, over] : ways_) ways[over].push_back(slot);
}

void ShardThread::SendOut(Slot to, transport::OutFrame frame) {
  auto found = links_.find(to);
  if (found == links_.end()) return;  // gone; the worker will ask again, or the coordinator decides
  found->second->connection->Send(std::move(frame));
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
