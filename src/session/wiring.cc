#include "src/session/wiring.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/proof.h"
#include "src/config/option_text.h"
#include "src/config/text.h"
#include "src/config/text_limits.h"
#include "src/device/cuda/cuda_devices.h"
#include "src/device/cuda/nvml.h"
#include "src/machine/member/member_lanes.h"
#include "src/machine/serverless/local_engine.h"
#include "src/runtime/coordinator/coordinator_process.h"
#include "src/runtime/server/returning_server.h"
#include "src/runtime/server/server_timeline.h"
#include "src/runtime/worker/device_paths.h"
#include "src/session/device/group_tools.h"
#include "src/session/network_plan.h"
#include "src/session/rdma_choice.h"
#include "src/session/signal_thread.h"
#include "src/session/tcp_options.h"
#include "src/session/trust.h"
#include "src/session/version.h"
#include "src/transport/address.h"
#include "src/transport/host_identity.h"
#include "src/transport/shared/shared_transport.h"
#include "src/transport/tcp/tcp_transport.h"

namespace byteps::session {
namespace {

// The limit of connecting to the shards, which follows the start and is quick.
constexpr Duration kConnectShardsLimit = seconds(30);

// A member that takes the coordinator for lost too early does no harm: it only connects anew.
constexpr int64_t kCoordinatorSilenceMs = 3000;

// The carrier of a machine carries until its other workers have left, so it waits longer than a
// worker that is a member by itself.
constexpr Duration kCarrierLeaveLimit = seconds(60);

// Derives the key from the secret, but not in the way of the proofs: knowing one does not give the
// other.
transport::TlsKey TlsKeyOf(const config::Options& options) {
  return {options.job_id,
          Proof(options.job_secret, "byteps tls", std::as_bytes(std::span(options.job_id)), {})};
}

std::shared_ptr<RdmaTeller> MakeTeller(const config::Options& options, Log& log) {
  return std::make_shared<RdmaTeller>(NeedsRdma(options), log);
}

// Nothing is encrypted over RDMA, so TLS excludes it. The teller is shared, because the transport's
// loops tell it outcome.
Result<std::unique_ptr<transport::Transport>> MakeTransport(
    const config::Options& options, const std::shared_ptr<RdmaTeller>& teller, Log& log) {
  const transport::TcpOptions tcp = TcpOptionsOf(options, log);
  if (options.tls) return transport::MakeSharedTransport(tcp, TlsKeyOf(options));
  return MakePlainTransport(options, tcp, teller, log);
}

runtime::JobIdentity IdentityOf(const config::Options& options, uint64_t incarnation) {
  return {options.job_id, options.job_secret, incarnation, ProofOf(options) == JobProof::kOneUser};
}

std::string NodeName() {
  char name[256] = "";
  if (::gethostname(name, sizeof(name) - 1) != 0) return "unknown host";
  return name;
}

runtime::ControlLinkOptions ControlOf(const config::Options& options, uint64_t incarnation) {
  runtime::ControlLinkOptions control;
  control.coordinator = config::RootAddress(options);
  control.role = options.role;
  control.identity = IdentityOf(options, incarnation);
  control.connect_limit = seconds(options.start_timeout_s);
  control.patience = seconds(options.coordinator_patience_s);
  control.alive_every = milliseconds(options.heartbeat_interval_ms);
  control.silence_max = milliseconds(std::max(kCoordinatorSilenceMs, options.heartbeat_timeout_ms));
  return control;
}

wire::Join JoinOf(const config::Options& options, uint64_t incarnation) {
  wire::Join join;
  join.role = options.role;
  join.incarnation = incarnation;
  join.host = transport::HostIdentity();
  join.node = NodeName();
  join.process = static_cast<uint32_t>(::getpid());
  join.link_mbit = DeclaredMbit(options);
  join.server_count = static_cast<uint32_t>(options.num_server);
  if (options.role == Role::kWorker) {
    join.piece_bytes_max = static_cast<uint32_t>(config::PieceBytesMax(options));
    join.machines_sum = config::MachinesSum(options);
    join.takes_objects = TakesObjects(options);
    join.same_bits = config::SameBits(options);
    join.sum_group = static_cast<uint32_t>(options.sum_group);
  }
  join.version = kVersion;
  return join;
}

// Checks the options that choose addresses before the job starts. Without such options the
// connection to the coordinator decides.
Result<std::vector<std::string>> AnnouncedHosts(const config::Options& options,
                                                const NetworkPlan& plan,
                                                const HostNetwork& network) {
  if (plan.named) return AnnouncedBy(plan, network.route);
  if (!options.node_host.empty()) {
    Result<std::string> host =
        transport::ResolveHost(options.node_host, config::RootAddress(options));
    if (host.ok()) return std::vector<std::string>{host.value()};
    return Status(StatusCode::kInvalidArgument,
                  "option node_host (DMLC_NODE_HOST): " + host.status().message());
  }
  if (options.interface.empty() && options.address_cidr.empty()) return std::vector<std::string>();
  Result<std::string> host = transport::ChooseAddress(
      {config::RootAddress(options), options.interface, options.address_cidr});
  if (!host.ok()) return host.status();
  return std::vector<std::string>{host.value()};
}

void Tell(const NetworkPlan& plan, Log& log) {
  log.Info("{}", plan.text);
  if (!plan.warning.empty()) log.Warning("{}", plan.warning);
}

Result<DeviceSight> LookAtDevicesOf(const config::Options& options) {
  Result<device::cuda::MachineGpus> gpus = device::cuda::LookAtMachine(options.nvml_library);
  if (!gpus.ok()) return gpus.status();
  if (gpus->gpus.empty()) return Status(StatusCode::kUnavailable, "NVML shows no GPU");
  const HostNetwork host = LookAround(options);
  Result<NetworkPlan> network = PlanNetwork(options, host);
  if (!network.ok()) return network.status();
  DeviceSight sight{host.machine, {}, std::move(gpus).value()};
  for (const NetworkLink& link : network->links) sight.cards.push_back({link.interface, link.mbit});
  return sight;
}

Status StoppedBy(int signal_number) {
  return {StatusCode::kShutdown,
          std::string("stopped by ") + (signal_number == SIGINT ? "SIGINT" : "SIGTERM")};
}

Status ServeAsCoordinator(const config::Options& options, Log& log) {
  if (Status sound = CheckProof(options, log); !sound.ok()) return sound;
  runtime::CoordinatorProcessOptions process;
  process.address = transport::FormatHostPort(transport::ListenHost(options.root_host),
                                              static_cast<uint16_t>(options.root_port));
  process.identity = IdentityOf(options, RandomIncarnation());
  // A launcher that starts everything also tells how many workers a machine has.
  const MachineLayout layout = config::LayoutOf(options);
  process.protocol.worker_machines = static_cast<uint32_t>(layout.workers());
  if (layout.largest() > 1) process.protocol.local_sizes = layout.sizes();
  process.protocol.server_count = static_cast<uint32_t>(options.num_server);
  process.protocol.version = kVersion;
  process.protocol.start_timeout = seconds(options.start_timeout_s);
  if (log.RewritesWaiting()) process.protocol.show_every = seconds(1);
  process.protocol.min_workers = static_cast<uint32_t>(options.min_workers);
  process.protocol.strict = options.strict;
  if (!options.measure_links) process.protocol.links_measurement = Duration::zero();
  process.protocol.silence_evict = milliseconds(options.eviction_timeout_ms);
  process.protocol.silence_end = milliseconds(options.heartbeat_timeout_ms);
  process.protocol.server_patience = seconds(options.server_patience_s);
  process.protocol.stall_after = seconds(options.stall_check_time_s);
  process.status = {config::StatusAddress(options), options.status_socket};
  process.exit_notices = static_cast<int>(options.exit_notices);
  process.host = transport::HostIdentity();
  auto transport = MakeTransport(options, MakeTeller(options, log), log);
  if (!transport.ok()) return transport.status();
  runtime::CoordinatorProcess coordinator(*transport.value(), process, log);
  SignalThread signals([&](int number) {
    coordinator.Stop(
        {StatusCode::kPeerLost, "the coordinator (scheduler) was " + StoppedBy(number).message()});
  });
  return coordinator.Run();
}

Duration CpuTime() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  auto time_of = [](const timeval& one) { return seconds(one.tv_sec) + microseconds(one.tv_usec); };
  return time_of(used.ru_utime) + time_of(used.ru_stime);
}

Status ServeAsServer(const config::Options& options, Log& log) {
  if (Status sound = CheckProof(options, log); !sound.ok()) return sound;
  const HostNetwork network = LookAround(options);
  Result<NetworkPlan> plan = PlanNetwork(options, network);
  if (!plan.ok()) return plan.status();
  Result<std::vector<std::string>> announced = AnnouncedHosts(options, plan.value(), network);
  if (!announced.ok()) return announced.status();
  Tell(plan.value(), log);
  uint64_t incarnation = RandomIncarnation();
  runtime::ServerProcessOptions process;
  process.control = ControlOf(options, incarnation);
  process.join = JoinOf(options, incarnation);
  process.join.rank = static_cast<int32_t>(options.server_index);
  process.join.shards = plan->threads;
  process.far_shards = plan->far_threads;
  process.port = static_cast<uint16_t>(options.port);
  process.announced_hosts = announced.value();
  process.on_shard_thread = BinderOf(plan.value());
  process.shared_links = options.shared_links;
  process.cpu_time = CpuTime;
  const std::shared_ptr<RdmaTeller> teller = MakeTeller(options, log);
  auto transport = MakeTransport(options, teller, log);
  if (!transport.ok()) return transport.status();
  runtime::TimelineLog entries;
  std::optional<runtime::ServerTimeline> timeline;
  if (config::HasTimelineFile(options)) {
    process.timeline = &timeline.emplace(options.timeline, entries, log);
  }
  runtime::ReturningServer server(*transport.value(), process, {}, log);
  SignalThread signals([&](int number) { server.Stop(StoppedBy(number)); });
  teller->SetOnFailure([&server](const Status& why) { server.Stop(why); });
  if (timeline.has_value()) timeline->Start();
  return server.Run();
}

static_assert(config::kLocalWorkersMax == local::kLocalRanksMax);

Result<runtime::StartedEngine> MakeLocalEngine(const config::Options& options,
                                               std::function<bool()> go_on, Log& log) {
  machine::LocalEngineOptions local;
  local.job = options.job_id;
  local.secret = options.job_secret;
  local.root = config::RootAddress(options);
  local.version = kVersion;
  local.rank = static_cast<uint32_t>(config::GlobalRank(options));
  local.size = static_cast<uint32_t>(options.local_size);
  local.start_limit = seconds(options.start_timeout_s);
  local.operation_limit = seconds(config::OperationTimeout(options));
  local.status = {config::StatusAddress(options), options.status_socket};
  local.stall_after = seconds(options.stall_check_time_s);
  local.alive_every = milliseconds(options.heartbeat_interval_ms);
  local.silence_max = milliseconds(options.heartbeat_timeout_ms);
  local.go_on = std::move(go_on);
  local.node = NodeName();
  local.same_bits = config::SameBits(options);
  local.sum_group = static_cast<uint32_t>(options.sum_group);
  local.groups = GroupToolsOf(options, [options] { return LookAtDevicesOf(options); });
  if (WantsGroups(options)) local.groups_wish = options.device_sums;
  return machine::StartLocalEngine(local, log);
}

static_assert(config::kLocalSizeMax <= wire::kSumGroupMax);
static_assert(config::kSharingWorkersMax == machine::kMemberRanksMax &&
              config::kSharedPieceBytesMax == machine::kMemberPieceBytesMax);

Result<runtime::StartedEngine> StartInMachine(std::unique_ptr<transport::Transport> transport,
                                              runtime::WorkerEngineOptions worker,
                                              const config::Options& options, Log& log) {
  machine::MachineOptions machine;
  machine.job = options.job_id;
  machine.secret = options.job_secret;
  machine.version = kVersion;
  // Jobs on the same machines need not have ids of their own, but they have different coordinators.
  machine.machine = std::to_string(options.worker_id) + " of " + config::RootAddress(options);
  machine.local_rank = static_cast<uint32_t>(options.local_rank);
  machine.local_size = static_cast<uint32_t>(options.local_size);
  machine.groups = GroupToolsOf(options, [options] { return LookAtDevicesOf(options); });
  if (machine.local_rank == machine::kCarrierRank) {
    worker.leave_limit = kCarrierLeaveLimit;
    log.Info("the {} workers of this machine are one member of the job", options.local_size);
  }
  return machine::StartMachineWorker(std::move(transport), std::move(worker), machine, log);
}

// Returns whether this worker has lanes. If workers share memory, one of them has the lanes of all.
bool HasLanes(const config::Options& options) {
  return !config::IsOneOfMachine(options) ||
         static_cast<uint32_t>(options.local_rank) == machine::kCarrierRank;
}

// Tells once for each machine why its workers are not one member. A user who has asked for one
// member gets a warning.
void TellWhyApart(const config::Options& options, const std::string& why, Log& log) {
  if (options.local_rank != 0) return;
  constexpr std::string_view kWhat = "each worker of this machine is a member of the job by itself";
  if (options.local_reduce == "1") {
    log.Warning("{}, although local_reduce=1 (BYTEPS_LOCAL_REDUCE): {}", kWhat, why);
  } else {
    log.Info("{}: {}", kWhat, why);
  }
}

// Lets the start wait for RDMA, and end if there is none.
void NeedRdma(const std::shared_ptr<RdmaTeller>& teller, runtime::WorkerEngineOptions& worker) {
  worker.shards.awaits_rdma = true;
  worker.shards.on_no_rdma = [teller](const std::string& why) { teller->Fail(why); };
  worker.go_on = [teller, go_on = std::move(worker.go_on)] {
    return teller->failure().ok() && (go_on == nullptr || go_on());
  };
}

Result<runtime::StartedEngine> StartMember(std::unique_ptr<transport::Transport> transport,
                                           runtime::WorkerEngineOptions worker,
                                           const config::Options& options, Log& log) {
  if (config::IsOneOfMachine(options)) {
    return StartInMachine(std::move(transport), std::move(worker), options, log);
  }
  if (auto why = config::WhyNotOneOfMachine(options); why.has_value()) {
    TellWhyApart(options, *why, log);
  }
  worker.protocol.paths = [rank = static_cast<uint32_t>(config::GlobalRank(options))](
                              const protocol::StageTools& tools) {
    return std::make_unique<runtime::DevicePaths>(tools, rank);
  };
  Result<runtime::StartedEngine> started =
      runtime::StartWorkerEngine(std::move(transport), worker, log);
  if (started.ok()) {
    started->prepare_device = [](device::DeviceLines& lines) { return lines.pieces.Prepare(); };
  }
  return started;
}

WaitingStyle WaitingStyleOf(const config::Options& options) {
  if (options.waiting == "none") return WaitingStyle::kNothing;
  bool in_place =
      options.waiting == "auto" ? isatty(STDERR_FILENO) == 1 : options.waiting == "line";
  return in_place ? WaitingStyle::kOneLine : WaitingStyle::kLines;
}

void Tell(const config::Options& options, Log& log) {
  for (const std::string& warning : options.warnings) log.Warning("{}", warning);
  for (const std::string& notice : options.notices) log.Info("{}", notice);
  log.Info("options: {}", config::DescribeNonDefaults(options));
}

}  // namespace

