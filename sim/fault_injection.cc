// Plays the faults of a script, and heals them.
#include <utility>

#include "sim/play.h"

namespace byteps::sim {
namespace {

constexpr double kThinLink = 1e6;  // bytes per second

bool IsAtNode(Fault fault) {
  return fault == Fault::kCutControl || fault == Fault::kLag || fault == Fault::kSlowLink ||
         fault == Fault::kClock || fault == Fault::kPartition;
}

}  // namespace

void Play::NoteHit(const FaultEvent& event) {
  uint32_t all = workers() + cluster_->server_count();
  // Stops of the coordinator and jumps of its clock cost no member its place, so they do not count.
  if (event.fault == Fault::kPartition && event.a == all) coordinator_hit_ = true;
  if (event.fault == Fault::kSlowLink && event.a == all) coordinator_slow_ = true;
  // The workers send here at once the reports of half a minute, which fill a thin link for a while.
  const ClusterOptions& cluster = script_.cluster;
  bool thin = cluster.host_links[cluster.coordinator_host] < kThinLink;
  if (event.fault == Fault::kMove && thin) coordinator_slow_ = true;
  // A node that finds the coordinator with fewer members may be left behind, or lose its job.
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
                   event.fault == Fault::kAccuseServer || event.fault == Fault::kMove;
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
    uint64_t incarnation = cluster_->IncarnationOf(role, event.a, ProcessOf(event));
    uint32_t rank = role == Role::kServer ? event.a : processes().CarrierOf(event.a);
    Later(milliseconds(1), [this, role, index = rank + ProcessOf(event), incarnation] {
      cluster_->faults().TellExit(role, index, incarnation);
    });
  }
  if (event.lasts < kForEver) Later(event.lasts, [this, event] { Heal(event); });
}

void Play::InjectAtProcess(const FaultEvent& event) {
  Cluster& cluster = *cluster_;
  ClusterFaults& faults = cluster_->faults();
  switch (event.fault) {
    case Fault::kKillWorker: return faults.KillWorker(event.a, ProcessOf(event));
    case Fault::kKillServer: return faults.KillServer(event.a);
    case Fault::kKillCoordinator: return faults.KillCoordinator();
    case Fault::kRival: return faults.Rival(event.b);
    case Fault::kFreezeWorker: return faults.FreezeWorker(event.a, true, ProcessOf(event));
    case Fault::kFreezeServer: return faults.FreezeServer(event.a, true);
    case Fault::kFreezeCoordinator: return faults.FreezeCoordinator(true);
    case Fault::kAccuseWorker: return faults.Accuse(Role::kWorker, event.a);
    case Fault::kAccuseServer: return faults.Accuse(Role::kServer, event.a);
    case Fault::kMove: return faults.Measure(event.a);
    case Fault::kLeave:
      leaves_[event.a] = true;
      leaves_first_[event.a] = ProcessOf(event);
      return;
    case Fault::kJoin:
      if (script_.cluster.late_workers > 0 && !std::exchange(came_, true)) {
        cluster.Join(cluster.first_workers());
      }
      return;
    case Fault::kClock:
      return faults.StepClock(event.a, event.c == 0 ? event.lasts : -event.lasts, ProcessOf(event));
    case Fault::kAbort: aborts_ = true; return cluster.AbortOpen(event.a);
    default: return;
  }
}

void Play::InjectAtNetwork(const FaultEvent& event) {
  ClusterFaults& faults = cluster_->faults();
  switch (event.fault) {
    case Fault::kCutData: return faults.CutDataConnection(event.a, event.b);
    case Fault::kCutControl: return faults.CutControl(event.a, event.lasts, ProcessOf(event));
    case Fault::kCutOneWay: return faults.CutOneWay(event.a, event.b, event.c == 0, true);
    case Fault::kPartition: return faults.Partition({cluster_->HostOf(event.a)});
    case Fault::kJitter: return faults.SetJitter(event.a, event.b, event.lasts / 8);
    case Fault::kLag: return faults.LagControl(event.a, event.lasts / 4, ProcessOf(event));
    case Fault::kSlowLink: return faults.SlowLink(event.a, event.c == 0 ? 0.02 : 0.2);
    default: return;
  }
}

void Play::Heal(const FaultEvent& event) {
  ClusterFaults& faults = cluster_->faults();
  switch (event.fault) {
    case Fault::kKillWorker:
      if (ProcessOf(event) > 0) faults.BearSibling(event.a, ProcessOf(event));
      break;
    case Fault::kKillServer: faults.RestartServer(event.a); break;
    case Fault::kKillCoordinator: faults.RestartCoordinator(); break;
    case Fault::kRival: faults.EndRivals(); break;
    case Fault::kFreezeWorker: faults.FreezeWorker(event.a, false, ProcessOf(event)); break;
    case Fault::kFreezeServer: faults.FreezeServer(event.a, false); break;
    case Fault::kFreezeCoordinator: faults.FreezeCoordinator(false); break;
    case Fault::kCutOneWay: faults.CutOneWay(event.a, event.b, event.c == 0, false); break;
    case Fault::kPartition: faults.Partition({}); break;
    case Fault::kJitter: faults.SetJitter(event.a, event.b, Duration::zero()); break;
    case Fault::kLag: faults.LagControl(event.a, Duration::zero(), ProcessOf(event)); break;
    case Fault::kSlowLink: faults.SlowLink(event.a, 1); break;
    default: break;
  }
}

}  // namespace byteps::sim
