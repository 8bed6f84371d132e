// Worker: takes operations on tensors to their end. Declares names at the coordinator, cuts tensors
// into pieces, pushes the pieces to the shards that own them in order of urgency under a credit,
// receives the verdicts into the user's memory, and completes each operation exactly once. It keeps
// the verdicts that others may still lack, and tells them to whoever owns the piece next
// (docs/membership.md).
//
// No I/O, no clock, no thread: one driver calls it, from one thread. Memory of an operation belongs
// to the user and is borrowed from Submit to WorkerDriver::Complete.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/ring.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/operations/sizes.h"
#include "src/plan/credit_controller.h"
#include "src/plan/ownership.h"
#include "src/plan/partition.h"
#include "src/plan/piece_assigner.h"
#include "src/plan/priority_credit_queue.h"
#include "src/plan/sections.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/data_path.h"
#include "src/protocol/slot_set.h"
#include "src/wire/control.h"
#include "src/wire/data.h"

namespace byteps::protocol {

using OperationId = uint64_t;

struct Operation {
  OperationId id = 0;  // the driver's number, of no other open operation
  std::string name;
  wire::TensorSpec spec;
  uint64_t rows = 0;  // allgather, alltoall: this rank's first dimension
  const std::byte* input = nullptr;
  // As large as input, the same or apart from it; unused by allgather and alltoall. Reducescatter:
  // this rank's rows, which may lie in their place in the input.
  std::byte* output = nullptr;
  int32_t priority = 0;
  // Alltoall: rows for each rank of the group, `rows` in all. None: equal parts.
  std::vector<uint64_t> splits;
};

// How an operation ended.
struct Outcome {
  Status status;
  uint32_t members = 0;  // contributions in every part of the result
  Receipt receipt;       // whose they are; none in a job of one
  bool mixed = false;    // some parts have more: a member was lost meanwhile
  // Allgather: the rows of all ranks, rank after rank. Alltoall: those for this one.
  std::unique_ptr<std::byte[]> gathered;
  uint64_t gathered_bytes = 0;
  uint64_t rows = 0;                     // join: the rank that joined last
  std::vector<int64_t> received_splits;  // of both: the rows from each rank of the group
};

// What a worker asks of its driver. No call comes back into the worker, except that Complete may
// be followed by Submit from the same thread later.
class WorkerDriver {
 public:
  virtual ~WorkerDriver() = default;
  virtual void SendControl(const wire::Message& message) = 0;
  // `payload` is borrowed until the piece is answered, or Forget.
  virtual void SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload) = 0;
  // `payload` lies in `keep`.
  virtual void SendVerdict(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                           BufferRef keep) = 0;
  virtual void SendHave(ShardId to, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces) = 0;
  virtual void SendResync(ShardId to, uint64_t epoch) = 0;
  // `push` is the header of the push that it stands for.
  virtual void SendAbort(ShardId to, const wire::DataHeader& push, const std::string& why) = 0;
  virtual void SendAck(ShardId to, const wire::Progress& ack) = 0;
  // `number.count` is the group's number. No ranks: it is removed; must not overtake its pushes.
  virtual void SendGroup(ShardId to, const wire::Progress& number, const RankSet& ranks) = 0;
  virtual void SendJoined(ShardId to, const wire::Progress& number) = 0;
  // Nothing that is still queued may borrow from `memory` after this call, and nothing that is
  // coming in may be put there.
  virtual void Forget(ConstByteSpan memory) = 0;
  virtual void Complete(OperationId id, Outcome outcome) = 0;
};

// Deliberate mistakes, for tests that prove that the tests notice. The numbers are those of
// docs/membership.md.
enum class WorkerMistake : uint8_t {
  kNone,
  kHandOverWithoutKeeping,       // 1
  kNoVerdictOfThePreviousRound,  // 2
  kNoVerdictOfThePresentRound,   // 3
  kAcceptFromAFormerOwner,       // 4
  kIgnoreSince,                  // 5
  kNoVerdictAfterReconnect,      // 9
  kLeaveWithAnUnstableVerdict,   // 14
  kNoHaveAfterReconnect,         // 17
  kRepeatsWaitForCredit,         // not in the list: recovery must pass the credit
};

