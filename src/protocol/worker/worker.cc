// The worker's events from users and from the coordinator, and the walk along the data path.
// worker_exchange.cc has what happens between a worker and the shards, worker_recovery.cc what
// happens when members come and go.
#include "src/protocol/worker/worker.h"

#include <algorithm>
#include <cassert>
#include <new>

#include "src/operations/row.h"
#include "src/operations/sizes.h"

namespace byteps::protocol {
namespace {

// Pieces that shards wait for and that this rank has not begun yet are kept up to this number;
// shards ask again for the others.
constexpr size_t kEarlyWantsMax = 65536;

// REQUIRES: CheckOperation has let it through.
uint64_t BytesOf(const wire::TensorSpec& spec) { return operations::TensorBytes(spec).value_or(0); }

}  // namespace

Worker::Worker(const WorkerOptions& options, BufferPool& pool, Arithmetic& arithmetic,
               WorkerDriver& driver)
    : options_(options), pool_(pool), arithmetic_(arithmetic), driver_(driver) {}

Worker::~Worker() = default;

Status Worker::Submit(Operation operation) {
  assert(ready_);
  if (stopped_.has_value()) return *stopped_;
  if (!stuck_.empty()) SetStuck("");
  Status checked = CheckOperation(operation);
  if (!checked.ok()) return checked;
  Name& name = NameOf(operation.name);
  if (name.open != nullptr) {
    return {StatusCode::kDuplicateName, "tensor '" + operation.name +
                                            "' is already in flight, with " +
                                            operations::Describe(name.open->task->operation.spec) +
                                            "; wait for it, or give the second one another name"};
  }
  Tensor& tensor = TensorOf(CourseOf(name, operation.spec.group), operation.spec);
  Task task;
  task.path = PathOf(operation.spec.op, alone_);
  task.outcome.members = alone_ ? 1 : 0;
  bool scatter = operation.spec.op == wire::Op::kReducescatter;
  task.outcome.rows = scatter ? OwnRows(operation.spec) : operation.rows;
  task.operation = std::move(operation);
  open_[task.operation.id] = &tensor;  // the last of all that needs memory
  name.open = &tensor;
  joining_ = joining_ || tensor.spec.op == wire::Op::kJoin;
  looks_ = true;
  tensor.task = std::move(task);
  try {
    Advance(tensor);
  } catch (...) {  // no memory
    if (name.open != nullptr) Withdraw(*name.open);
    throw;
  }
  return Status::Ok();
}

void Worker::Advance(Tensor& tensor) {
  while (tensor.task.has_value()) {
    Task& task = *tensor.task;
    if (task.path[task.at] == Stage::kDeliver) return Deliver(tensor);
    if (Enter(task.path[task.at], tensor) != StageVerdict::kDone) return;
    ++task.at;
  }
}

// A pending stage is done.
void Worker::Resume(Tensor& tensor) {
  ++tensor.task->at;
  Advance(tensor);
}

StageVerdict Worker::Enter(Stage stage, Tensor& tensor) {
  switch (stage) {
    case Stage::kDeclare: return EnterDeclare(tensor);
    case Stage::kLayout: return EnterLayout(tensor);
    case Stage::kPartition: return EnterPartition(tensor);
    case Stage::kExchange: return EnterExchange(tensor);
    case Stage::kKeep: return EnterKeep(tensor);
    case Stage::kDeliver: break;
  }
  return StageVerdict::kDone;
}

StageVerdict Worker::EnterKeep(Tensor& tensor) {
  Task& task = *tensor.task;
  const Operation& operation = task.operation;
  uint64_t bytes = BytesOf(operation.spec);
  if (operation.spec.op == wire::Op::kJoin) return StageVerdict::kDone;
  if (operation.spec.op != wire::Op::kAllgather && operation.spec.op != wire::Op::kAlltoall) {
    if (operation.input != operation.output) {
      arithmetic_.Copy(operation.output, operation.input, bytes);
    }
    return StageVerdict::kDone;
  }
  bytes *= operation.rows;
  Status placed = TakeRoom(task, bytes);
  if (!placed.ok()) {
    Fail(tensor, placed);
    return StageVerdict::kFailed;
  }
  arithmetic_.Copy(task.outcome.gathered.get(), operation.input, bytes);
  // Nobody else is here: what this rank keeps is all that it receives.
  task.outcome.received_splits = {static_cast<int64_t>(operation.rows)};
  return StageVerdict::kDone;
}

StageVerdict Worker::EnterLayout(Tensor& tensor) {
  Task& task = *tensor.task;
  const Group& group = GroupOf(tensor.spec);
  bool alltoall = tensor.spec.op == wire::Op::kAlltoall;
  std::vector<uint64_t> own = {task.operation.rows};
  if (alltoall) own = task.operation.splits;
  task.table.assign(group.places.size() * own.size(), 0);
  std::copy(own.begin(), own.end(),
            task.table.begin() + static_cast<ptrdiff_t>(group.self * own.size()));
  uint64_t bytes = task.table.size() * sizeof(uint64_t);
  // One piece, whatever units a partition is cut at.
  uint32_t piece_bytes = static_cast<uint32_t>(bytes) + plan::kPieceUnitBytes;
  Status dealt = DealPieces(tensor, 0, bytes, piece_bytes);
  if (dealt.ok()) return EnterExchange(tensor);
  Fail(tensor, dealt);
  return StageVerdict::kFailed;
}

StageVerdict Worker::EnterPartition(Tensor& tensor) {
  Task& task = *tensor.task;
  uint64_t bytes = BytesOf(tensor.spec);
  bool gather = tensor.spec.op == wire::Op::kAllgather;
  bool alltoall = tensor.spec.op == wire::Op::kAlltoall;
  bool scatter = tensor.spec.op == wire::Op::kReducescatter;
  Status dealt;
  if (gather) dealt = MakeRoomForGather(task);
  if (alltoall) dealt = MakeRoomForAlltoall(task);
  if (gather) bytes = task.outcome.gathered_bytes;
  uint32_t first_piece = gather || alltoall ? 1 : 0;  // behind the layout
  if (dealt.ok()) {
    dealt = scatter || alltoall ? DealSections(tensor, first_piece, SectionsOf(task))
                                : DealPieces(tensor, first_piece, bytes,
                                             plan::PieceBytes(bytes, members_, piece_bytes_max_));
  }
  if (dealt.ok()) return StageVerdict::kDone;
  Fail(tensor, dealt);
  return StageVerdict::kFailed;
}

// The others wait for pieces that will never come from here: the job ends, with the reason.
Status Worker::GiveUp(Status why) {
  if (alone_) return why;
  driver_.SendControl(
      wire::Suspect{Role::kWorker, slot_, 0, wire::Suspicion::kGaveUp, why.message()});
  return why;
}

StageVerdict Worker::EnterExchange(Tensor& tensor) {
  Task& task = *tensor.task;
  const Operation& operation = task.operation;
  bool repeats = tensor.spec.atomic && !IsLayout(tensor) && operation.input == operation.output;
  if (repeats) {  // the answers of the first attempt overwrite the input
    uint64_t bytes = BytesOf(tensor.spec);
    task.kept_input.reset(new (std::nothrow) std::byte[bytes]);
    if (task.kept_input == nullptr) {
      Fail(tensor, GiveUp({StatusCode::kExhausted,
                           "no memory to keep the " + std::to_string(bytes) + " bytes of '" +
                               operation.name + "', which is atomic and has its result in place"}));
      return StageVerdict::kFailed;
    }
    arithmetic_.Copy(task.kept_input.get(), operation.input, bytes);
  }
  if (tensor.spec.op == wire::Op::kJoin) BeginJoin(tensor);
  QueuePieces(tensor);
  PushWhatFits();
  return StageVerdict::kPending;
}

void Worker::Deliver(Tensor& tensor) {
  Status whole = alone_ ? Status::Ok() : CheckReceipt(tensor);
  if (!alone_) KeepUnstable(tensor);
  if (!whole.ok()) return Fail(tensor, whole);
  Task task = std::move(*tensor.task);
  tensor.task.reset();
  tensor.course.name.open = nullptr;
  open_.erase(task.operation.id);
  if (task.operation.spec.op == wire::Op::kJoin) EndJoin(task, true);
  const Operation& operation = task.operation;
  bool root = operation.spec.op == wire::Op::kBroadcast && operation.spec.root == rank_;
  if (root && task.outcome.status.ok() && operation.input != operation.output) {
    arithmetic_.Copy(operation.output, operation.input, BytesOf(operation.spec));
  }
  driver_.Complete(operation.id, std::move(task.outcome));
}

// Ends the operation before its path does.
void Worker::Fail(Tensor& tensor, const Status& why) {
  TakeBackOverdue(tensor);
  Outcome outcome;
  outcome.status = why;
  driver_.Complete(Withdraw(tensor), std::move(outcome));
}

// Forgets the operation. So are pieces that are under way, and answers to them are ignored.
OperationId Worker::Withdraw(Tensor& tensor) {
  for (uint32_t i = tensor.first_piece; i < EndPiece(tensor); ++i) {
    Piece& piece = tensor.pieces[i];
    if (piece.step == PieceStep::kQueued) queue_.Remove(piece.ticket);
    if (piece.step == PieceStep::kSent) {
      Spans spans = SpansOf(tensor, i);
      queue_.Returned(CreditOf(spans));
      driver_.Forget(spans.push);
      Divert(tensor, i);
    }
    piece.step = PieceStep::kDone;
  }
  Task task = std::move(*tensor.task);
  tensor.task.reset();
  tensor.course.name.open = nullptr;
  open_.erase(task.operation.id);
  if (task.operation.spec.op == wire::Op::kJoin) EndJoin(task, false);
  return task.operation.id;
}

void Worker::Stop(const Status& why) {
  if (stopped_.has_value()) return;
  stopped_ = why;
  for (Name* name : by_order_) {
    if (name->open != nullptr) Fail(*name->open, why);
  }
}

void Worker::OnWant(ShardId from, const std::vector<wire::PieceRef>& pieces) {
  if (from >= links_.size()) return;
  for (const wire::PieceRef& ref : pieces) {
    auto found = by_id_.find(ref.tensor);
    if (found == by_id_.end()) {
      if (wanted_unknown_count_ >= kEarlyWantsMax) continue;
      // By tensor: each declaration takes its own, and there may be as many of them as wants.
      wanted_unknown_[ref.tensor].push_back(ref);
      ++wanted_unknown_count_;
      continue;
    }
    Tensor& tensor = *found->second;
    if (ref.round < wire::RoundOf(tensor.round, 0) || MarkWanted(tensor, ref)) continue;
    if (tensor.wanted_early.size() < kEarlyWantsMax) tensor.wanted_early.push_back(ref);
  }
  PushWhatFits();
}

}  // namespace byteps::protocol
