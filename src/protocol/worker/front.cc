#include "src/protocol/worker/front.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "src/operations/check.h"
#include "src/plan/partition.h"
#include "src/wire/data.h"

namespace byteps::protocol {

Front::Front(const FrontOptions& options, Arithmetic& arithmetic, FrontDriver& driver)
    : options_(options),
      arithmetic_(arithmetic),
      driver_(driver),
      joins_(options.first_round),
      declaring_(names_, joins_,
                 [this](const wire::Message& message) { driver_.SendControl(message); }),
      overdue_(names_, sets_, joins_, options.overdue_after,
               [this](const wire::Message& message) { driver_.SendControl(message); }),
      lanes_(options.lanes,
             [this](uint32_t lane, LaneMail mail) { driver_.ToLane(lane, std::move(mail)); }) {}

Front::~Front() = default;

void Front::OnView(const wire::View& view, Slot slot, uint32_t rank) {
  bool begins = !ready_ || view.generation != generation_;
  ready_ = true;
  slot_ = slot;
  rank_ = rank;
  to_lane::View mail{std::make_shared<const wire::View>(view), slot};
  if (!begins) {
    lanes_.ChangeView(mail);
    if (settles_) Settle();
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
  members_ = static_cast<uint32_t>(roster.size());
  sets_.Begin(roster, rank_);
  joins_.Clear();
  alone_ = view.servers.empty();
  deal_options_.piece_bytes_max = view.piece_bytes_max;
  deal_options_.shard_weights.clear();
  for (const wire::ServerInfo& server : view.servers) {
    deal_options_.shard_weights.insert(deal_options_.shard_weights.end(),
                                       server.shard_weights.begin(), server.shard_weights.end());
  }
  names_.Clear();
  declaring_.Clear();
  exchanging_.clear();
}

// What this rank can see alone.
Status Front::Check(Operation& operation) const {
  operations::Work work{.spec = operation.spec, .name = operation.name};
  work.input = operation.input;
  work.output = operation.output;
  work.rows = operation.rows;
  work.splits = operation.splits;
  Status checked = operations::CheckArguments(work);
  if (checked.ok()) checked = joins_.Check(operation, open_.size());
  if (checked.ok()) checked = sets_.Check(operation.name, operation.spec.group);
  if (!checked.ok()) return checked;
  const PlacedSet& set = sets_.Of(operation.spec.group);
  work.place = {set.present, set.self};
  return operations::CheckPlace(work, operation.splits);
}

Status Front::Submit(Operation operation) {
  assert(ready_);
  if (stopped_.has_value()) return *stopped_;
  overdue_.SetStuck("");
  Status checked = Check(operation);
  if (!checked.ok()) return checked;
  Name& name = names_.NameOf(operation.name);
  if (name.open != nullptr) {
    return {StatusCode::kDuplicateName, "tensor '" + operation.name +
                                            "' is already in flight, with " +
                                            operations::Describe(name.open->spec) +
                                            "; wait for it, or give the second one another name"};
  }
  Course& course = Names::CourseOf(name, operation.spec.group);
  if (alone_) course.tensors.clear();  // there a name never stands for anything
  Tensor& tensor = Names::TensorOf(course, operation.spec);
  OperationId id = operation.id;
  auto task = std::make_unique<Task>(std::move(operation), tensor.spec, sets_.Of(tensor.spec.group),
                                     tensor.deal);
  task->path = PathOf(task->row.sizes_first, alone_);
  task->outcome.members = alone_ ? 1 : 0;
  open_[id] = &tensor;  // the last of all that needs memory
  tensor.task = std::move(task);
  name.open = &tensor;
  if (tensor.task->row.joins) joins_.OnSubmitted();
  overdue_.OnBegun();
  try {
    Advance(tensor);
  } catch (...) {  // no memory
    if (name.open == &tensor && open_.contains(id)) Close(tensor, false);
    throw;
  }
  return Status::Ok();
}

void Front::Declare(const std::string& name) { names_.NameOf(name); }

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
    case Stage::kExchange: return EnterExchange(tensor);
    case Stage::kKeep: return Ended(tensor, tensor.task->KeepAlone(arithmetic_));
    case Stage::kDeliver: break;
  }
  return StageVerdict::kDone;
}

