// Worker: takes operations on tensors to their end. Declares names at the coordinator, cuts tensors
// into pieces, pushes the pieces to the shards that own them in order of urgency under a credit,
// receives the verdicts into the user's memory, and completes each operation exactly once.
//
// No I/O, no clock, no thread: one driver calls it, from one thread. Memory of an operation belongs
// to the user and is borrowed from Submit to WorkerDriver::Complete.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/ring.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/plan/credit_controller.h"
#include "src/plan/partition.h"
#include "src/plan/piece_assigner.h"
#include "src/plan/priority_credit_queue.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/data_path.h"
#include "src/protocol/tensor_bytes.h"
#include "src/wire/control.h"
#include "src/wire/data.h"

namespace byteps::protocol {

using OperationId = uint64_t;

struct Operation {
  OperationId id = 0;  // the driver's number
  std::string name;
  wire::TensorSpec spec;
  uint64_t rows = 0;  // allgather: this rank's first dimension
  const std::byte* input = nullptr;
  std::byte* output = nullptr;  // as large as input, may be the same; unused by allgather
  int32_t priority = 0;
};

// How an operation ended.
struct Outcome {
  Status status;
  uint32_t members = 0;  // contributions in the result
  // Allgather: the rows of all ranks, rank after rank.
  std::unique_ptr<std::byte[]> gathered;
  uint64_t gathered_bytes = 0;
  uint64_t rows = 0;
};

// What a worker asks of its driver. No call comes back into the worker, except that Complete may
// be followed by Submit from the same thread later.
class WorkerDriver {
 public:
  virtual ~WorkerDriver() = default;
  virtual void SendControl(const wire::Message& message) = 0;
  // `payload` is borrowed until the piece is answered, or Forget.
  virtual void SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload) = 0;
  virtual void SendAck(ShardId to, uint64_t count) = 0;
  // Nothing that is still queued may borrow from `memory` after this call.
  virtual void Forget(ConstByteSpan memory) = 0;
  virtual void Complete(OperationId id, Outcome outcome) = 0;
};

struct WorkerOptions {
  // 2 MB at most: pieces that are in flight together finish together, so the last of a step waits
  // for a window; docs/performance.md has what larger ones cost in the simulator.
  plan::CreditOptions credit{.bytes_max = uint64_t{2} << 20};
  // An answer is acknowledged on its own when no push has carried the news for this long.
  Duration acknowledge_after = milliseconds(2);
  // A larger result of an allgather is an error on every rank.
  uint64_t gathered_bytes_max = kTensorBytesMax;
};

class Worker {
 public:
  Worker(const WorkerOptions& options, Arithmetic& arithmetic, WorkerDriver& driver);
  ~Worker();

  // The view this worker works in. REQUIRES: called once, before anything else but Submit.
  // A view without servers makes a job of one: operations end at once.
  void OnView(const wire::View& view);

  // Accepts an operation; it will be completed exactly once. Errors that this rank can see alone
  // are returned instead, and then nothing is accepted.
  Status Submit(Operation operation);

  // Fixes the place of `name` among names of equal priority, before its first use.
  void Declare(const std::string& name);

  void OnDeclared(const wire::Declared& message);
  void OnDeclareFailed(const wire::DeclareFailed& message);

  // An answer's header: returns where its payload goes, valid until OnAnswer of the same shard.
  Result<ByteSpan> OnAnswerHeader(ShardId from, const wire::DataHeader& header,
                                  size_t payload_bytes);
  void OnAnswer(ShardId from, Time now);
  void OnWant(ShardId from, const std::vector<wire::PieceRef>& pieces);

  // Ends every operation, now and later, with `why`.
  // REQUIRES: all connections to shards are closed: nothing writes to users' memory any more.
  void Stop(const Status& why);

  // REQUIRES: now >= NextTick().
  void OnTick(Time now);
  std::optional<Time> NextTick();

  size_t open_operations() const { return open_operations_; }
  uint64_t bytes_in_flight() const { return queue_.bytes_in_flight(); }