struct WorkerOptions {
  // 2 MB at most: pieces that are in flight together finish together, so the last of a step waits
  // for a window; docs/performance.md has what larger ones cost in the simulator.
  plan::CreditOptions credit{.bytes_max = uint64_t{2} << 20};
  // An answer is acknowledged on its own when no push has carried the news for this long.
  Duration acknowledge_after = milliseconds(2);
  // A larger result of an allgather is an error on every rank.
  uint64_t gathered_bytes_max = operations::kTensorBytesMax;
  // Between two looks for operations that have not ended: the coordinator is told of those that
  // were there at the look before.
  Duration overdue_after = milliseconds(500);
  uint64_t first_round = 1;  // tests only, as is:
  WorkerMistake mistake = WorkerMistake::kNone;
};

class Worker {
 public:
  // Buffers of `pool` must not outlive it.
  Worker(const WorkerOptions& options, BufferPool& pool, Arithmetic& arithmetic,
         WorkerDriver& driver);
  ~Worker();

  // A view is in force, in which this worker has `slot`. A first view without servers makes a job
  // of one: operations end at once. A view that begins a generation after another one starts all
  // over. REQUIRES: OnShardDown was called for shards that are dead or another process now (all of
  // them at a new generation), no operation is open at a new generation.
  void OnView(const wire::View& view, Slot slot);

  // A connection to the shard stands: says what must be repeated. Pushes to a shard without a
  // connection wait for this.
  void OnShardUp(ShardId shard);
  // It is gone; nothing writes to users' memory from it any more.
  void OnShardDown(ShardId shard);

  // Accepts an operation; it will be completed exactly once. Its name is taken until then. Errors
  // that this rank can see alone are returned instead, and nothing is accepted; nor if this throws.
  Status Submit(Operation operation);

  // From now on operations may name this group, which has `ranks`; every one of them must add it
  // under the same number. kInvalidArgument: a number that was used before (0 is everybody), no
  // ranks, one of them twice, or one that the job has not. kExhausted: this rank is in as many as
  // there can be.
  Status AddGroup(uint32_t number, const std::vector<uint32_t>& ranks);
  // Shards may forget it. kInvalidArgument: there is none, or an operation of it is open.
  Status RemoveGroup(uint32_t number);

  // Fixes the place of `name` among names of equal priority, before its first use.
  void Declare(const std::string& name);

  // The user's process can begin nothing before the open operation of this name has ended; empty:
  // it can. Ranks that wait for each other so can be told (control/stuck_ranks.h). Taken back by
  // the next Submit, too.
  void SetStuck(const std::string& name);

  void OnDeclared(const wire::Declared& message);
  void OnDeclareFailed(const wire::DeclareFailed& message);
  void OnUnbegun(const wire::Unbegun& question);

  // What a restarted coordinator must know, in messages of bounded size; then asks again what it
  // had not answered.
  std::vector<wire::Known> Known() const;
  void AskAgain();

  // An answer's header: returns where its payload goes, valid until OnAnswer of the same shard.
  Result<ByteSpan> OnAnswerHeader(ShardId from, const wire::DataHeader& header,
                                  size_t payload_bytes);
  void OnAnswer(ShardId from, Time now);
  void OnWant(ShardId from, const std::vector<wire::PieceRef>& pieces);
  // All answers of `from` up to this number are with every member.
  void OnStable(ShardId from, const wire::Progress& stable);

  // Asks the owners to end the operation in an error, on every rank or on none; what they decide
  // ends it. The error says `why`, for which tensor, and who is not there. No effect once it has
  // ended.
  void Abort(OperationId id, const std::string& why);

  // Others may depend on what this worker holds: it must not leave yet.
  bool HoldsUnstable() const;

  // Ends every operation, now and later, with `why`.
  // REQUIRES: all connections to shards are closed: nothing writes to users' memory any more.
  void Stop(const Status& why);

  // REQUIRES: now >= NextTick().
  void OnTick(Time now);
  std::optional<Time> NextTick();

  size_t open_operations() const { return open_.size(); }
  uint64_t bytes_in_flight() const { return queue_.bytes_in_flight(); }
  // Answers that came although the piece had its verdict; none while no connection breaks.
  uint64_t repeated_answers() const { return repeated_answers_; }

