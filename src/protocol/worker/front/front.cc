#include "src/protocol/worker/front/front.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "src/operations/check.h"
#include "src/plan/partition.h"
#include "src/protocol/control/views/sum_order.h"
#include "src/wire/join_word.h"

namespace byteps::protocol {

Front::Front(const FrontOptions& options, Arithmetic& arithmetic, FrontDriver& driver)
    : options_(options),
      arithmetic_(arithmetic),
      driver_(driver),
      joins_(options.first_round),
      declaring_(names_, joins_, *options.rules, options.idle,
                 [this](const wire::Message& message) { driver_.SendControl(message); }),
      overdue_(names_, sets_, joins_, options.overdue_after,
               [this](const wire::Message& message) { driver_.SendControl(message); }),
      lanes_(options.lanes,
             [this](uint32_t lane, LaneMail mail) { driver_.ToLane(lane, std::move(mail)); }),
      exchanges_(lanes_, *options.rules),
      copies_(options.copy_slice_bytes, arithmetic) {}

Front::~Front() = default;

void Front::OnView(const wire::View& view, Slot slot, uint32_t rank) {
  bool begins = !ready_ || view.generation != generation_;
  ready_ = true;
  rank_ = rank;
  to_lane::View mail{std::make_shared<const wire::View>(view), slot};
  if (!begins) {
    lanes_.ChangeView(mail);
    if (settling_.asks()) Settle();
    return;
  }
  BeginGeneration(view);
  lanes_.BeginGeneration(mail);
  for (uint32_t number : sets_.Numbers()) TellLanes(number);
}

void Front::BeginGeneration(const wire::View& view) {
  assert(open_.empty());
  generation_ = view.generation;
  std::vector<wire::WorkerInfo> roster = wire::WorkersOfGeneration(view);
  sets_.Begin(roster, rank_, SumRulesOf(view));
  joins_.Clear();
  alone_ = view.servers.empty();
  deal_options_ = DealOptionsOf(view);
  deal_options_.piece_bytes = options_.piece_bytes;
  names_.Clear();
  declaring_.Clear();
  exchanges_.Clear();
}

// Checks whether the codec encodes the type. If this rank does not have the codec at all, the stage
// that encodes refuses it later, on every rank.
Status Front::CheckCodec(const Operation& operation) const {
  const wire::TensorSpec& spec = operation.spec;
  const Codec* codec = spec.codec == 0 ? nullptr : options_.codecs->Find(spec.codec);
  if (codec == nullptr || codec->Supports(spec.dtype)) return Status::Ok();
  return {StatusCode::kInvalidArgument, "tensor '" + operation.name + "': codec " +
                                            std::to_string(spec.codec) + " does not encode " +
                                            std::string(byteps::NameOf(spec.dtype)) +
                                            "; give the tensor another type, or codec 0"};
}

// Returns the errors that this rank can see alone.
Status Front::Check(Operation& operation) const {
  operations::Work work{.spec = operation.spec, .name = operation.name};
  work.input = operation.input;
  work.output = operation.output;
  work.rows = operation.rows;
  work.splits = operation.splits;
  Status checked = operations::CheckArguments(work);
  if (checked.ok()) checked = CheckCodec(operation);
  if (checked.ok()) checked = joins_.Check(operation, open_.size());
  if (checked.ok()) checked = sets_.Check(operation.name, operation.spec.process_set);
  if (!checked.ok()) return checked;
  const PlacedSet& set = sets_.Of(operation.spec.process_set);
  work.place = {set.present, set.self};
  return operations::CheckPlace(work, operation.splits);
}

Status Front::Submit(Operation operation) {
  assert(ready_);
  if (stopped_.has_value()) return *stopped_;
  overdue_.SetStuck("");
  Status checked = Check(operation);
  if (!checked.ok()) return checked;
  if (alone_ && !operation.no_input.ok()) return operation.no_input;
  if (alone_ && open_.empty()) names_ = Names();  // in a job of one, no name stands for a tensor
  Name& name = names_.NameOf(operation.name);
  if (name.open != nullptr) {
    return {StatusCode::kDuplicateName, "tensor '" + operation.name +
                                            "' is already in flight, with " +
                                            operations::Describe(name.open->spec) +
                                            "; wait for it, or give the second one another name"};
  }
  Lifetime& lifetime = Names::LifetimeOf(name, operation.spec.process_set);
  Tensor& tensor = Names::TensorOf(lifetime, operation.spec);
  OperationId id = operation.id;
  auto task = std::make_unique<Task>(std::move(operation), tensor.spec,
                                     sets_.Of(tensor.spec.process_set), tensor.deal);
  task->path = PathOf(task->row.sizes_first, alone_);
  task->outcome.members = alone_ ? 1 : 0;
  open_[id] = &tensor;  // the last of these steps that needs memory
  tensor.task = std::move(task);
  name.open = &tensor;
  if (tensor.task->row.joins) joins_.OnSubmitted();
  overdue_.OnBegun();
  try {
    Advance(tensor);
  } catch (...) {  // no memory was left
    if (name.open == &tensor && open_.contains(id)) Close(tensor, false);
    throw;
  }
  return Status::Ok();
}

void Front::Advance(Tensor& tensor) {
  while (tensor.task != nullptr) {
    Task& task = *tensor.task;
    if (task.stage() == Stage::kDeliver) return Deliver(tensor);
    if (Enter(task.stage(), tensor) != StageVerdict::kDone) return;
    ++task.at;
  }
}

StageVerdict Front::Enter(Stage stage, Tensor& tensor) {
  switch (stage) {
    case Stage::kDeclare: return EnterDeclare(tensor);
    case Stage::kLayout: return EnterLayout(tensor);
    case Stage::kPartition: return EnterPartition(tensor);
    case Stage::kCopy: return EnterCopy(tensor);
    case Stage::kExchange: return EnterExchange(tensor);
    case Stage::kKeep: return Ended(tensor, tensor.task->KeepAlone(arithmetic_));
    case Stage::kDeliver: break;
  }
  return StageVerdict::kDone;
}

// Returns the verdict of a stage that needs no event.
StageVerdict Front::Ended(Tensor& tensor, const Task::Trouble& how) {
  if (how.status.ok()) return StageVerdict::kDone;
  if (how.only_here) GiveUp(how.status);
  Fail(tensor, how.status);
  return StageVerdict::kFailed;
}

StageVerdict Front::EnterDeclare(Tensor& tensor) {
  Lifetime& lifetime = tensor.lifetime;
  Declaring::Failure failure = declaring_.FailureOf(lifetime);
  if (failure == Declaring::Failure::kPast) lanes_.Retire(declaring_.SkipFailure(lifetime));
  if (failure == Declaring::Failure::kNext) {
    FailLifetime(tensor);
    return StageVerdict::kFailed;
  }
  return declaring_.BeginUse(tensor) ? StageVerdict::kDone : StageVerdict::kPending;
}

StageVerdict Front::EnterLayout(Tensor& tensor) {
  tensor.task->MakeTable();
  uint64_t bytes = tensor.task->table.size() * sizeof(uint64_t);
  // The table is one piece, even if its partition would be cut at larger units.
  uint32_t piece_bytes = static_cast<uint32_t>(bytes) + plan::kPieceUnitBytes;
  Status cut = tensor.deal.Cut(deal_options_, tensor.name, 0, {bytes, {}}, piece_bytes, false);
  if (!cut.ok()) return Ended(tensor, {cut});
  BeginExchange(tensor);
  return StageVerdict::kPending;
}

StageVerdict Front::EnterPartition(Tensor& tensor) {
  Task& task = *tensor.task;
  Task::Trouble laid = task.LayOut(options_.gathered_bytes_max);
  if (!laid.status.ok()) return Ended(tensor, laid);
  const operations::Extent& extent = task.layout.extent;
  uint32_t first_piece = task.row.sizes_first ? 1 : 0;
  uint32_t piece_bytes = deal_options_.PieceBytes(extent.bytes);
  return Ended(tensor, {tensor.deal.Cut(deal_options_, tensor.name, first_piece, extent,
                                        piece_bytes, task.row.known_pieces)});
}

// Ends the job with the reason, because the others wait for pieces that this rank will never send.
void Front::GiveUp(const Status& why) {
  if (alone_) return;
  driver_.SendControl(wire::Suspect{Role::kWorker, 0, 0, wire::Suspicion::kGaveUp, why.message()});
}

StageVerdict Front::EnterCopy(Tensor& tensor) {
  if (!tensor.task->operation.no_input.ok()) return StageVerdict::kDone;
  Copy copy;
  Task::Trouble planned = tensor.task->PlanCopy(copy);
  if (!planned.status.ok()) return Ended(tensor, planned);
  bool done = copies_.Begin(tensor.task->operation.id, copy);
  return done ? StageVerdict::kDone : StageVerdict::kPending;
}

StageVerdict Front::EnterExchange(Tensor& tensor) {
  Task& task = *tensor.task;
  if (task.row.joins) {
    task.table.front() = wire::JoinWordOf(joins_.taken_part(), task.work.place.rank());
    lanes_.Tell(to_lane::Joined{joins_.Begin(), {}});
  }
  BeginExchange(tensor);
  return StageVerdict::kPending;
}

void Front::BeginExchange(Tensor& tensor) {
  Task& task = *tensor.task;
  task.exchange = exchanges_.Begin(task.operation.id, tensor.MakeExchange());
}

void Front::OnMail(FrontMail mail) {
  std::visit([this](auto& one) { On(one); }, mail);
}

void Front::OnExchangeEnd(const std::optional<Exchanges::End>& end) {
  if (!end.has_value()) return;
  Tensor& tensor = *open_.at(end->operation);
  Task& task = *tensor.task;
  task.exchange = 0;
  if (end->withdrawn) return CloseWithdrawn(tensor);
  if (!end->status.ok()) return Fail(tensor, end->status);
  task.outcome.Add(end->receipt, end->mixed);
  ++task.at;
  Advance(tensor);
}

void Front::On(to_front::HandOver& mail) {
  if (!lanes_.OnHandOver(std::move(mail))) return;
  lanes_.FinishMove();
  if (settling_.asks()) Settle();
}

void Front::Settle() { lanes_.Tell(settling_.Ask(options_.lanes)); }

void Front::On(const to_front::Settled& mail) {
  if (settling_.OnAnswer(mail)) driver_.OnSettled();
}

void Front::Deliver(Tensor& tensor) {
  Task& task = *tensor.task;
  Status whole = alone_ ? Status::Ok() : task.CheckReceipt();
  if (!whole.ok()) return Fail(tensor, whole);
  if (!alone_) task.Finish();
  Close(tensor, true);
}

// Ends the operation before the end of its path.
void Front::Fail(Tensor& tensor, const Status& why) {
  Task& task = *tensor.task;
  if (task.withdrawn.has_value()) return;
  if (!stopped_.has_value()) overdue_.TakeBack(tensor);
  task.withdrawn = why;
  if (task.exchange == 0) return CloseWithdrawn(tensor);
  OnExchangeEnd(exchanges_.Withdraw(task.exchange));
}

void Front::CloseWithdrawn(Tensor& tensor) {
  Task& task = *tensor.task;
  task.outcome = Outcome();
  task.outcome.status = *task.withdrawn;
  Close(tensor, true);
}

// Forgets the task. Nothing touches its memory any more.
void Front::Close(Tensor& tensor, bool completed) {
  std::unique_ptr<Task> task = std::move(tensor.task);
  tensor.lifetime.name.open = nullptr;
  open_.erase(task->operation.id);
  copies_.Drop(task->operation.id);
  bool succeeded = completed && task->outcome.status.ok();
  if (task->row.joins) {
    joins_.End(succeeded);
    if (succeeded && !alone_) lanes_.Tell(to_lane::Joined());
  } else if (succeeded && task->operation.spec.process_set == 0) {
    joins_.OnTakenPart();
  }
  if (!completed) return;
  declaring_.EndUse(tensor, succeeded);
  if (tensor.declared) task->outcome.tensor = tensor.id;
  task->outcome.round = tensor.round;
  driver_.Complete(task->operation.id, std::move(task->outcome));
}

void Front::FailLifetime(Tensor& tensor) {
  Lifetime& lifetime = tensor.lifetime;
  tensor.task->reported = false;  // the coordinator knows of the failure
  Fail(tensor, Status(lifetime.failing->code, lifetime.failing->text));
  lanes_.Retire(declaring_.EndAttempt(lifetime));
}

void Front::OnDeclared(const wire::Declared& message) {
  std::vector<TensorId> replaced;
  Tensor* tensor = declaring_.OnDeclared(message, replaced);
  lanes_.Forget(replaced);
  if (tensor == nullptr) return;
  ++tensor->task->at;
  Advance(*tensor);
}

void Front::OnDeclareFailed(const wire::DeclareFailed& message) {
  Lifetime* lifetime = declaring_.OnFailed(message);
  Tensor* open = lifetime == nullptr ? nullptr : lifetime->name.open;
  if (open == nullptr || &open->lifetime != lifetime || open->task->withdrawn.has_value()) return;
  if (open->task->stage() == Stage::kDeclare) {
    // The coordinator was asked what the name means in an earlier round. Its answer to that
    // question is still on the way.
    bool later = declaring_.FailureOf(*lifetime) == Declaring::Failure::kLater;
    return later ? void() : Advance(*open);
  }
  if (open->round >= message.use.round) FailLifetime(*open);
}

std::vector<wire::Known> Front::Known() const { return declaring_.Known(); }

void Front::AskAgain() {
  declaring_.AskAgain();
  overdue_.ReportAgain();
}

void Front::OnTick(Time now) {
  if (!copies_.empty()) {
    std::optional<OperationId> copied = copies_.CopySlice();
    if (copied.has_value()) {
      Tensor& tensor = *open_.at(*copied);
      ++tensor.task->at;
      Advance(tensor);
    }
  }
  std::optional<Time> look = NextLook();
  if (look.has_value() && *look <= now) overdue_.Look(now);
}

std::optional<Time> Front::NextTick() {
  if (!copies_.empty()) return exchanges_.now();
  return NextLook();
}

std::optional<Time> Front::NextLook() {
  if (open_.empty() || alone_) return std::nullopt;
  return overdue_.NextLook(exchanges_.now());
}

void Front::Stop(const Status& why) {
  if (stopped_.has_value()) return;
  stopped_ = why;
  lanes_.Tell(to_lane::Stop());
  for (Name* name : names_.in_order()) {
    if (name->open != nullptr) Fail(*name->open, why);
  }
}

void Front::Abort(OperationId id, const TooLate& late) {
  auto found = open_.find(id);
  if (found == open_.end()) return;
  const Tensor& tensor = *found->second;
  if (tensor.task->exchange == 0 || (tensor.task->row.joins && !late.join_too)) return;
  wire::TensorSpec what = tensor.spec;
  what.detail.clear();
  std::string text = late.why + " for tensor '" + tensor.name + "', " + operations::Describe(what);
  if (!late.others.empty()) text += "; " + late.others;
  exchanges_.Abort(tensor.task->exchange, {StatusCode::kDeadlineExceeded, text});
}

Status Front::AddProcessSet(uint32_t number, const std::vector<uint32_t>& ranks) {
  Status added = sets_.Add(number, ranks);
  if (added.ok()) TellLanes(number);
  return added;
}

void Front::TellLanes(uint32_t number) {
  const PlacedSet& set = sets_.Of(number);
  to_lane::AddProcessSet mail{number, set.slots, {}};
  if (set.self != kNoPlace) {
    for (uint32_t rank : set.present) mail.ranks.Insert(rank);
  }
  lanes_.Tell(mail);
}

Status Front::RemoveProcessSet(uint32_t number) {
  for (const Name* name : names_.in_order()) {
    if (name->open == nullptr || name->open->spec.process_set != number || number == 0) continue;
    return {StatusCode::kInvalidArgument, "process set " + std::to_string(number) +
                                              " cannot be removed: '" + name->text +
                                              "' has not ended; wait for it first"};
  }
  Status removed = sets_.Remove(number);
  if (!removed.ok()) return removed;
  declaring_.LetGoOf(number);
  lanes_.Tell(to_lane::RemoveProcessSet{number});
  return removed;
}

}  // namespace byteps::protocol