std::unique_ptr<Log> MakeLog(const config::Options& options) {
  return std::make_unique<Log>(config::RoleName(options.role), options.log_level,
                               options.log_hide_time, WaitingStyleOf(options));
}

Result<runtime::StartedEngine> MakeEngine(const config::Options& options,
                                          std::function<bool()> go_on,
                                          runtime::TimelineLog& timeline, Log& log) {
  if (options.role != Role::kWorker) {
    return Status(StatusCode::kInvalidArgument,
                  "this process is to be a " + std::string(config::RoleName(options.role)) +
                      " (DMLC_ROLE, or the option role), and only workers join a job: set the role "
                      "to worker, or start bps-server or bps-scheduler here");
  }
  Tell(options, log);
  if (config::SumsLocally(options)) return MakeLocalEngine(options, std::move(go_on), log);
  if (!config::IsDistributed(options)) {
    runtime::StartedEngine alone;
    alone.engine = runtime::MakeLoneEngine();
    return alone;
  }
  if (Status sound = CheckProof(options, log); !sound.ok()) return sound;
  Result<NetworkPlan> plan = PlanNetwork(options, LookAround(options));
  if (!plan.ok()) return plan.status();
  uint64_t incarnation = RandomIncarnation();
  runtime::WorkerEngineOptions worker;
  worker.control = ControlOf(options, incarnation);
  worker.join = JoinOf(options, incarnation);
  worker.join.rank = static_cast<int32_t>(config::GlobalRank(options));
  worker.join.worker_count = static_cast<uint32_t>(config::WorkerCount(options));
  worker.join.local_rank = static_cast<uint32_t>(options.local_rank);
  worker.join.local_size = static_cast<uint32_t>(options.local_size);
  worker.join.local_sizes = config::LayoutOf(options).sizes();
  if (options.shared_links) worker.shards.shared_host = worker.join.host;
  worker.protocol.credit.fixed_bytes = static_cast<uint64_t>(config::CreditBytes(options));
  worker.protocol.watch = [&timeline](uint32_t) { return timeline.NewPieceWatch(); };
  worker.protocol.lanes = plan->threads;
  if (HasLanes(options)) {
    Tell(plan.value(), log);
    worker.on_lane_thread = BinderOf(plan.value());
  }
  if (plan->named) {
    for (NetworkLink& link : plan->links) {
      worker.shards.interfaces.push_back(std::move(link.addresses));
    }
  }
  worker.operation_limit = seconds(config::OperationTimeout(options));
  // The coordinator gives up first and names the missing processes; this limit is for a silent
  // coordinator.
  worker.start_limit = 2 * seconds(options.start_timeout_s) + kConnectShardsLimit;
  worker.go_on = std::move(go_on);
  const std::shared_ptr<RdmaTeller> teller = MakeTeller(options, log);
  auto transport = MakeTransport(options, teller, log);
  if (!transport.ok()) return transport.status();
  if (NeedsRdma(options)) NeedRdma(teller, worker);
  Result<runtime::StartedEngine> started =
      StartMember(std::move(transport).value(), std::move(worker), options, log);
  if (!started.ok() && !teller->failure().ok()) return teller->failure();
  return started;
}