// What a stage that needs no event says.
StageVerdict Front::Ended(Tensor& tensor, const Task::Trouble& how) {
  if (how.status.ok()) return StageVerdict::kDone;
  if (how.only_here) GiveUp(how.status);
  Fail(tensor, how.status);
  return StageVerdict::kFailed;
}

StageVerdict Front::EnterDeclare(Tensor& tensor) {
  Course& course = tensor.course;
  if (Declaring::FailedWhileAway(course, joins_)) lanes_.Retire(names_.Undeclare(course));
  if (course.failing.has_value()) {
    FailCourse(tensor);
    return StageVerdict::kFailed;
  }
  return declaring_.BeginUse(tensor) ? StageVerdict::kDone : StageVerdict::kPending;
}

StageVerdict Front::EnterLayout(Tensor& tensor) {
  tensor.task->MakeTable();
  uint64_t bytes = tensor.task->table.size() * sizeof(uint64_t);
  // One piece, whatever units a partition is cut at.
  uint32_t piece_bytes = static_cast<uint32_t>(bytes) + plan::kPieceUnitBytes;
  Status cut = tensor.deal.Cut(deal_options_, tensor.name, 0, {bytes, {}}, piece_bytes, false);
  if (!cut.ok()) return Ended(tensor, {cut});
  BeginExchange(tensor);
  return StageVerdict::kPending;
}

StageVerdict Front::EnterPartition(Tensor& tensor) {
  Task& task = *tensor.task;
  Task::Trouble laid = task.LayOut(options_.gathered_bytes_max, arithmetic_);
  if (!laid.status.ok()) return Ended(tensor, laid);
  const operations::Extent& extent = task.layout.extent;
  uint32_t first_piece = task.row.sizes_first ? 1 : 0;
  uint32_t piece_bytes = plan::PieceBytes(extent.bytes, members_, deal_options_.piece_bytes_max);
  return Ended(tensor, {tensor.deal.Cut(deal_options_, tensor.name, first_piece, extent,
                                        piece_bytes, task.row.known_pieces)});
}

// The others wait for pieces that will never come from here: the job ends, with the reason.
void Front::GiveUp(const Status& why) {
  if (alone_) return;
  driver_.SendControl(wire::Suspect{Role::kWorker, 0, 0, wire::Suspicion::kGaveUp, why.message()});
}

StageVerdict Front::EnterExchange(Tensor& tensor) {
  Task& task = *tensor.task;
  Task::Trouble kept = task.KeepInput(arithmetic_);
  if (!kept.status.ok()) return Ended(tensor, kept);
  if (task.row.joins) lanes_.Tell(to_lane::Joined{joins_.Begin()});
  BeginExchange(tensor);
  return StageVerdict::kPending;
}

void Front::BeginExchange(Tensor& tensor) {
  Task& task = *tensor.task;
  Exchange& exchange = task.exchange;
  exchange.serial = ++serials_;
  exchange.name = tensor.name;
  exchange.tensor = {tensor.id, operations::CombineOf(tensor.spec), tensor.spec.dtype,
                     tensor.spec.codec, tensor.spec.group};
  exchange.round = tensor.round;
  exchange.order = tensor.course.name.order;
  exchange.priority = task.operation.priority;
  exchange.first_piece = tensor.deal.first_piece();
  exchange.count = tensor.deal.count();
  exchange.homes = &tensor.deal.homes();
  exchange.spans = &task;
  exchange.atomic = tensor.spec.atomic;
  exchange.root.reset();
  if (auto root = operations::RootPlace(task.work); root.has_value()) {
    exchange.root = task.set.slot_of[*root];
  }
  exchange.others_wait = !task.layout.extent.sections.empty() && task.stage() != Stage::kLayout;
  task.progress.Begin(options_.lanes);
  task.exchanging = true;
  exchanging_[exchange.serial] = &tensor;
  lanes_.Begin({&exchange});
}

