// Plays one job with faults.
#include "sim/faults.h"

#include <algorithm>
#include <bit>

#include "sim/play.h"

namespace byteps::sim {
namespace {

// By then everything has healed, and a worker that has not finished hangs.
constexpr Duration kLimit = seconds(90);
constexpr Duration kRest = milliseconds(100);  // for acknowledgements and news of stability

}  // namespace

Play::Play(const FaultOptions& options)
    : options_(options),
      script_(options.script.has_value() ? *options.script : WriteFaults(options.seed)) {
  script_.cluster.arithmetic = &arithmetic_;
  script_.cluster.mistakes = options.mistakes;
  if (Sticks()) script_.cluster.overdue_after = kOverdueAfter;
}

void Play::SubmitRound(uint32_t worker, uint32_t round) {
  if (!Counts(worker)) return;
  round_[worker] = round;
  open_[worker] = 0;
  for (const FaultTensor& tensor : script_.tensors) {
    open_[worker] += TakesPart(worker, round, tensor) ? 1 : 0;
  }
  if (open_[worker] == 0) return AfterRound(worker);
  for (uint32_t index : script_.order[worker]) {
    if (!TakesPart(worker, round, script_.tensors[index])) continue;
    protocol::OperationId id = played_.size() + 1;
    Played& played = played_[id];
    played.worker = worker;
    played.tensor = index;
    played.round = round;
    played.begun = cluster_->network().now();
    cluster_->Submit(worker, cluster_->network().now(), OperationOf(played, id));
  }
  if (Sticks()) cluster_->Stick(worker);
}

protocol::Operation Play::OperationOf(Played& played, protocol::OperationId id) const {
  const FaultTensor& tensor = script_.tensors[played.tensor];
  uint64_t value = ValueOf(played);
  if (tensor.op == wire::Op::kAverage) value = std::bit_cast<uint64_t>(static_cast<double>(value));
  played.input.assign(tensor.elements, value);
  if (!tensor.in_place) played.output.assign(tensor.elements, 0);
  protocol::Operation operation;
  operation.id = id;
  operation.name = "t" + std::to_string(played.tensor);
  // If ranks let go of idle tensors, a name rests in every other round.
  const bool rests = script_.cluster.idle_operations > 0 && tensor.op != wire::Op::kJoin;
  if (rests && played.round % 2 == 1) operation.name += "'";
  operation.spec.op = tensor.op;
  operation.spec.dtype = tensor.op == wire::Op::kAverage ? DataType::kFloat64 : DataType::kInt64;
  operation.spec.atomic = tensor.atomic;
  operation.spec.shape = {static_cast<int64_t>(tensor.elements)};
  // Every other name has a tensor of another shape from time to time, with the same size.
  if (played.tensor % 2 == 1) operation.spec.shape.resize(1 + played.round % 3, 1);
  if (Disagrees(played) && script_.disagreement->worker == played.worker) {
    bool real = operation.spec.dtype == DataType::kFloat64;
    operation.spec.dtype = real ? DataType::kInt64 : DataType::kFloat64;
  }
  CompleteOperation(played, value, operation);
  return operation;
}

// Reads the result, and at once uses the memory for something else, as a user may.
void Play::OnComplete(uint32_t worker, protocol::OperationId id) {
  Played& played = played_.at(id);
  const Completion& completion = cluster_->completions(worker).at(id);
  if (completion.completions != 1) return Violation(NameOf(played) + " ended twice");
  played.done = true;
  played.status = completion.outcome.status;
  if (played.status.ok()) {
    ++result_.rounds;
    played.members = MembersOf(played, completion.outcome);
    played.mixed = completion.outcome.mixed;
    TakeResult(played, completion.outcome);
    CheckResult(played);
  }
  std::fill(played.input.begin(), played.input.end(), 0xdeadbeef);
  std::fill(played.output.begin(), played.output.end(), 0xdeadbeef);
  if (!played.status.ok()) OnError(played);
  CheckAgreement(played);
  done_[{played.tensor, played.round}].push_back(&played);
  if (--open_[worker] == 0) AfterRound(worker);
}

// Goes on after an error of one operation, and stops after the end of the job.
void Play::OnError(const Played& played) {
  uint32_t worker = played.worker;
  wire::Op op = script_.tensors[played.tensor].op;
  StatusCode code = played.status.code();
  bool aborted = aborts_ && code == StatusCode::kDeadlineExceeded;
  bool lost_part =
      code == StatusCode::kPeerLost &&
      (op == wire::Op::kBroadcast || op == wire::Op::kAllgather || op == wire::Op::kAlltoall) &&
      played.status.message().find("rank ") != std::string::npos;
  bool has_joined = code == StatusCode::kInvalidArgument && HasJoin() &&
                    played.status.message().find("has joined") != std::string::npos;
  bool disagrees = code == StatusCode::kMismatch && Disagrees(played);
  bool has_left = code == StatusCode::kPeerLost && AnyPartLeaves() &&
                  played.status.message().find("has left the job") != std::string::npos;
  if (!aborted && !lost_part && !has_joined && !has_left && !disagrees) ended_[worker] = true;
  if (has_left && op == wire::Op::kJoin) {
    ended_[worker] = true;  // the worker does not know which rounds it has missed, so it stops
    return;
  }
  if (ended_[worker] && !TooMuchLost() && !cluster_->evicted(worker) && !finished_[worker]) {
    Violation(NameOf(played) + " failed without a reason: " + played.status.ToString());
  }
}

void Play::AfterRound(uint32_t worker) {
  uint32_t next = RoundAfter(worker, round_[worker]);
  if (leaves_[worker] || next >= AllRounds()) {
    finished_[worker] = true;
    if (leaves_[worker]) cluster_->Leave(worker, leaves_first_[worker]);
  } else if (script_.sync_every > 0 && next % script_.sync_every == 0 && Counts(worker)) {
    sync_next_[worker] = next;
    syncs_[worker] = true;
    cluster_->Sync(worker);
  } else {
    Later(script_.pause[worker], [this, worker, next] { SubmitRound(worker, next); });
  }
}

// Lets a worker go on after a sync point, or after it was let in there. Other workers may have
// passed the next sync point before it learns that.
void Play::GoOn(uint32_t worker, uint32_t generation) {
  if (started_[worker] && !syncs_[worker]) {
    return Violation("a generation begins while worker " + std::to_string(worker) +
                     " is at no sync point");
  }
  if (!started_[worker]) sync_next_[worker] = RoundOfOthers();
  auto [round, first] = generation_rounds_.try_emplace(generation, sync_next_[worker]);
  if (!started_[worker]) sync_next_[worker] = round->second;
  started_[worker] = true;
  syncs_[worker] = false;
  SubmitRound(worker, sync_next_[worker]);
}

// Returns the next round of the members that still wait at the sync point where a worker is let in,
// because the new worker may learn of the generation first.
uint32_t Play::RoundOfOthers() const {
  uint32_t next = 0;
  for (uint32_t worker = 0; worker < workers(); ++worker) {
    if (syncs_[worker] && Agrees(worker)) next = std::max(next, sync_next_[worker]);
  }
  return next;
}

// Returns whether so many members are lost, or look lost, that rule 14 may end the job.
bool Play::TooMuchLost() const {
  if (coordinator_hit_) return true;
  auto workers_end = hit_.begin() + static_cast<ptrdiff_t>(cluster_->first_workers());
  bool all_workers = std::find(hit_.begin(), workers_end, false) == workers_end;
  auto count = static_cast<size_t>(std::count(hit_.begin(), hit_.end(), true));
  return all_workers || 2 * count >= hit_.size();
}

bool Play::AllDone() const {
  for (uint32_t worker = 0; worker < workers(); ++worker) {
    if (Counts(worker) && !finished_[worker]) return false;
  }
  return true;
}

void Play::Begin() {
  cluster_ = std::make_unique<Cluster>(script_.cluster);
  if (options_.log) {
    options_.log(Describe(script_));
    cluster_->set_log([this](const std::string& line) {
      double at = ToSeconds(cluster_->network().now().time_since_epoch());
      options_.log(std::to_string(at) + " " + line);
    });
  }
  open_.resize(workers());
  round_.resize(workers());
  started_.resize(workers());
  finished_.resize(workers());
  ended_.resize(workers());
  leaves_.resize(workers());
  leaves_first_.resize(workers());
  syncs_.resize(workers());
  sync_next_.resize(workers());
  hit_.resize(cluster_->first_workers() + cluster_->server_count());
  result_.near_wrap = script_.cluster.rounds_begin > 0;
  cluster_->on_complete = [this](uint32_t worker, protocol::OperationId id) {
    OnComplete(worker, id);
  };
  cluster_->on_go_on = [this](uint32_t worker, uint32_t generation) { GoOn(worker, generation); };
  cluster_->Start();
  for (uint32_t worker = 0; worker < cluster_->first_workers(); ++worker) {
    started_[worker] = true;
    SubmitRound(worker, 0);
  }
  // A job that has not begun waits for missing processes, so faults count from its beginning.
  auto begun = [&] {
    auto views = cluster_->views();
    auto in = std::count_if(views.begin(), views.end(), [](auto* view) { return view->epoch > 0; });
    return static_cast<size_t>(in) == hit_.size();
  };
  while (!begun() && cluster_->Step()) {
  }
  last_ = cluster_->network().now();
  cluster_->on_moment = [this](Moment moment, uint32_t worker, uint32_t server) {
    if (!waiting_.empty()) OnMoment(moment, worker, server);
  };
  for (const FaultEvent& event : script_.events) {
    if (event.moment == Moment::kBegin) {
      Schedule(event);
    } else {
      waiting_.push_back(event);
    }
  }
}

FaultResult Play::Run() {
  Begin();
  Time limit(kLimit);
  while (!AllDone() && !result_.violation.has_value() && cluster_->violations().empty() &&
         cluster_->network().now() < limit && cluster_->Step()) {
  }
  waiting_.clear();  // faults that have not come by now do not come
  result_.virtual_seconds = ToSeconds(cluster_->network().now().time_since_epoch());
  Finish();
  result_.rest_seconds =
      ToSeconds(cluster_->network().now().time_since_epoch()) - result_.virtual_seconds;
  result_.events = cluster_->network().events();
  return std::move(result_);
}

void Play::Finish() {
  for (const std::string& text : cluster_->violations()) Violation(text);
  if (result_.violation.has_value()) return;
  bool over = !cluster_->coordinator_outcome().value_or(Status::Ok()).ok();
  for (uint32_t worker = 0; worker < workers(); ++worker) {
    // Between two operations a user learns of the job's end by the next operation, which is
    // refused.
    if (over && TooMuchLost() && !finished_[worker]) ended_[worker] = true;
    if (Counts(worker) && !finished_[worker]) {
      Violation("hang: worker " + std::to_string(worker) + " is in round " +
                std::to_string(round_[worker]) + " of " + std::to_string(AllRounds()));
    }
    result_.ended_early = result_.ended_early || ended_[worker];
  }
  // Remaining faults heal, and then everything comes to rest.
  cluster_->RunUntilIdle(std::max(cluster_->network().now(), last_ + seconds(2)) + kRest);
  if (!result_.violation.has_value()) CheckRest();
  CheckSiblings();
  CheckLosses();
  CheckAllAgreements();
  for (const std::string& text : cluster_->violations()) Violation(text);
}

FaultResult RunFaults(const FaultOptions& options) { return Play(options).Run(); }

}  // namespace byteps::sim
