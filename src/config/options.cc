#include "src/config/options.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/config/foreign_launch.h"
#include "src/config/nearest_name.h"
#include "src/config/option_check.h"
#include "src/config/option_rows.h"
#include "src/config/option_values.h"
#include "src/config/text.h"

namespace byteps::config {
namespace {

// A value that somebody gave for an option, before it is read.
struct Source {
  std::string_view text;
  std::string origin;
  int64_t factor = 1;
};

using Settings = std::map<std::string_view, std::string_view>;

std::string DidYouMean(std::string_view name, std::span<const std::string_view> known) {
  const std::string_view nearest = NearestName(name, known);
  return nearest.empty() ? std::string() : fmt::format("; did you mean {}?", nearest);
}

Status UnknownSetting(std::string_view name) {
  std::vector<std::string_view> known;
  for (const OptionRow& row : OptionRows()) {
    if (row.variable == name) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("setting {0}: settings use the option's name, {1}={2}", name,
                                row.name, "VALUE"));
    }
    known.push_back(row.name);
  }
  return Status(StatusCode::kInvalidArgument,
                fmt::format("there is no option '{}'{} ('bps docs environment' lists all)", name,
                            DidYouMean(name, known)));
}

Result<Settings> ReadSettings(std::span<const std::string> texts) {
  Settings settings;
  for (const std::string_view text : texts) {
    const size_t equals = text.find('=');
    const std::string_view name = Trim(text.substr(0, equals));
    if (FindOption(name) == nullptr) return UnknownSetting(name);
    if (equals == std::string_view::npos) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("setting {0} has no value; write {0}=VALUE", name));
    }
    settings[name] = text.substr(equals + 1);
  }
  return settings;
}

std::optional<Source> FromAlias(const OptionRow& row, const Environment& environment) {
  if (row.alias.empty()) return std::nullopt;
  const std::string_view text = Trim(environment.Get(row.alias));
  // In the unit of the alias, 0 means "off" or "default", and no option here has such a value.
  if (text.empty() || (row.alias_factor != 1 && text == "0")) return std::nullopt;
  return Source{text, std::string(row.alias), row.alias_factor};
}

// Returns the text that decides the option: the setting, otherwise the variable, otherwise its
// alias.
std::optional<Source> Decide(const OptionRow& row, const Environment& environment,
                             const Settings& settings) {
  if (const auto setting = settings.find(row.name); setting != settings.end()) {
    return Source{setting->second, fmt::format("setting {}", row.name)};
  }
  const std::string_view text = Trim(environment.Get(row.variable));
  if (!text.empty()) return Source{text, std::string(row.variable)};
  return FromAlias(row, environment);
}

std::vector<std::string_view> KnownVariables() {
  std::vector<std::string_view> known;
  for (const OptionRow& row : OptionRows()) {
    known.push_back(row.variable);
    if (!row.alias.empty()) known.push_back(row.alias);
  }
  for (const OtherVariable& other : OtherVariables()) known.push_back(other.variable);
  return known;
}

void WarnAboutUnknownVariables(const Environment& environment, Options& options) {
  const std::vector<std::string_view> known = KnownVariables();
  for (const auto& [name, value] : environment.variables()) {
    const bool ours = name.starts_with("BYTEPS_");
    // Other programs use DMLC_, too, so only a near miss is worth a warning.
    if (!ours && !name.starts_with("DMLC_")) continue;
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string hint = DidYouMean(name, known);
    if (!ours && hint.empty()) continue;
    options.warnings.push_back(
        fmt::format("the variable {} is unknown and has no effect{}", name, hint));
  }
}

bool IsNeutral(const OtherVariable& other, std::string_view value) {
  for (const std::string_view neutral : SplitList(other.neutral)) {
    if (LowerCase(value) == neutral) return true;
  }
  return value.empty();
}

void TellAboutOtherVariables(const Environment& environment, Options& options) {
  for (const OtherVariable& other : OtherVariables()) {
    const std::string_view value = Trim(environment.Get(other.variable));
    const bool is_read = other.effect == Effect::kLauncher || other.effect == Effect::kOption;
    if (is_read || IsNeutral(other, value)) continue;
    std::vector<std::string>& list =
        other.effect == Effect::kMissing ? options.warnings : options.notices;
    list.push_back(
        fmt::format("the variable {}={} has no effect: {}", other.variable, value, other.why));
  }
}

Status UnknownTransport(std::string_view value) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("DMLC_ENABLE_RDMA={}: there are TCP (0, zmq) and verbs for InfiniBand "
                            "and RoCE (1, ibverbs); libfabric is not there. Leave it out, or set "
                            "BYTEPS_TRANSPORT to tcp, auto or rdma",
                            value));
}