 private:
  enum class PieceStep : uint8_t { kQueued, kSent, kDone };
  static constexpr ShardId kNoShard = UINT32_MAX;
  struct Piece {
    ShardId home = 0;
    ShardId owner = kNoShard;
    uint64_t since = 0;  // the epoch in which it came to its owner
    PieceStep step = PieceStep::kDone;
    plan::PriorityCreditQueue::Ticket ticket = 0;
    uint64_t round = 0;  // that it is pushed for
    // The last verdict in hand.
    uint64_t held = 0;    // its round; 0: none
    uint64_t number = 0;  // that the owner gave it on this connection; 0: none yet
    bool stable = true;
    bool recited = false;  // the owner has been told of it and has not answered
    StatusCode status = StatusCode::kOk;
    Receipt members;
    BufferRef copy;  // of it, while it is not stable and the user's memory is the user's
    uint32_t copy_bytes = 0;
    uint32_t verdict_bytes = 0;
    bool hollow = false;  // this rank wanted nothing of it and has only the receipt
  };
  // Who takes part in an operation.
  struct Group {
    std::vector<uint32_t> ranks;
    std::vector<uint32_t> places;  // in the roster, in the order of ranks
    uint32_t self = kNoPlace;      // of `places`
    SlotSet slots;
    std::map<uint64_t, Receipt> workers_of;  // as of the worker, for these slots only
    bool removed = false;
  };
  static constexpr uint32_t kNoPlace = UINT32_MAX;
  // An operation on its way along its path.
  struct Task {
    Operation operation;
    std::span<const Stage> path;
    size_t at = 0;
    // By place in the group. Allgather, after its layout: rows. Alltoall: a row of numbers for each
    // sender, rows for each receiver. Join: this rank, then the last one.
    std::vector<uint64_t> table;
    uint32_t attempt = 0;       // at one receipt for an atomic tensor
    uint32_t lacking = 0;       // pieces of which this rank wants bytes and has none
    uint32_t failed_piece = 0;  // once it has an error: the first piece with one
    std::unique_ptr<std::byte[]> kept_input;
    Outcome outcome;
    bool seen = false;      // at a look for operations that do not end
    bool reported = false;  // as one of these
  };
  struct Course;
  // A name with one spec.
  struct Tensor {
    Tensor(Course& owner, const wire::TensorSpec& what);
    Course& course;
    const std::string& name;
    const wire::TensorSpec& spec;
    bool declared = false;
    TensorId id = 0;
    uint64_t round = 0;  // of the current or last operation
    // The pieces of the present partition are those from first_piece on; an allgather has its
    // layout at 0.
    uint32_t first_piece = 0;
    std::optional<plan::Partition> partition;  // or, for several receivers,
    std::optional<plan::Sections> sections;
    std::optional<TensorId> dealt_id;           // the declaration that `pieces` belong to
    std::vector<Piece> pieces;                  // by number; those of earlier partitions stay
    std::optional<plan::PieceAssigner> dealer;  // allgather: deals as many as come
    uint32_t pieces_done = 0;
    std::vector<uint64_t> placement;  // the dealer's state at declaration
    std::optional<Task> task;
    std::vector<wire::PieceRef> wanted_early;
  };
  struct Name;
  // A name in one group.
  struct Course {
    Course(Name& owner, uint32_t number) : name(owner), group(number) {}
    Name& name;
    uint32_t group;
    uint32_t attempt = 0;
    uint64_t round = 0;  // of the last operation of whatever tensor
    std::map<wire::TensorSpec, std::unique_ptr<Tensor>> tensors;
    // The operation that begins this round fails: the ranks disagree.
    std::optional<wire::DeclareFailed> doomed;
  };
  struct Name {
    std::string text;
    uint32_t order = 0;  // of declaration on this rank
    std::map<uint32_t, Course> courses;
    Tensor* open = nullptr;  // the one that has a task
  };
  // Where bytes of one piece lie, on this rank.
  struct Spans {
    uint32_t piece_bytes = 0;
    uint32_t push_offset = 0;  // in the piece
    ConstByteSpan push;
    uint32_t want_offset = 0;
    ByteSpan want;
  };
  // An answer whose verdict is not known to be stable.
  struct Kept {
    uint64_t number = 0;
    TensorId tensor = 0;
    uint32_t piece = 0;
    uint64_t round = 0;
  };
  // An answer of a newer view than ours.
  struct Held {
    wire::DataHeader header;
    BufferRef payload;
    size_t payload_bytes = 0;
    bool complete = false;
  };
  enum class Fate : uint8_t { kIgnored, kPlaced, kStaged, kRegistered, kHeld };
  struct Link {  // to a shard
    bool up = false;
    uint64_t answers_in_order = 0;
    std::vector<uint64_t> answers_ahead;  // numbers beyond answers_in_order: heap, lowest on top
    std::optional<Time> owes_since;       // an answer has not been acknowledged since
    uint64_t stable = 0;                  // answers up to this number are
    Ring<Kept> kept;
    std::deque<Held> held;
    std::optional<wire::Progress> stable_later;  // of a newer view than ours
    // The answer whose payload is being received.
    wire::DataHeader incoming;
    Fate fate = Fate::kIgnored;
    BufferRef staged;
    std::vector<std::byte> scratch;
    size_t payload_bytes = 0;
  };

