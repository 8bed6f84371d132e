// Worker: a front and its lanes, in one place and on one thread. Their mail to each other is
// delivered before a call returns, unless the driver carries it. The lanes of the runtime have
// threads of their own, so the runtime connects front and lanes in another way
// (runtime/worker/worker_engine.h).
//
// No I/O, no clock, no thread: one driver calls it, from one thread. An operation borrows its
// user's memory from Submit to FrontDriver::Complete.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/protocol/worker/front/front.h"
#include "src/protocol/worker/lane/lane.h"

namespace byteps::protocol {

// The calls of a worker to its driver, except for the mail between its parts. No call comes back
// into the worker. After Complete the same thread may call Submit later.
class WorkerDriver {
 public:
  virtual ~WorkerDriver() = default;
  virtual void SendControl(const wire::Message& message) = 0;
  virtual void Complete(OperationId id, Outcome outcome) = 0;
  virtual void OnSettled() {}
  // See LaneDriver. Every shard is in one lane.
  virtual void SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                        BufferRef keep) = 0;
  virtual void SendVerdict(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                           BufferRef keep) = 0;
  virtual void SendHave(ShardId to, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces) = 0;
  virtual void SendResync(ShardId to, uint64_t epoch) = 0;
  virtual void SendAbort(ShardId to, const wire::DataHeader& push, const std::string& why) = 0;
  virtual void SendAck(ShardId to, const wire::Progress& ack) = 0;
  virtual void SendProcessSet(ShardId to, const wire::Progress& number, const SlotSet& ranks) = 0;
  // Empty `ranks`: all ranks of the contributor.
  virtual void SendJoined(ShardId to, const wire::Progress& number, const SlotSet& ranks) = 0;
  // Forgets the memory on the connections of one lane.
  virtual void Forget(uint32_t lane, ConstByteSpan memory) = 0;

  // Returns true if the driver carries the mail. It then calls Worker::DeliverToLane or
  // DeliverToFront with it, in order for each pair of ends. `lane`: the lane that sends or gets the
  // mail.
  virtual bool CarryToLane(uint32_t /*lane*/, LaneMail& /*mail*/) { return false; }
  virtual bool CarryToFront(uint32_t /*lane*/, FrontMail& /*mail*/) { return false; }
};

struct WorkerOptions {
  uint32_t lanes = 1;
  // The credit is 2 MB at most. Pieces that are in flight together finish together, so the last
  // piece of a step waits for a window. docs/performance.md has the cost of larger windows in the
  // simulator.
  plan::CreditOptions credit{.bytes_max = uint64_t{2} << 20};
  Duration acknowledge_after = LaneOptions().acknowledge_after;
  uint64_t gathered_bytes_max = FrontOptions().gathered_bytes_max;
  Duration overdue_after = FrontOptions().overdue_after;
  const Codecs* codecs = &Codecs::None();  // must outlive the worker
  // See LaneOptions. Called once for each lane. The carrier of a machine replaces it.
  MakePiecePaths paths;
  // Returns the watch of a lane, which must outlive the worker. Null: no watch hears of pieces.
  std::function<PieceWatch*(uint32_t lane)> watch;
  size_t copy_slice_bytes = FrontOptions().copy_slice_bytes;
  uint64_t first_round = 1;  // only tests change this value and these rules:
  IdleTensors idle;          // see FrontOptions
  const LaneRules* lane_rules = &kLaneRules;
  const FrontRules* front_rules = &kFrontRules;
};

FrontOptions FrontOptionsOf(const WorkerOptions& options);
LaneOptions LaneOptionsOf(const WorkerOptions& options, uint32_t lane);

class Worker {
 public:
  // Buffers of `pool` must not outlive the worker.
  Worker(const WorkerOptions& options, BufferPool& pool, Arithmetic& arithmetic,
         WorkerDriver& driver);
  ~Worker();

  // See Front for these methods.
  void OnView(const wire::View& view, Slot slot, uint32_t rank);
  // Takes a view in which each worker has a slot of its own.
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
  void Settle();
  void Stop(const Status& why);

  // See Lane for these methods.
  void OnShardUp(ShardId shard);
  void OnShardDown(ShardId shard);
  Result<ByteSpan> OnAnswerHeader(ShardId from, const wire::DataHeader& header,
                                  size_t payload_bytes);
  void OnAnswer(ShardId from, Time now);
  void OnWant(ShardId from, const std::vector<wire::PieceRef>& pieces);
  void OnStable(ShardId from, const wire::Progress& stable);
  void Resume(const PieceTicket& ticket, StageVerdict how, const Status& error = {});
  bool HoldsUnstable() const;

  // Takes mail that the driver has carried.
  void DeliverToLane(uint32_t lane, LaneMail mail);
  void DeliverToFront(FrontMail mail);

  // REQUIRES: now >= NextTick().
  void OnTick(Time now);
  std::optional<Time> NextTick();

  uint32_t LaneOf(ShardId shard) const { return shard % static_cast<uint32_t>(lanes_.size()); }
  size_t open_operations() const { return front_.open_operations(); }
  uint64_t bytes_in_flight() const;
  uint64_t repeated_answers() const;

 private:
  class FrontEnd;
  class LaneEnd;
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

}  // namespace byteps::protocol