Result<std::string> DescribeDeviceSums(const config::Options& options) {
  const Result<DeviceSight> sight = LookAtDevicesOf(options);
  if (!sight.ok()) return sight.status();
  const plan::DeviceMachine machine =
      DeviceMachineOf(options, sight->host, sight->cards, sight->gpus);
  return plan::DescribeDeviceSums(ForeseeDeviceSums(options, machine));
}

StagedOperations::FindDevices DeviceFinderOf(const config::Options& options, Log* log) {
  using Found = Result<std::unique_ptr<device::Devices>>;
  if (options.device_sums == "host") {
    return [] {
      return Found(Status(StatusCode::kUnavailable,
                          "device_sums=host (BYTEPS_DEVICE_SUMS), so the library reaches no GPU"));
    };
  }
  // NVML may take long, so it is asked only where the line would be seen.
  const bool is_seen =
      options.log_level == "info" || options.log_level == "debug" || options.log_level == "trace";
  const bool tells = log != nullptr && options.local_rank == 0 && is_seen;
  return [options, tells, log]() -> Found {
    Found found = device::cuda::FindDevices(options.cuda_library);
    if (!found.ok() || !tells) return found;
    const Result<std::string> text = DescribeDeviceSums(options);
    log->Info("sums on GPUs: {}",
              text.ok() ? text.value() : "no forecast, because " + text.status().message());
    return found;
  };
}