  void Advance(Tensor& tensor);
  StageVerdict Enter(Stage stage, Tensor& tensor);
  StageVerdict EnterLayout(Tensor& tensor);
  StageVerdict EnterPartition(Tensor& tensor);
  StageVerdict EnterKeep(Tensor& tensor);
  Status GiveUp(Status why);
  StageVerdict EnterExchange(Tensor& tensor);
  void Deliver(Tensor& tensor);
  void Fail(Tensor& tensor, const Status& why);
  OperationId Withdraw(Tensor& tensor);

  void Resume(Tensor& tensor);

  // worker_names.cc: what names stand for.
  Name& NameOf(const std::string& text);
  Course& CourseOf(Name& name, uint32_t group);
  Tensor& TensorOf(Course& course, const wire::TensorSpec& spec);
  std::vector<Tensor*> Tensors() const;
  StageVerdict EnterDeclare(Tensor& tensor);
  uint64_t NextRound(const Course& course) const;
  static bool IsDeclaring(const Tensor& tensor);
  void SendDeclare(const Tensor& tensor);
  void Undeclare(Course& course);
  void FailDoomed(Tensor& tensor);
  void LookForOverdue(Time now);
  void ReportOverdue(const std::vector<const Tensor*>& late);
  void TakeBackOverdue(const Tensor& tensor);
  void ReportAgain(const std::string& name);
  bool IsStuckIn(const Tensor& tensor) const;
  bool HasBegun(const wire::NamedUse& use) const;

  Status DealPieces(Tensor& tensor, uint32_t first_piece, uint64_t bytes, uint32_t piece_bytes);
  Status DealSections(Tensor& tensor, uint32_t first_piece, const std::vector<uint64_t>& bytes);
  Status DealHomes(Tensor& tensor, uint32_t first_piece, uint32_t count);
  void FindOwner(Tensor& tensor, uint32_t number);
  void QueuePieces(Tensor& tensor);
  void QueuePiece(Tensor& tensor, uint32_t number);
  void ApplyEarlyWants(Tensor& tensor);
  bool MarkWanted(Tensor& tensor, const wire::PieceRef& ref);
  void PushWhatFits();
  void Push(Tensor& tensor, uint32_t number);
  void SendPiece(Tensor& tensor, uint32_t number);
  wire::DataHeader HeaderOfPush(const Tensor& tensor, uint32_t number, const Spans& spans) const;
  static uint32_t EndPiece(const Tensor& tensor);
  bool IsActive(const Tensor& tensor, uint32_t number) const;
  static bool IsLayout(const Tensor& tensor);
  static Combine CombineOf(const wire::TensorSpec& spec);
  static uint32_t CreditOf(const Spans& spans);
  void AcknowledgeNow();

  // worker_check.cc: what this rank can see alone.
  Status CheckOperation(Operation& operation) const;
  Status CheckJoin(const Operation& operation) const;
  Status CheckGroup(const Operation& operation) const;
  Status CheckSplits(Operation& operation) const;
  Status CheckMemory(const Operation& operation) const;

  // worker_spans.cc: which bytes of which piece a rank brings and wants.
  Spans SpansOf(Tensor& tensor, uint32_t number) const;
  Spans SpansOfLayout(Tensor& tensor) const;
  Spans SpansOfGather(Tensor& tensor, plan::PieceSpan span) const;
  Spans SpansOfScatter(Tensor& tensor, const plan::SectionPiece& piece) const;
  Spans SpansOfAlltoall(Tensor& tensor, const plan::SectionPiece& piece) const;
  ConstByteSpan VerdictIn(Tensor& tensor, uint32_t number) const;
  bool IsHollow(const Tensor& tensor, const Spans& spans) const;
  Status MakeRoomForGather(Task& task);
  Status MakeRoomForAlltoall(Task& task);
  Status TakeRoom(Task& task, uint64_t bytes);
  std::vector<uint64_t> SectionsOf(const Task& task) const;
  uint64_t OwnRows(const wire::TensorSpec& spec) const;