// Takes the transport from the variables of the original.
Status TakeOldTransport(const Environment& environment, const GivenOptions& given,
                        Options& options) {
  if (given.contains("transport")) return Status::Ok();
  const std::string rdma = LowerCase(Trim(environment.Get("DMLC_ENABLE_RDMA")));
  const std::string ucx = LowerCase(Trim(environment.Get("DMLC_ENABLE_UCX")));
  constexpr std::string_view kNoUcxHere =
      "there is no UCX here: connections for data go over RDMA where a device serves them, else "
      "over TCP (BYTEPS_TRANSPORT=auto)";
  if (rdma == "1" || rdma == "ibverbs") {
    options.transport = "rdma";
  } else if (rdma == "ucx" || (ucx == "1" && rdma.empty())) {
    options.transport = "auto";
    options.notices.emplace_back(kNoUcxHere);
  } else if (!rdma.empty() && rdma != "0" && rdma != "zmq" && rdma != "multivan") {
    return UnknownTransport(rdma);
  }
  return Status::Ok();
}

// Sets the worker's local size from the list. CheckOptions later refuses a value that contradicts
// the list.
void DeriveLocalSize(const GivenOptions& given, Options& options) {
  if (options.local_sizes.empty() || given.contains("local_size")) return;
  const MachineLayout layout = LayoutOf(options);
  const auto machine = static_cast<uint64_t>(options.worker_id);
  if (machine < layout.machines()) options.local_size = layout.SizeOf(machine);
}

// Derives the timeouts from the interval, because many jobs set only the interval.
void DeriveHeartbeatTimeouts(const GivenOptions& given, Options& options) {
  if (!given.contains("heartbeat_timeout_ms")) {
    options.heartbeat_timeout_ms =
        std::max(options.heartbeat_timeout_ms, 5 * options.heartbeat_interval_ms);
  }
  if (!given.contains("eviction_timeout_ms")) {
    options.eviction_timeout_ms =
        std::max(options.eviction_timeout_ms, 4 * options.heartbeat_interval_ms);
  }
}

}  // namespace

Result<Options> LoadOptions(const Environment& environment, std::span<const std::string> texts) {
  const Result<Settings> settings = ReadSettings(texts);
  if (!settings.ok()) return settings.status();

  Options options;
  GivenOptions given;
  for (const OptionRow& row : OptionRows()) {
    const std::optional<Source> source = Decide(row, environment, settings.value());
    if (!source) continue;
    given.insert(row.name);
    const Status set = SetOption(row, source->text, source->origin, source->factor, options);
    if (!set.ok()) return set;
  }
  if (const Status old = TakeOldTransport(environment, given, options); !old.ok()) return old;
  const std::string_view blocking = Trim(environment.Get("CUDA_LAUNCH_BLOCKING"));
  options.cuda_launches_block = !blocking.empty() && blocking != "0";
  DeriveLocalSize(given, options);
  DeriveHeartbeatTimeouts(given, options);
  WarnAboutUnknownVariables(environment, options);
  TellAboutOtherVariables(environment, options);
  if (const Status sound = CheckOptions(options, given); !sound.ok()) return sound;
  if (options.role == Role::kWorker && !IsDistributed(options) && !given.contains("num_worker")) {
    const std::optional<std::string> why = WhyNotAlone(environment);
    if (why.has_value()) return Status(StatusCode::kRefused, *why);
  }
  return options;
}

namespace {

// REQUIRES: the machine belongs to the job.
int64_t RankInOrder(const Options& options) {
  const uint64_t first = LayoutOf(options).FirstRank(static_cast<uint64_t>(options.worker_id));
  return static_cast<int64_t>(first) + options.local_rank;
}

}  // namespace

bool IsDistributed(const Options& options) {
  return options.force_distributed || (WorkerCount(options) > 1 && !SumsLocally(options));
}

bool SumsLocally(const Options& options) {
  return options.num_worker == 1 && options.num_server == 0 && !options.force_distributed &&
         options.local_size > 1 && options.local_size <= kLocalWorkersMax &&
         options.local_reduce != "0";
}

