// Worker: a front and its lanes, in one place and on one thread, for tests. Their mail to each
// other is delivered before a call returns. The runtime and the simulator carry this mail
// themselves.
//
// No I/O, no clock, no thread: one driver calls it, from one thread. An operation borrows its
// user's memory from Submit to WorkerDriver::Complete.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/protocol/protocol_for_test.h"
#include "src/protocol/worker/worker_options.h"
#include "src/wire/error_row.h"

namespace byteps::protocol {

// The calls of a worker to its driver, except for the mail between its parts. No call comes back
// into the worker. After Complete the same thread may call Submit later.
class WorkerDriver {
 public:
  virtual ~WorkerDriver() = default;
  // See FrontDriver.
  virtual void SendControl(const wire::Message& message) = 0;
  virtual void Complete(OperationId id, Outcome outcome) = 0;
  // See LaneDriver. Every shard is in one lane.
  virtual void SendData(ShardId to, wire::DataFrame frame) = 0;
  virtual void Send(ShardId to, const wire::Frame& frame) = 0;
  virtual void Forget(ConstByteSpan memory) = 0;
};

class Worker {
 public:
  // Buffers of `pool` must not outlive the worker.
  Worker(const WorkerOptions& options, BufferPool& pool, Arithmetic& arithmetic,
         WorkerDriver& driver);
  ~Worker();

  // See Front for these methods. In a view each worker has a slot of its own.
  void OnView(const wire::View& view, Slot slot);
  Status Submit(Operation operation);
  Status AddProcessSet(uint32_t number, const std::vector<uint32_t>& ranks);
  Status RemoveProcessSet(uint32_t number);
  void Declare(const std::string& name) { front_.Declare(name); }
  void SetStuck(const std::string& name) { front_.SetStuck(name); }
  void OnDeclared(const wire::Declared& message);
  void OnDeclareFailed(const wire::DeclareFailed& message);
  void OnForgotten(const wire::Forgotten& message);
  void OnUnbegun(const wire::Unbegun& question) { front_.OnUnbegun(question); }
  std::vector<wire::Known> Known() const { return front_.Known(); }
  void AskAgain() { front_.AskAgain(); }
  void Abort(OperationId id, const std::string& why);
  void Stop(const Status& why);

  // See Lane for these methods.
  void OnShardUp(ShardId shard);
  void OnShardDown(ShardId shard);
  Result<ByteSpan> OnAnswerHeader(ShardId from, const wire::DataHeader& header,
                                  size_t payload_bytes);
  void OnAnswer(ShardId from, Time now);
  void OnFrame(ShardId from, const wire::Frame& frame);
  void Resume(const PieceTicket& ticket, StageVerdict how, const Status& error = {});
  bool HoldsUnstable() const;

  // REQUIRES: now >= NextTick().
  void OnTick(Time now);
  std::optional<Time> NextTick();

  size_t open_operations() const { return front_.open_operations(); }
  uint64_t bytes_in_flight() const;
  uint64_t repeated_answers() const;

 private:
  class FrontEnd;
  class LaneEnd;
  Lane& LaneOf(ShardId shard) { return *lanes_[shard % lanes_.size()]; }
  // Delivers the mail that was sent meanwhile.
  void DeliverAll();
  template <typename Call>
  auto Do(Call call);

  WorkerDriver& driver_;
  std::deque<std::pair<uint32_t, LaneMail>> to_lanes_;
  std::deque<FrontMail> to_front_;
  bool delivering_ = false;
  std::unique_ptr<FrontEnd> front_end_;
  std::vector<std::unique_ptr<LaneEnd>> lane_ends_;
  Front front_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

struct SentPush {
  ShardId to = 0;
  wire::DataHeader header;
  ConstByteSpan payload;
};

// Returns the payload of an answer with this error; empty if there is no error.
inline std::vector<std::byte> ErrorBytes(const SentPush& push, const Status& why) {
  wire::ErrorRow row;
  if (why.ok() || why.message().empty()) return {};
  row.Add(push.header.ref.round, why);
  return row.Encode(push.header.ref.round);
}

// A driver that records what a worker asks for.
class RecordingWorkerDriver final : public WorkerDriver {
 public:
  void SendControl(const wire::Message& message) override { control.push_back(message); }
  void SendData(ShardId to, wire::DataFrame frame) override {
    if (frame.kind == wire::FrameKind::kPush) {
      pushes.push_back({to, frame.header, frame.payload});
    } else {
      const auto* text = reinterpret_cast<const char*>(frame.payload.data());
      verdicts.push_back({to, frame.header, std::string(text, frame.payload.size())});
    }
  }
  void Send(ShardId to, const wire::Frame& frame) override {
    if (const auto* abort = std::get_if<wire::Abort>(&frame)) {
      aborts.emplace_back(to, abort->push.ref);
    }
    if (const auto* ack = std::get_if<wire::Ack>(&frame)) acks.emplace_back(to, ack->count);
  }
  void Forget(ConstByteSpan memory) override { forgotten.push_back(memory); }
  void Complete(OperationId id, Outcome outcome) override {
    ++completions[id];
    outcomes[id] = std::move(outcome);
  }

  std::vector<wire::Message> control;
  std::vector<SentPush> pushes;
  std::vector<SentAnswer> verdicts;
  std::vector<std::pair<ShardId, wire::PieceRef>> aborts;
  std::vector<std::pair<ShardId, uint64_t>> acks;
  std::vector<ConstByteSpan> forgotten;
  std::map<OperationId, int> completions;
  std::map<OperationId, Outcome> outcomes;
};

}  // namespace byteps::protocol