 private:
  enum class PieceStep : uint8_t { kQueued, kSent, kDone };
  struct Piece {
    ShardId owner = 0;
    PieceStep step = PieceStep::kDone;
    plan::PriorityCreditQueue::Ticket ticket = 0;
  };
  // An operation on its way along its path.
  struct Task {
    Operation operation;
    std::span<const Stage> path;
    size_t at = 0;
    std::vector<uint64_t> rows_by_worker;  // allgather, after its layout
    Outcome outcome;
  };
  struct Tensor {
    std::string name;
    uint32_t order = 0;  // of declaration on this rank
    uint32_t attempt = 0;
    bool declared = false;
    TensorId id = 0;
    wire::TensorSpec spec;
    uint64_t round = 0;        // of the current or last operation
    uint32_t first_piece = 0;  // number of pieces[0]: 1 behind a layout piece
    std::optional<plan::Partition> partition;
    std::optional<TensorId> dealt_id;  // the declaration that `pieces` belong to
    std::vector<Piece> pieces;
    uint32_t pieces_done = 0;
    std::vector<uint64_t> placement;  // the dealer's state at declaration
    std::optional<Task> task;
    // The operation that begins this round fails: another rank broke the declaration.
    std::optional<wire::DeclareFailed> doomed;
    std::vector<wire::PieceRef> wanted_early;
  };
  // Where bytes of one piece lie, on this rank.
  struct Spans {
    uint32_t piece_bytes = 0;
    uint32_t push_offset = 0;  // in the piece
    ConstByteSpan push;
    uint32_t want_offset = 0;
    ByteSpan want;
  };
  struct Link {  // to a shard
    uint64_t answers_in_order = 0;
    std::vector<uint64_t> answers_ahead;  // numbers beyond answers_in_order: heap, lowest on top
    std::optional<Time> owes_since;       // an answer has not been acknowledged since
    // The answer whose payload is being received.
    wire::DataHeader incoming;
    bool ignored = false;
    std::vector<std::byte> scratch;
    size_t payload_bytes = 0;
  };

  void Advance(Tensor& tensor);
  StageVerdict Enter(Stage stage, Tensor& tensor);
  StageVerdict EnterDeclare(Tensor& tensor);
  StageVerdict EnterLayout(Tensor& tensor);
  StageVerdict EnterPartition(Tensor& tensor);
  StageVerdict EnterKeep(Tensor& tensor);
  Status MakeRoomForGather(Task& task);
  Status GiveUp(Status why);
  StageVerdict EnterExchange(Tensor& tensor);
  void Deliver(Tensor& tensor);
  void Fail(Tensor& tensor, const Status& why);

  void Resume(Tensor& tensor);
  void Undeclare(Tensor& tensor);

  Status CheckOperation(const Operation& operation) const;
  Status DealPieces(Tensor& tensor, uint32_t first_piece, uint64_t bytes, uint32_t piece_bytes);
  void QueuePieces(Tensor& tensor);
  void ApplyEarlyWants(Tensor& tensor);
  bool MarkWanted(Tensor& tensor, const wire::PieceRef& ref);
  void PushWhatFits();
  void Push(Tensor& tensor, uint32_t index);
  Spans SpansOf(Tensor& tensor, uint32_t index) const;
  Spans SpansOfLayout(Tensor& tensor) const;
  Spans SpansOfGather(Tensor& tensor, plan::PieceSpan span) const;
  static bool IsLayout(const Tensor& tensor);
  static uint32_t CreditOf(const Spans& spans);
  bool IsExpected(const Tensor& tensor, ShardId from, const wire::PieceRef& ref) const;
  Result<ByteSpan> PlaceOf(Tensor& tensor, ShardId from, const wire::DataHeader& header,
                           size_t payload_bytes);
  ByteSpan Ignore(Link& link, size_t payload_bytes);
  void CountAnswer(ShardId from, uint64_t number, Time now);
  void PieceDone(Tensor& tensor, uint32_t index);
  Tensor& TensorNamed(const std::string& name);

  const WorkerOptions options_;
  Arithmetic& arithmetic_;
  WorkerDriver& driver_;

  bool ready_ = false;  // a view is known
  bool alone_ = false;
  std::optional<Status> stopped_;
  uint64_t epoch_ = 0;
  uint32_t generation_ = 0;
  uint32_t rank_ = 0;
  Slot slot_ = kNoSlot;
  uint32_t members_ = 1;
  uint32_t worker_index_ = 0;  // position among the view's workers, which is slot order
  uint32_t piece_bytes_max_ = 0;
  std::vector<uint32_t> shard_weights_;
  std::vector<Link> links_;               // by shard
  Ring<std::pair<ShardId, Time>> owing_;  // links by owes_since; some entries are out of date

  std::unordered_map<std::string, std::unique_ptr<Tensor>> tensors_;
  std::unordered_map<TensorId, Tensor*> by_id_;
  std::vector<wire::PieceRef> wanted_unknown_;  // of tensors not declared here yet
  std::vector<Tensor*> by_order_;
  size_t open_operations_ = 0;
  plan::PriorityCreditQueue queue_;
  std::optional<plan::CreditController> credit_;  // once the view is known
};

}  // namespace byteps::protocol
