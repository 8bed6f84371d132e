// Fuzz target: a worker whose shards and coordinator say anything that the wire accepts, in any
// order. The target writes every place that the worker names. Every operation completes exactly
// once.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/worker/worker_for_test.h"

namespace byteps::protocol {
namespace {

constexpr uint32_t kShards = 2;
constexpr size_t kBytes = 256;

class Play {
 public:
  explicit Play(ConstByteSpan bytes) : bytes_(bytes) {
    options_.credit.fixed_bytes = 128;
    options_.gathered_bytes_max = 1 << 20;
    options_.idle = IdleTensors(2, 2);
    worker_.emplace(options_, pool_, arithmetic_, driver_);
    view_.servers.push_back(view_.servers[0]);  // a server for each shard
    for (uint32_t i = 0; i < kShards; ++i) {
      view_.servers[i].index = view_.servers[i].first_shard = i;
      view_.servers[i].shard_weights = {1};
    }
    worker_->OnView(view_, 0);
    for (ShardId shard = 0; shard < kShards; ++shard) worker_->OnShardUp(shard);
  }

  void Run() {
    while (!bytes_.empty()) Step();
    worker_->Stop(Status(StatusCode::kShutdown, "end"));
    if (worker_->open_operations() != 0) std::abort();
    for (OperationId id : accepted_) {
      if (driver_.completions[id] != 1) std::abort();
    }
  }

 private:
  uint8_t Next() {
    if (bytes_.empty()) return 0;
    auto value = static_cast<uint8_t>(bytes_[0]);
    bytes_ = bytes_.subspan(1);
    return value;
  }

  void Step() {
    uint8_t what = Next();
    std::string name(1, static_cast<char>('a' + what / 64));
    TensorId tensor = what / 8 % 8;
    switch (what % 8) {
      case 0: return Submit(name);
      case 1:
        return worker_->OnDeclared(
            {name, Next() % 2U, Next() % 2U, tensor, {Next(), Next(), 2}, Next() % 3U});
      case 2:
        return worker_->OnDeclareFailed({name,
                                         {Next() % 2U, Next() % 2U, 1 + Next() % 3U, Next() % 3U},
                                         {tensor},
                                         StatusCode::kMismatch,
                                         "no",
                                         {AnyUse()}});
      case 3:
        return worker_->OnFrame(Next() % 3U, wire::Want{{{tensor, Next() % 4U, Next() % 4U}}});
      case 4:
        now_ += milliseconds(1);
        if (worker_->NextTick().has_value() && *worker_->NextTick() <= now_) worker_->OnTick(now_);
        return;
      case 5: return AnyAnswer(tensor);
      case 6: return AnswerPush();
      default: return Churn();
    }
  }

  wire::NamedUse AnyUse() {
    uint8_t what = Next();
    return {std::string(1, static_cast<char>('a' + what / 64)),
            {what % 2U, what / 2 % 2U, what / 4 % 4U}};
  }

  // Lets members and connections come and go.
  void Churn() {
    uint8_t what = Next();
    ShardId shard = what / 16 % kShards;
    switch (what % 8) {
      case 0: receiving_.erase(shard); return worker_->OnShardDown(shard);
      case 1: receiving_.erase(shard); return worker_->OnShardUp(shard);
      case 2: return worker_->OnFrame(shard, wire::Stable{Next(), Next() % 4U});
      case 3:
        if (what < 64) return worker_->Abort(Next(), "too late");
        if (what < 192) {
          static_cast<void>(worker_->AddProcessSet(Next() % 3, {Next() % 2U, 1}));
        } else {
          static_cast<void>(worker_->RemoveProcessSet(Next() % 3));
        }
        return;
      case 4: view_.workers.resize(1); break;
      case 5:
        return worker_->SetStuck(what < 128 ? std::string(1, static_cast<char>('a' + what / 32))
                                            : "");
      case 6:
        if (Next() % 2 == 0) return worker_->OnUnbegun({AnyUse(), {AnyUse(), AnyUse()}});
        return worker_->OnForgotten({{Next() % 8U}, {{AnyUse().name, Next() % 2U, Next() % 3U}}});
      default:
        receiving_.erase(shard);
        worker_->OnShardDown(shard);
        view_.servers[shard].alive = !view_.servers[shard].alive;
        view_.servers[shard].since = view_.epoch + 1;
        break;
    }
    ++view_.epoch;
    worker_->OnView(view_, 0);
  }