Tensor* Front::ExchangingTensor(uint64_t serial) const {
  auto found = exchanging_.find(serial);
  return found == exchanging_.end() ? nullptr : found->second;
}

void Front::OnMail(FrontMail mail) {
  std::visit([this](auto& one) { On(one); }, mail);
}

void Front::On(const to_front::PartDone& mail) {
  now_ = std::max(now_, mail.now);
  Tensor* tensor = ExchangingTensor(mail.serial);
  if (tensor == nullptr || tensor->task->withdrawn.has_value()) return;
  Task& task = *tensor->task;
  task.progress.Add(mail);
  if (task.progress.IsComplete(task.exchange.count)) OnExchangeDone(*tensor);
}

void Front::OnExchangeDone(Tensor& tensor) {
  Task& task = *tensor.task;
  if (task.progress.status().ok() && TryAgainForOneReceipt(task)) return;
  exchanging_.erase(task.exchange.serial);
  task.exchanging = false;
  if (!task.progress.status().ok()) return Fail(tensor, Status(task.progress.status()));
  task.outcome.Add(task.progress.receipt(), task.progress.mixed());
  ++task.at;
  Advance(tensor);
}

// An atomic tensor has one receipt: pieces with more members than all have are pushed again, in an
// attempt of its own. Members only shrink, so this ends.
bool Front::TryAgainForOneReceipt(Task& task) {
  bool again =
      task.operation.spec.atomic && task.progress.mixed() && task.attempt + 1 < wire::kAttemptsMax;
  if (!again) return false;
  Receipt common = task.progress.receipt();
  task.progress.Begin(options_.lanes);
  lanes_.Repeat({&task.exchange, ++task.attempt, std::move(common)});
  return true;
}

void Front::On(const to_front::Released& mail) {
  Tensor* tensor = ExchangingTensor(mail.serial);
  if (tensor == nullptr || !tensor->task->withdrawn.has_value()) return;
  tensor->task->released[mail.lane] = true;
  EndIfReleased(*tensor);
}

void Front::On(to_front::HandOver& mail) {
  if (!lanes_.OnHandOver(std::move(mail))) return;
  // Ranks that know already that the next round fails have dropped what they held of this one.
  for (TensorId id : std::vector<TensorId>(lanes_.moved())) {
    Tensor* tensor = names_.ById(id);
    bool fails = tensor != nullptr && tensor->course.failing.has_value();
    if (fails && tensor->task != nullptr && !tensor->task->withdrawn.has_value()) {
      FailCourse(*tensor);
    }
  }
  lanes_.FinishMove();
  if (settles_) Settle();
}

void Front::Settle() {
  settles_ = true;
  unsettled_ = options_.lanes;
  lanes_.Tell(to_lane::Settle{++question_});
}

// A view may have moved something from a lane that had not answered to one that had: then they are
// asked again.
void Front::On(const to_front::Settled& mail) {
  if (mail.question == question_ && --unsettled_ == 0) driver_.OnSettled();
}

void Front::On(const to_front::GivesUp& mail) { GiveUp(mail.why); }

void Front::Deliver(Tensor& tensor) {
  Task& task = *tensor.task;
  Status whole = alone_ ? Status::Ok() : task.CheckReceipt();
  if (!whole.ok()) return Fail(tensor, whole);
  if (!alone_) task.Finish(arithmetic_);
  Close(tensor, true);
}

// Ends the operation before its path does.
void Front::Fail(Tensor& tensor, const Status& why) {
  Task& task = *tensor.task;
  if (task.withdrawn.has_value()) return;
  if (!stopped_.has_value()) overdue_.TakeBack(tensor);
  task.withdrawn = why;
  task.released.assign(options_.lanes, !task.exchanging);
  if (task.exchanging) lanes_.Withdraw(task.exchange);
  EndIfReleased(tensor);
}

