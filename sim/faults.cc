// Plays one job with faults.
#include "sim/faults.h"

#include <algorithm>
#include <bit>

#include "sim/play.h"

namespace byteps::sim {
namespace {

// By then everything has healed and everybody has finished, or hangs.
constexpr Duration kLimit = seconds(90);
constexpr Duration kRest = milliseconds(100);  // for acknowledgements and news of stability

bool IsAtNode(Fault fault) {
  return fault == Fault::kCutControl || fault == Fault::kLag || fault == Fault::kSlowLink ||
         fault == Fault::kClock || fault == Fault::kPartition;
}

}  // namespace

Play::Play(const FaultOptions& options)
    : options_(options),
      script_(options.script.has_value() ? *options.script : WriteFaults(options.seed)) {
  script_.cluster.arithmetic = &arithmetic_;
  script_.cluster.mistakes = options.mistakes;
  if (Sticks()) script_.cluster.overdue_after = kOverdueAfter;
}

// Worker w brings 2^w and the tag of its round in every element, so a sum names its members and its
// round.
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
    cluster_->Submit(worker, cluster_->network().now(), OperationOf(played, id));
  }
  if (Sticks()) cluster_->Stick(worker);
}

protocol::Operation Play::OperationOf(Played& played, protocol::OperationId id) const {
  const FaultTensor& tensor = script_.tensors[played.tensor];
  uint64_t value = (uint64_t{1} << played.worker) + Tag(played.tensor, played.round) * kTagUnit;
  if (tensor.op == wire::Op::kAverage) value = std::bit_cast<uint64_t>(static_cast<double>(value));
  played.input.assign(tensor.elements, value);
  if (!tensor.in_place) played.output.assign(tensor.elements, 0);
  protocol::Operation operation;
  operation.id = id;
  operation.name = "t" + std::to_string(played.tensor);
  operation.spec.op = tensor.op;
  operation.spec.dtype = tensor.op == wire::Op::kAverage ? DataType::kFloat64 : DataType::kInt64;
  operation.spec.atomic = tensor.atomic;
  operation.spec.shape = {static_cast<int64_t>(tensor.elements)};
  // Every other name stands for another tensor by and by, as large as before.
  if (played.tensor % 2 == 1) operation.spec.shape.resize(1 + played.round % 3, 1);
  CompleteOperation(played, value, operation);
  return operation;
}

