// The worker's events from users and from the coordinator, and the walk along the data path.
// worker_exchange.cc has what happens between a worker and the shards, worker_recovery.cc what
// happens when members come and go.
#include "src/protocol/worker.h"

#include <algorithm>
#include <cassert>
#include <new>

#include "src/protocol/control/tensor_bytes.h"

namespace byteps::protocol {
namespace {

// Pieces that shards wait for and that this rank has not begun yet are kept up to this number;
// shards ask again for the others.
constexpr size_t kEarlyWantsMax = 65536;

// REQUIRES: CheckOperation has let it through.
uint64_t BytesOf(const wire::TensorSpec& spec) { return TensorBytes(spec).value_or(0); }

}  // namespace

Worker::Worker(const WorkerOptions& options, BufferPool& pool, Arithmetic& arithmetic,
               WorkerDriver& driver)
    : options_(options), pool_(pool), arithmetic_(arithmetic), driver_(driver) {}

Worker::~Worker() = default;

Worker::Tensor& Worker::TensorNamed(const std::string& name) {
  std::unique_ptr<Tensor>& tensor = tensors_[name];
  if (tensor == nullptr) {
    tensor = std::make_unique<Tensor>();
    tensor->name = name;
    tensor->order = static_cast<uint32_t>(by_order_.size());
    by_order_.push_back(tensor.get());
  }
  return *tensor;
}

void Worker::Declare(const std::string& name) { TensorNamed(name); }

Status Worker::Submit(Operation operation) {
  assert(ready_);
  if (stopped_.has_value()) return *stopped_;
  Status checked = CheckOperation(operation);
  if (!checked.ok()) return checked;
  joining_ = joining_ || operation.spec.op == wire::Op::kJoin;
  Tensor& tensor = TensorNamed(operation.name);
  if (tensor.task.has_value()) {
    return {StatusCode::kDuplicateName,
            "tensor '" + operation.name +
                "' is already in flight; wait for it, or give the second one another name"};
  }
  // Not emplace(): clang does not see the default constructor of a nested struct in time.
  Task& task = tensor.task.emplace(Task());
  task.path = PathOf(operation.spec.op, alone_);
  task.outcome.members = alone_ ? 1 : 0;
  bool scatter = operation.spec.op == wire::Op::kReducescatter;
  task.outcome.rows = scatter ? OwnRows(operation.spec) : operation.rows;
  task.operation = std::move(operation);
  ++open_operations_;
  Advance(tensor);
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

// Rounds count from 1 again after each join: ranks that had joined have missed some.
uint64_t Worker::NextRound(const Tensor& tensor) const {
  uint64_t begin = wire::FirstRoundAfter(joins_);
  return tensor.round < begin ? begin + options_.first_round : tensor.round + 1;
}

StageVerdict Worker::EnterDeclare(Tensor& tensor) {
  // What broke while this rank had joined concerned the others only.
  bool missed = tensor.doomed.has_value() && tensor.doomed->round <= wire::FirstRoundAfter(joins_);
  if (missed) Undeclare(tensor);
  if (tensor.doomed.has_value()) {
    Status why(tensor.doomed->code, tensor.doomed->text);
    Undeclare(tensor);
    Fail(tensor, why);
    return StageVerdict::kFailed;
  }
  const wire::TensorSpec& spec = tensor.task->operation.spec;
  if (tensor.declared && tensor.spec == spec) {
    tensor.round = NextRound(tensor);
    return StageVerdict::kDone;
  }
  driver_.SendControl(wire::Declare{tensor.name, tensor.attempt, spec, NextRound(tensor)});
  return StageVerdict::kPending;
}

void Worker::OnDeclared(const wire::Declared& message) {
  auto found = tensors_.find(message.name);
  if (found == tensors_.end()) return;
  Tensor& tensor = *found->second;
  bool waiting = tensor.task.has_value() && !tensor.declared &&
                 tensor.task->path[tensor.task->at] == Stage::kDeclare;
  if (!waiting || message.attempt != tensor.attempt) return;
  tensor.declared = true;
  tensor.pieces.clear();  // of a declaration before this one
  tensor.dealt_id.reset();
  tensor.id = message.tensor;
  tensor.spec = tensor.task->operation.spec;
  tensor.placement = message.placement;
  tensor.round = wire::FirstRoundAfter(joins_) + options_.first_round;
  by_id_[tensor.id] = &tensor;
  tensor.wanted_early.clear();
  auto known =
      std::stable_partition(wanted_unknown_.begin(), wanted_unknown_.end(),
                            [&](const wire::PieceRef& ref) { return ref.tensor != tensor.id; });
  tensor.wanted_early.insert(tensor.wanted_early.end(), known, wanted_unknown_.end());
  wanted_unknown_.erase(known, wanted_unknown_.end());
  Resume(tensor);
}

// A declaration that failed concerns the operation that begins `round`; an earlier one, whose
// answers are still coming in, is none of its business.
void Worker::OnDeclareFailed(const wire::DeclareFailed& message) {
  auto found = tensors_.find(message.name);
  if (found == tensors_.end()) return;
  Tensor& tensor = *found->second;
  if (message.attempt != tensor.attempt || tensor.doomed.has_value()) return;
  failures_.push_back(message);
  bool concerned =
      tensor.task.has_value() &&
      (tensor.task->path[tensor.task->at] == Stage::kDeclare || tensor.round >= message.round);
  if (!concerned) {
    if (tensor.declared) tensor.doomed = message;
    return;
  }
  Undeclare(tensor);
  Fail(tensor, Status(message.code, message.text));
  PushWhatFits();  // nobody else may ever ask for what waited for this credit
}

void Worker::Undeclare(Tensor& tensor) {
  if (tensor.declared) by_id_.erase(tensor.id);
  tensor.declared = false;
  tensor.doomed.reset();
  ++tensor.attempt;
  tensor.round = 0;
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
  task.outcome.gathered = std::make_unique_for_overwrite<std::byte[]>(bytes);
  task.outcome.gathered_bytes = bytes;
  arithmetic_.Copy(task.outcome.gathered.get(), operation.input, bytes);
  for (uint64_t rows : operation.splits) {
    task.outcome.received_splits.push_back(static_cast<int64_t>(rows));
  }
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
    task.kept_input = std::make_unique_for_overwrite<std::byte[]>(bytes);
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
  --open_operations_;
  if (task.operation.spec.op == wire::Op::kJoin) EndJoin(task, true);
  const Operation& operation = task.operation;
  bool root = operation.spec.op == wire::Op::kBroadcast && operation.spec.root == rank_;
  if (root && task.outcome.status.ok() && operation.input != operation.output) {
    arithmetic_.Copy(operation.output, operation.input, BytesOf(operation.spec));
  }
  driver_.Complete(operation.id, std::move(task.outcome));
}

// Ends the operation before its path does. Pieces that are under way are forgotten, and answers to
// them ignored.
void Worker::Fail(Tensor& tensor, const Status& why) {
  for (uint32_t i = tensor.first_piece; i < EndPiece(tensor); ++i) {
    Piece& piece = tensor.pieces[i];
    if (piece.step == PieceStep::kQueued) queue_.Remove(piece.ticket);
    if (piece.step == PieceStep::kSent) {
      Spans spans = SpansOf(tensor, i);
      queue_.Returned(CreditOf(spans));
      driver_.Forget(spans.push);
    }
    piece.step = PieceStep::kDone;
  }
  Task task = std::move(*tensor.task);
  tensor.task.reset();
  --open_operations_;
  if (task.operation.spec.op == wire::Op::kJoin) EndJoin(task, false);
  Outcome outcome;
  outcome.status = why;
  driver_.Complete(task.operation.id, std::move(outcome));
}

void Worker::Stop(const Status& why) {
  if (stopped_.has_value()) return;
  stopped_ = why;
  for (auto& [name, tensor] : tensors_) {
    if (tensor->task.has_value()) Fail(*tensor, why);
  }
}

void Worker::OnWant(ShardId from, const std::vector<wire::PieceRef>& pieces) {
  if (from >= links_.size()) return;
  for (const wire::PieceRef& ref : pieces) {
    auto found = by_id_.find(ref.tensor);
    if (found == by_id_.end()) {
      if (wanted_unknown_.size() < kEarlyWantsMax) wanted_unknown_.push_back(ref);
      continue;
    }
    Tensor& tensor = *found->second;
    if (ref.round < wire::RoundOf(tensor.round, 0) || MarkWanted(tensor, ref)) continue;
    if (tensor.wanted_early.size() < kEarlyWantsMax) tensor.wanted_early.push_back(ref);
  }
  PushWhatFits();
}

}  // namespace byteps::protocol