void Front::EndIfReleased(Tensor& tensor) {
  Task& task = *tensor.task;
  if (!options_.rules->MayEnd(task.released)) return;
  task.outcome = Outcome();
  task.outcome.status = *task.withdrawn;
  Close(tensor, true);
}

// Nothing touches its memory any more.
void Front::Close(Tensor& tensor, bool completed) {
  std::unique_ptr<Task> task = std::move(tensor.task);
  tensor.course.name.open = nullptr;
  open_.erase(task->operation.id);
  exchanging_.erase(task->exchange.serial);
  if (task->row.joins) {
    bool joined = completed && task->outcome.status.ok();
    joins_.End(joined);
    if (joined && !alone_) lanes_.Tell(to_lane::Joined{0});
  }
  if (completed) driver_.Complete(task->operation.id, std::move(task->outcome));
}

// One failure is raised once, whatever process sets it is told of.
void Front::FailCourse(Tensor& tensor) {
  Course& course = tensor.course;
  const wire::DeclareFailed why = *course.failing;
  tensor.task->reported = false;  // the coordinator knows
  Fail(tensor, Status(why.code, why.text));
  lanes_.Retire(names_.Undeclare(course));
  for (const wire::NamedUse& also : why.also) {
    Course& other = Names::CourseOf(names_.NameOf(also.name), also.use.group);
    const Tensor* open = other.name.open;
    bool own_end = open != nullptr && &open->course == &other;  // it is told of that by itself
    if (other.attempt > also.use.attempt || own_end) continue;
    other.attempt = also.use.attempt;
    lanes_.Retire(names_.Undeclare(other));
  }
}

void Front::OnDeclared(const wire::Declared& message) {
  Tensor* tensor = declaring_.OnDeclared(message);
  if (tensor == nullptr) return;
  ++tensor->task->at;
  Advance(*tensor);
}

void Front::OnDeclareFailed(const wire::DeclareFailed& message) {
  Course* course = declaring_.OnFailed(message);
  Tensor* open = course == nullptr ? nullptr : course->name.open;
  if (open == nullptr || &open->course != course || open->task->withdrawn.has_value()) return;
  if (open->task->stage() == Stage::kDeclare) return Advance(*open);
  if (open->round >= message.use.round) FailCourse(*open);
}

std::vector<wire::Known> Front::Known() const { return declaring_.Known(); }

void Front::AskAgain() {
  declaring_.AskAgain();
  overdue_.ReportAgain();
}

std::optional<Time> Front::NextTick() {
  if (open_.empty() || alone_) return std::nullopt;
  return overdue_.NextLook(now_);
}

void Front::Stop(const Status& why) {
  if (stopped_.has_value()) return;
  stopped_ = why;
  lanes_.Tell(to_lane::Stop());
  for (Name* name : names_.in_order()) {
    if (name->open != nullptr) Fail(*name->open, why);
  }
}

void Front::Abort(OperationId id, const std::string& why) {
  auto found = open_.find(id);
  if (found == open_.end()) return;
  const Tensor& tensor = *found->second;
  // Others may have data for as long as they like; while they do, their operations have limits.
  if (tensor.task->row.joins || !tensor.task->exchanging) return;
  wire::TensorSpec what = tensor.spec;
  what.detail.clear();
  std::string text = why + " for tensor '" + tensor.name + "', " + operations::Describe(what);
  lanes_.Abort({tensor.id, tensor.task->exchange.serial, text});
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
    if (name->open == nullptr || name->open->spec.group != number || number == 0) continue;
    return {StatusCode::kInvalidArgument, "process set " + std::to_string(number) +
                                              " cannot be removed: '" + name->text +
                                              "' has not ended; wait for it first"};
  }
  Status removed = sets_.Remove(number);
  if (removed.ok()) lanes_.Tell(to_lane::RemoveProcessSet{number});
  return removed;
}

}  // namespace byteps::protocol