// The user reads the result and uses the memory for something else at once.
void Play::OnComplete(uint32_t worker, protocol::OperationId id) {
  Played& played = played_.at(id);
  const Completion& completion = cluster_->completions(worker).at(id);
  if (completion.completions != 1) return Violation(NameOf(played) + " ended twice");
  played.done = true;
  played.status = completion.outcome.status;
  if (played.status.ok()) {
    ++result_.rounds;
    const protocol::Receipt& receipt = completion.outcome.receipt;
    for (Slot slot : receipt == nullptr ? std::vector<Slot>() : receipt->List()) {
      played.members.push_back(cluster_->WorkerAt(worker, slot));
    }
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

// An error of one operation leaves the job usable; an end of the job does not.
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
  if (!aborted && !lost_part && !has_joined) ended_[worker] = true;
  if (ended_[worker] && !TooMuchLost() && !cluster_->evicted(worker) && !finished_[worker]) {
    Violation(NameOf(played) + " failed without a reason: " + played.status.ToString());
  }
}

void Play::AfterRound(uint32_t worker) {
  uint32_t next = RoundAfter(worker, round_[worker]);
  if (leaves_[worker] || next >= AllRounds()) {
    finished_[worker] = true;
    if (leaves_[worker]) cluster_->Leave(worker);
  } else if (script_.sync_every > 0 && next % script_.sync_every == 0 && Counts(worker)) {
    sync_next_[worker] = next;
    syncs_[worker] = true;
    cluster_->Sync(worker);
  } else {
    Later(script_.pause[worker], [this, worker, next] { SubmitRound(worker, next); });
  }
}

// A sync point is over, or a worker has been let in there: others may have passed the next one by
// the time it hears of it.
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

// The members that still wait at the sync point where a worker is let in; it hears of it first.
uint32_t Play::RoundOfOthers() const {
  uint32_t next = 0;
  for (uint32_t worker = 0; worker < workers(); ++worker) {
    if (syncs_[worker] && Agrees(worker)) next = std::max(next, sync_next_[worker]);
  }
  return next;
}

// Rule 14, or a member that nobody can tell from a dead one.
bool Play::TooMuchLost() const {
  if (coordinator_hit_) return true;
  auto workers_end = hit_.begin() + static_cast<ptrdiff_t>(cluster_->first_workers());
  bool all_workers = std::find(hit_.begin(), workers_end, false) == workers_end;
  auto count = static_cast<size_t>(std::count(hit_.begin(), hit_.end(), true));
  return all_workers || 2 * count >= hit_.size();
}

void Play::NoteHit(const FaultEvent& event) {
  uint32_t all = workers() + cluster_->server_count();
  // Stops and jumps of the coordinator's clock cost nobody anything.
  if (event.fault == Fault::kPartition && event.a == all) coordinator_hit_ = true;
  if (event.fault == Fault::kSlowLink && event.a == all) coordinator_slow_ = true;
  // Who finds the one that has fewer members may be left behind, or lose its job.
  if (event.fault == Fault::kRival) coordinator_hit_ = true;
  auto hit = [&](uint32_t node) {
    bool late = node < workers() && node >= cluster_->first_workers();
    if (late || node >= all) return;
    hit_[node < workers() ? node : node - (workers() - cluster_->first_workers())] = true;
  };
  switch (event.fault) {
    case Fault::kKillWorker:
    case Fault::kFreezeWorker:
    case Fault::kAccuseWorker:
    case Fault::kLeave:
    case Fault::kCutOneWay:
    case Fault::kCutControl:
    case Fault::kSlowLink:
    case Fault::kLag:
    case Fault::kPartition: return hit(event.a);
    case Fault::kKillServer:
    case Fault::kAccuseServer:
    case Fault::kFreezeServer: return hit(workers() + event.a);
    default: return;
  }
}

bool Play::AllDone() const {
  for (uint32_t worker = 0; worker < workers(); ++worker) {
    if (Counts(worker) && !finished_[worker]) return false;
  }
  return true;
}

void Play::OnMoment(Moment moment, uint32_t worker, uint32_t server) {
  uint32_t count = ++moments_[static_cast<size_t>(moment)];
  uint32_t count_of = worker == kNobody ? 0 : ++moments_of_[{moment, worker}];
  for (size_t i = 0; i < waiting_.size();) {
    const FaultEvent& event = waiting_[i];
    bool any = event.by == kNobody;
    if (event.moment != moment ||
        !(any ? count == event.nth : worker == event.by && count_of == event.nth)) {
      ++i;
      continue;
    }
    Schedule(Aimed(event, worker, server));
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
  }
}

FaultEvent Play::Aimed(FaultEvent event, uint32_t worker, uint32_t server) const {
  if (event.target == Target::kNamed) return event;
  uint32_t next = event.target == Target::kNext ? 1 : 0;
  uint32_t servers = cluster_->server_count();
  bool at_server = event.fault == Fault::kKillServer || event.fault == Fault::kFreezeServer ||
                   event.fault == Fault::kAccuseServer;
  if (at_server) {
    if (server != kNobody) event.a = (server + next) % servers;
    return event;
  }
  if (worker != kNobody) {
    event.a = (worker + next) % workers();
  } else if (IsAtNode(event.fault) && server != kNobody) {
    event.a = workers() + (server + next) % servers;
  }
  if (server != kNobody && !IsAtNode(event.fault)) event.b = cluster_->FirstShard(server);
  return event;
}

void Play::Schedule(const FaultEvent& event) {
  Duration healed = event.lasts < kForEver ? event.lasts : Duration::zero();
  last_ = std::max(last_, cluster_->network().now() + event.at + healed);
  Later(event.at, [this, event] { Inject(event); });
}

void Play::Inject(const FaultEvent& event) {
  result_.played.push_back(event.fault);
  NoteHit(event);
  InjectAtProcess(event);
  InjectAtNetwork(event);
  bool killed = event.fault == Fault::kKillWorker || event.fault == Fault::kKillServer;
  if (killed && event.told) {
    Role role = event.fault == Fault::kKillWorker ? Role::kWorker : Role::kServer;
    uint64_t incarnation = cluster_->IncarnationOf(role, event.a);
    Later(milliseconds(1), [this, role, index = event.a, incarnation] {
      cluster_->TellExit(role, index, incarnation);
    });
  }
  if (event.lasts < kForEver) Later(event.lasts, [this, event] { Heal(event); });
}

void Play::InjectAtProcess(const FaultEvent& event) {
  Cluster& cluster = *cluster_;
  switch (event.fault) {
    case Fault::kKillWorker: return cluster.KillWorker(event.a);
    case Fault::kKillServer: return cluster.KillServer(event.a);
    case Fault::kKillCoordinator: return cluster.KillCoordinator();
    case Fault::kRival: return cluster.Rival(event.b);
    case Fault::kFreezeWorker: return cluster.FreezeWorker(event.a, true);
    case Fault::kFreezeServer: return cluster.FreezeServer(event.a, true);
    case Fault::kFreezeCoordinator: return cluster.FreezeCoordinator(true);
    case Fault::kAccuseWorker: return cluster.Accuse(Role::kWorker, event.a);
    case Fault::kAccuseServer: return cluster.Accuse(Role::kServer, event.a);
    case Fault::kLeave: leaves_[event.a] = true; return;
    case Fault::kJoin:
      if (script_.cluster.late_workers > 0 && !std::exchange(came_, true)) {
        cluster.Join(cluster.first_workers());
      }
      return;
    case Fault::kClock:
      return cluster.StepClock(event.a, event.c == 0 ? event.lasts : -event.lasts);
    case Fault::kAbort: aborts_ = true; return cluster.AbortOpen(event.a);
    default: return;
  }
}

void Play::InjectAtNetwork(const FaultEvent& event) {
  Cluster& cluster = *cluster_;
  switch (event.fault) {
    case Fault::kCutData: return cluster.CutDataConnection(event.a, event.b);
    case Fault::kCutControl: return cluster.CutControl(event.a, event.lasts);
    case Fault::kCutOneWay: return cluster.CutOneWay(event.a, event.b, event.c == 0, true);
    case Fault::kPartition: return cluster.Partition({cluster.HostOf(event.a)});
    case Fault::kJitter: return cluster.SetJitter(event.a, event.b, event.lasts / 8);
    case Fault::kLag: return cluster.LagControl(event.a, event.lasts / 4);
    case Fault::kSlowLink: return cluster.SlowLink(event.a, event.c == 0 ? 0.02 : 0.2);
    default: return;
  }
}

void Play::Heal(const FaultEvent& event) {
  switch (event.fault) {
    case Fault::kKillServer: cluster_->RestartServer(event.a); break;
    case Fault::kKillCoordinator: cluster_->RestartCoordinator(); break;
    case Fault::kRival: cluster_->EndRivals(); break;
    case Fault::kFreezeWorker: cluster_->FreezeWorker(event.a, false); break;
    case Fault::kFreezeServer: cluster_->FreezeServer(event.a, false); break;
    case Fault::kFreezeCoordinator: cluster_->FreezeCoordinator(false); break;
    case Fault::kCutOneWay: cluster_->CutOneWay(event.a, event.b, event.c == 0, false); break;
    case Fault::kPartition: cluster_->Partition({}); break;
    case Fault::kJitter: cluster_->SetJitter(event.a, event.b, Duration::zero()); break;
    case Fault::kLag: cluster_->LagControl(event.a, Duration::zero()); break;
    case Fault::kSlowLink: cluster_->SlowLink(event.a, 1); break;
    default: break;
  }
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
  // A job that has not begun waits for whoever is missing; faults are counted from its beginning.
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
  waiting_.clear();  // what has not come by now comes no more
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
    // Between two operations a user hears of the end with the next one, which is refused.
    if (over && TooMuchLost() && !finished_[worker]) ended_[worker] = true;
    if (Counts(worker) && !finished_[worker]) {
      Violation("hang: worker " + std::to_string(worker) + " is in round " +
                std::to_string(round_[worker]) + " of " + std::to_string(AllRounds()));
    }
    result_.ended_early = result_.ended_early || ended_[worker];
  }
  // What is still broken heals, then everything comes to rest.
  cluster_->RunUntilIdle(std::max(cluster_->network().now(), last_ + seconds(2)) + kRest);
  if (!result_.violation.has_value()) CheckRest();
  CheckLosses();
  CheckAllAgreements();
  for (const std::string& text : cluster_->violations()) Violation(text);
}

FaultResult RunFaults(const FaultOptions& options) { return Play(options).Run(); }

}  // namespace byteps::sim