namespace {

bool CanSum(uint32_t size) { return size > 1 && size <= kLocalWorkersMax; }

bool SomeMachineCanSum(const MachineLayout& layout) {
  return std::ranges::any_of(layout.sizes(), CanSum);
}

std::string WhyCannotSum(int64_t size) {
  if (size == 1) return "this machine has one worker";
  return fmt::format("this machine has {} workers, and at most {} can share memory", size,
                     kLocalWorkersMax);
}

// Returns whether the job goes on when it loses a worker. If it does not, the loss of a machine may
// end it, too.
bool MayLoseWorkers(const Options& options) {
  return options.min_workers > 0 && options.min_workers < WorkerCount(options);
}

// Returns whether all processes of the job are on one machine, because no other machine reaches the
// coordinator.
bool IsAllHere(const Options& options) {
  const std::string& root = options.root_host;
  const bool is_loopback = root == "localhost" || root == "::1" || root.starts_with("127.");
  return is_loopback && LayoutOf(options).machines() == 1;
}

// Decides by options that are equal on all workers of the job.
std::optional<std::string> WhyMachinesDoNotSum(const Options& options) {
  if (!SomeMachineCanSum(LayoutOf(options))) return WhyCannotSum(options.local_size);
  if (WorkerCount(options) > kSharingWorkersMax) {
    return fmt::format("the job has {} workers, and machines share memory in jobs of at most {}",
                       WorkerCount(options), kSharingWorkersMax);
  }
  if (MayLoseWorkers(options) && options.local_reduce == "auto") {
    return fmt::format(
        "min_workers={} (BYTEPS_MIN_WORKERS) lets the job go on without single workers; with "
        "local_reduce=1 (BYTEPS_LOCAL_REDUCE) the job would lose all workers of a machine together",
        options.min_workers);
  }
  if (options.local_reduce == "auto" && options.local_size <= kFewWorkers && IsAllHere(options)) {
    return fmt::format(
        "the servers are on this machine, too, and {} workers are faster without a sum of their "
        "own before; local_reduce=1 (BYTEPS_LOCAL_REDUCE) makes one member of them",
        options.local_size);
  }
  return std::nullopt;
}

// Decides by options that are equal on all workers of a machine.
std::optional<std::string> WhyThisMachineDoesNot(const Options& options) {
  if (!CanSum(static_cast<uint32_t>(options.local_size))) return WhyCannotSum(options.local_size);
  if (MayLoseWorkers(options) && options.min_workers > WorkerCount(options) - options.local_size) {
    return fmt::format(
        "min_workers={} (BYTEPS_MIN_WORKERS) lets the job go on without single workers, but not "
        "without the {} of a machine",
        options.min_workers, options.local_size);
  }
  return std::nullopt;
}

std::optional<std::string> WhyApart(const Options& options) {
  std::optional<std::string> why = WhyMachinesDoNotSum(options);
  return why.has_value() ? why : WhyThisMachineDoesNot(options);
}

}  // namespace

bool MachinesSum(const Options& options) {
  if (options.local_reduce == "0" || !IsDistributed(options)) return false;
  return options.local_reduce == "1" || !WhyMachinesDoNotSum(options).has_value();
}

bool IsOneOfMachine(const Options& options) {
  return MachinesSum(options) && !WhyApart(options).has_value();
}

std::optional<std::string> WhyNotOneOfMachine(const Options& options) {
  if (options.local_reduce == "0" || !IsDistributed(options)) return std::nullopt;
  const bool others_may = options.local_reduce == "auto" || SomeMachineCanSum(LayoutOf(options));
  if (options.local_size == 1 && others_may) return std::nullopt;
  return WhyApart(options);
}

bool SameBits(const Options& options) { return options.same_bits == "1"; }

int64_t PieceBytesMax(const Options& options) {
  if (!MachinesSum(options)) return options.partition_bytes;
  return std::min(options.partition_bytes, kSharedPieceBytesMax);
}

std::vector<std::string> Interfaces(const Options& options) {
  std::vector<std::string> names;
  for (const std::string_view name : SplitList(options.interfaces)) names.emplace_back(name);
  return names;
}

// Every number is one, because the row of the option has checked the text.
std::vector<uint32_t> ReduceRoots(const Options& options) {
  std::vector<uint32_t> ranks;
  for (const std::string_view rank : SplitList(options.reduce_roots)) {
    std::from_chars(rank.data(), rank.data() + rank.size(), ranks.emplace_back(0));
  }
  return ranks;
}

MachineLayout LayoutOf(const Options& options) {
  if (options.local_sizes.empty()) {
    return MachineLayout::Equal(static_cast<uint32_t>(options.num_worker),
                                static_cast<uint32_t>(options.local_size));
  }
  std::vector<uint32_t> sizes;
  for (const std::string_view text : SplitList(options.local_sizes)) {
    std::from_chars(text.data(), text.data() + text.size(), sizes.emplace_back(1));
  }
  return MachineLayout(std::move(sizes));
}

int64_t WorkerCount(const Options& options) {
  return static_cast<int64_t>(LayoutOf(options).workers());
}

int64_t GlobalRank(const Options& options) {
  return options.global_rank.value_or(RankInOrder(options));
}

// The default is the limit of torch.distributed.
int64_t OperationTimeout(const Options& options) {
  return options.operation_timeout_s.value_or(1800);
}

int64_t CreditBytes(const Options& options) {
  if (options.credit_bytes != 0) return options.credit_bytes;
  return options.scheduling_credit * options.partition_bytes;
}

namespace {

std::string HostAndPort(const std::string& host, int64_t port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
}

}  // namespace

std::string RootAddress(const Options& options) {
  return HostAndPort(options.root_host, options.root_port);
}

bool HasTimelineFile(const Options& options) {
  return !options.timeline.empty() && options.timeline != "DYNAMIC";
}

std::string StatusAddress(const Options& options) {
  if (options.status_port == 0) return "";
  return HostAndPort(options.status_host, options.status_port);
}

}  // namespace byteps::config