  // worker_groups.cc: process sets, and join.
  const Group& GroupOf(const wire::TensorSpec& spec) const;
  void ResolveGroup(Group& group) const;
  void TellGroup(uint32_t number, const RankSet& ranks);
  void TellGroups(ShardId shard);
  void TellJoined(ShardId shard);
  void BeginJoin(Tensor& tensor);
  void EndJoin(Task& task, bool with_success);
  const Receipt& WorkersOf(const Tensor& tensor, uint64_t epoch);
  bool MustStage(const wire::DataHeader& header, const Spans& spans) const;
  bool LacksRoot(const Tensor& tensor, const Receipt& members) const;
  bool Counts(const Piece& piece, ShardId from, uint64_t epoch) const;
  bool IsExpected(const Tensor& tensor, const wire::PieceRef& ref) const;
  Result<ByteSpan> PlaceOf(ShardId from, const wire::DataHeader& header, size_t payload_bytes);
  Result<ByteSpan> PlaceOfVerdict(Tensor& tensor, ShardId from, const wire::DataHeader& header,
                                  size_t payload_bytes);
  ByteSpan Ignore(Link& link, size_t payload_bytes);
  ByteSpan StageAnswer(Link& link, size_t payload_bytes);
  void FinishAnswer(ShardId from, Time now);
  void TakeVerdict(Tensor& tensor, ShardId from, Time now);
  void TakeBytes(Tensor& tensor, Link& link);
  void AddReceipt(Task& task, const Receipt& receipt);
  void TakeReceipt(const Link& link, const Tensor& tensor, Piece& piece);
  bool StaysUnstable(const Link& link) const;
  void Register(Link& link, Tensor& tensor, uint32_t number);
  void CountAnswer(ShardId from, uint64_t number, Time now);
  void PieceDone(Tensor& tensor, uint32_t number);
  bool TryAgainForOneReceipt(Tensor& tensor);
  bool BringsRows(const Tensor& tensor, uint32_t place) const;
  Status CheckReceipt(const Tensor& tensor) const;

  // worker_recovery.cc: views, links, and what is kept and told for the others.
  void BeginGeneration(const wire::View& view);
  void ReviewPieces(uint64_t old_epoch);
  bool ReviewPiece(Tensor& tensor, uint32_t number, uint64_t old_epoch);
  void Divert(Tensor& tensor, uint32_t number);
  void Recite(ShardId shard, uint64_t since_after);
  void RecitePiece(Tensor& tensor, uint32_t number, std::vector<wire::HeldPiece>& haves,
                   bool reconnect);
  void SendKept(Tensor& tensor, uint32_t number);
  void KeepCopy(Tensor& tensor, uint32_t number);
  void KeepUnstable(Tensor& tensor);
  void ReleaseStable(ShardId from);
  ByteSpan Hold(Link& link, const wire::DataHeader& header, size_t payload_bytes);
  void Replay(ShardId from, Time now);

  const WorkerOptions options_;
  BufferPool& pool_;
  Arithmetic& arithmetic_;
  WorkerDriver& driver_;

  bool ready_ = false;  // a view is known
  bool alone_ = false;
  std::optional<Status> stopped_;
  uint64_t epoch_ = 0;
  uint32_t generation_ = 0;
  uint32_t rank_ = 0;
  Slot slot_ = kNoSlot;
  // The workers with which the generation began: places in it never change.
  std::vector<wire::WorkerInfo> roster_;
  uint32_t members_ = 1;  // of the roster
  Group everybody_;
  std::map<uint32_t, Group> groups_;  // by number, removed ones too
  size_t groups_in_ = 0;              // with this rank and not removed: shards know these
  // Join: how often all workers have joined; whether this one has, or wants to; the number of its
  // join once it has been told, 0 before.
  uint32_t joins_ = 0;
  bool joining_ = false;
  uint64_t told_joined_ = 0;
  plan::Ownership ownership_;
  std::map<uint64_t, Receipt> workers_of_;  // by epoch, in this generation
  uint32_t piece_bytes_max_ = 0;
  std::vector<uint32_t> shard_weights_;
  std::vector<Link> links_;               // by shard
  Ring<std::pair<ShardId, Time>> owing_;  // links by owes_since; some entries are out of date

  std::unordered_map<std::string, std::unique_ptr<Name>> names_;
  std::vector<Name*> by_order_;
  std::unordered_map<TensorId, Tensor*> by_id_;                     // those that are declared
  std::map<TensorId, std::vector<wire::PieceRef>> wanted_unknown_;  // not declared here yet
  size_t wanted_unknown_count_ = 0;                                 // of pieces
  std::vector<wire::DeclareFailed> failures_;                       // all that were told
  std::string stuck_;                                               // SetStuck
  std::unordered_map<OperationId, Tensor*> open_;
  bool looks_ = false;  // some open operation may become overdue
  std::optional<Time> next_look_;
  uint64_t repeated_answers_ = 0;
  plan::PriorityCreditQueue queue_;
  std::optional<plan::CreditController> credit_;  // once the view is known
  Time now_{};                                    // of the last answer
};

}  // namespace byteps::protocol