  void Submit(const std::string& name) {
    uint8_t bits = Next();
    Operation operation;
    operation.id = ++last_id_;
    operation.name = name;
    operation.spec.op = static_cast<wire::Op>(bits % wire::kOpCount);
    operation.spec.dtype = DataType::kUint8;
    operation.spec.shape = {Next()};
    bool own_rows =
        operation.spec.op == wire::Op::kAllgather || operation.spec.op == wire::Op::kAlltoall;
    operation.rows = own_rows ? Next() % 2 : 0;
    if (operation.spec.op == wire::Op::kAlltoall) operation.splits = {operation.rows, 0};
    if (bits / 16 % 4 == 0) operation.spec.process_set = 1 + bits / 64 % 2;
    // The memory is never freed before the end. So late writes only make wrong bytes in a live
    // buffer, which is no finding here. Writes behind the end of a buffer are findings.
    memory_.push_back(std::make_unique<std::byte[]>(kBytes));
    operation.input = operation.output = memory_.back().get();
    if (worker_->Submit(std::move(operation)).ok()) accepted_.push_back(last_id_);
  }

  // Answers a push that was made, mostly as a shard would.
  void AnswerPush() {
    if (driver_.pushes.empty()) return;
    SentPush push = driver_.pushes[Next() % driver_.pushes.size()];
    wire::DataHeader header = push.header;
    header.count = Next();
    header.epoch += Next() % 3U == 2 ? 1 : 0;
    header.offset = header.want_offset;
    if (Next() % 8 == 0) {
      header.status = StatusCode::kPeerLost;
      header.want_bytes = header.piece_bytes = Next();
      header.offset = header.want_offset = 0;
    }
    Begin(push.to, header, header.want_bytes);
  }

  void AnyAnswer(TensorId tensor) {
    wire::DataHeader header;
    header.ref = {tensor, Next() % 4U, Next() % 4U};
    header.generation = 1;
    header.count = Next();
    header.piece_bytes = header.want_bytes = Next();
    Begin(Next() % kShards, header, header.want_bytes);
  }

  void Begin(ShardId from, const wire::DataHeader& header, size_t payload) {
    if (receiving_.contains(from)) End(from);
    Result<ByteSpan> place = worker_->OnAnswerHeader(from, header, payload);
    if (!place.ok()) return;
    if (place->size() != payload) std::abort();
    receiving_[from] = place.value();
    // Other events may overtake errors. By the protocol, no event that would free their memory
    // overtakes the payloads of sums.
    if (header.status == StatusCode::kOk || Next() % 2 == 0) End(from);
  }

  void End(ShardId from) {
    ByteSpan place = receiving_[from];
    for (std::byte& b : place) b = static_cast<std::byte>(Next());
    receiving_.erase(from);
    worker_->OnAnswer(from, now_);
  }

  ConstByteSpan bytes_;
  WorkerOptions options_;
  BufferPool pool_;
  wire::View view_ = ViewFor(2, 1, 64);
  KernelArithmetic arithmetic_;
  RecordingWorkerDriver driver_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::optional<Worker> worker_;
  std::vector<OperationId> accepted_;
  OperationId last_id_ = 0;
  std::map<ShardId, ByteSpan> receiving_;
  Time now_{};
};

}  // namespace
}  // namespace byteps::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  byteps::protocol::Play(std::as_bytes(std::span(data, size))).Run();
  return 0;
}