Result<device::nccl::Library::Facts> LookForNccl(const config::Options& options) {
  return device::nccl::Library::Look(options.nccl_library);
}

plan::SumReport ForeseeSums(const config::Options& options) {
  const MachineLayout layout = config::LayoutOf(options);
  std::vector<plan::Summands> contributors;
  for (uint64_t machine = 0; machine < layout.machines(); ++machine) {
    config::Options there = options;
    there.worker_id = static_cast<int64_t>(machine);
    there.local_size = layout.SizeOf(machine);
    const bool sums = config::IsOneOfMachine(there);
    const uint64_t first = layout.FirstRank(machine);
    for (uint64_t rank = first; rank < first + layout.SizeOf(machine); ++rank) {
      if (rank == first || !sums) contributors.emplace_back();
      contributors.back().push_back(static_cast<uint32_t>(rank));
    }
  }
  return plan::DescribeSums(contributors, {.group = static_cast<uint32_t>(options.sum_group),
                                           .own_nodes = config::SameBits(options)});
}

Status Serve(const config::Options& options) {
  std::unique_ptr<Log> log = MakeLog(options);
  Tell(options, *log);
  switch (options.role) {
    case Role::kCoordinator: return ServeAsCoordinator(options, *log);
    case Role::kServer: return ServeAsServer(options, *log);
    case Role::kWorker: break;
  }
  return {StatusCode::kInvalidArgument,
          "a worker is no server: set DMLC_ROLE to server or scheduler, or the option role"};
}

}  // namespace byteps::session
