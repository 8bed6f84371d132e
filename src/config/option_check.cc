#include "src/config/option_check.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/config/option_rows.h"
#include "src/config/text.h"

namespace byteps::config {
namespace {

// Returns whether somebody named a job for this process. Without the number of workers such a
// worker would train alone.
bool NamesAJob(const Options& options) {
  return !options.root_host.empty() || options.root_port != 0 || options.num_server != 0;
}

std::vector<std::string_view> RequiredOptions(const Options& options, const GivenOptions& given) {
  std::vector<std::string_view> required = {"num_worker", "num_server", "root_host", "root_port"};
  if (options.role != Role::kWorker) return required;
  if (IsDistributed(options)) {
    if (options.num_worker > 1) required.emplace_back("worker_id");
    return required;
  }
  if (SumsLocally(options)) return {"num_worker", "num_server"};
  if (NamesAJob(options) && !given.contains("num_worker")) return required;
  return {};
}

Status CheckComplete(const Options& options, const GivenOptions& given) {
  std::vector<std::string> missing;
  for (const std::string_view name : RequiredOptions(options, given)) {
    const bool empty_text = name == "root_host" && options.root_host.empty();
    const bool zero_port = name == "root_port" && options.root_port == 0;
    if (given.contains(name) && !empty_text && !zero_port) continue;
    missing.push_back(fmt::format("{} ({})", FindOption(name)->variable, name));
  }
  if (missing.empty()) return Status::Ok();
  return Status(StatusCode::kInvalidArgument,
                fmt::format("a {} of a job needs {}, not set: {}. Set them for every process of "
                            "the job, or start the job with `bps run`, which does",
                            RoleName(options.role), missing.size() == 1 ? "a value" : "values",
                            fmt::join(missing, ", ")));
}

Status Contradiction(std::string text) {
  return Status(StatusCode::kInvalidArgument, std::move(text));
}

Status CheckTrace(const Options& options) {
  if (!options.trace_on ||
      (options.trace_start_step >= 1 && options.trace_start_step < options.trace_end_step)) {
    return Status::Ok();
  }
  return Contradiction(
      fmt::format("trace_start_step={} and trace_end_step={} (BYTEPS_TRACE_START_STEP, "
                  "BYTEPS_TRACE_END_STEP): the first must be at least 1, and the second larger",
                  options.trace_start_step, options.trace_end_step));
}

// Checks the list of sizes in every role that has it.
Status CheckLayout(const Options& options) {
  if (options.local_sizes.empty()) return Status::Ok();
  const MachineLayout layout = LayoutOf(options);
  if (layout.machines() != static_cast<uint64_t>(options.num_worker)) {
    return Contradiction(
        fmt::format("local_sizes={} (BYTEPS_LOCAL_SIZES) has a number for each of {} machines, but "
                    "num_worker={} (DMLC_NUM_WORKER)",
                    options.local_sizes, layout.machines(), options.num_worker));
  }
  const auto machine = static_cast<uint64_t>(options.worker_id);
  if (options.role != Role::kWorker || machine >= layout.machines()) return Status::Ok();
  if (layout.SizeOf(machine) == options.local_size) return Status::Ok();
  return Contradiction(fmt::format(
      "local_size={} (BYTEPS_LOCAL_SIZE) must be {}, or not set: local_sizes={} "
      "(BYTEPS_LOCAL_SIZES) says so of worker_id={} (DMLC_WORKER_ID)",
      options.local_size, layout.SizeOf(machine), options.local_sizes, options.worker_id));
}

Status CheckWorker(const Options& options) {
  if (options.local_rank >= options.local_size) {
    return Contradiction(
        fmt::format("local_rank={} must be below local_size={} "
                    "(BYTEPS_LOCAL_RANK, BYTEPS_LOCAL_SIZE)",
                    options.local_rank, options.local_size));
  }
  if (options.worker_id >= options.num_worker) {
    return Contradiction(
        fmt::format("worker_id={} must be below num_worker={} "
                    "(DMLC_WORKER_ID, DMLC_NUM_WORKER)",
                    options.worker_id, options.num_worker));
  }
  if (GlobalRank(options) >= WorkerCount(options)) {
    return Contradiction(
        fmt::format("global_rank={} must be below {}, the number of workers of the job "
                    "(BYTEPS_GLOBAL_RANK)",
                    GlobalRank(options), WorkerCount(options)));
  }
  if (options.same_bits == "exact") {
    return Contradiction(
        "same_bits=exact (BYTEPS_SAME_BITS): this version has no exact sums yet; with same_bits=1 "
        "bits depend on ranks and inputs alone wherever the ranks of each machine are a block "
        "(bps docs rationale)");
  }
  if (options.device_sums == "nccl" && SameBits(options)) {
    return Contradiction(
        "device_sums=nccl (BYTEPS_DEVICE_SUMS) with same_bits (BYTEPS_SAME_BITS): NCCL adds in an "
        "order of its own, so bits depend on more than ranks and inputs; leave one of them out");
  }
  if (options.device_sums == "nccl" && options.role == Role::kWorker && !IsOneOfMachine(options) &&
      !SumsLocally(options)) {
    return Contradiction(
        "device_sums=nccl (BYTEPS_DEVICE_SUMS): GPUs sum among themselves only where the workers "
        "of a machine sum together: in jobs of one machine without servers, and with servers if "
        "they are one member (BYTEPS_LOCAL_REDUCE); leave it out, or set it to auto or window "
        "(bps docs gpu)");
  }
  return CheckTrace(options);
}

bool HasConnections(const Options& options) {
  return options.role != Role::kWorker || IsDistributed(options);
}

Status CheckTls(const Options& options) {
  if (!options.tls || !options.job_secret.empty() || !HasConnections(options)) return Status::Ok();
  return Contradiction(
      "tls=1 (BYTEPS_TLS) needs a secret, of which its key is made: set BYTEPS_JOB_SECRET to the "
      "same value for all processes of the job (openssl rand -hex 16 makes one)");
}

Status CheckTransport(const Options& options) {
  if (options.transport != "rdma" || !options.tls) return Status::Ok();
  return Contradiction(
      "transport=rdma (BYTEPS_TRANSPORT) and tls=1 (BYTEPS_TLS) exclude each other: nothing is "
      "encrypted over RDMA; leave one of them out, or set BYTEPS_TRANSPORT=auto, which is TCP "
      "under TLS");
}

Status CheckServers(const Options& options) {
  if (!HasConnections(options) || options.num_server > 0) return Status::Ok();
  return Contradiction(
      "num_server=0: a job of several workers needs at least one server "
      "(DMLC_NUM_SERVER); servers may share the workers' machines");
}

// The workers of a job without servers find each other by their options. Two jobs with the same
// options would become one.
Status CheckApart(const Options& options, const GivenOptions& given) {
  const bool has_root = !options.root_host.empty() && options.root_port != 0;
  const bool is_apart = has_root || given.contains("job_id") || !options.job_secret.empty();
  if (options.role != Role::kWorker || !SumsLocally(options) || is_apart) return Status::Ok();
  return Contradiction(
      "nothing tells this job from another one of this machine: set DMLC_PS_ROOT_URI and "
      "DMLC_PS_ROOT_PORT (root_host, root_port), or BYTEPS_JOB_ID (job_id), to the same value for "
      "all its workers, and to another one for each job, or start the job with `bps run`, which "
      "does");
}

Status CheckSilence(std::string_view name, int64_t limit_ms, int64_t interval_ms) {
  if (limit_ms >= 2 * interval_ms) return Status::Ok();
  return Contradiction(
      fmt::format("{}={} must be at least twice heartbeat_interval_ms={}, or one late sign of "
                  "life would count as a lost process",
                  name, limit_ms, interval_ms));
}

// Refuses two options that exclude each other, because the server would silently ignore one of
// them.
Status CheckInterfaces(const Options& options) {
  if (options.interfaces.empty() || options.role != Role::kServer) return Status::Ok();
  const bool named = !options.node_host.empty();
  if (!named && options.interface.empty()) return Status::Ok();
  return Contradiction(
      fmt::format("interfaces={} (BYTEPS_INTERFACES) and {} ({}) exclude each other: both say what "
                  "this server announces",
                  options.interfaces, named ? "node_host" : "interface",
                  named ? "DMLC_NODE_HOST" : "DMLC_INTERFACE"));
}

Status CheckHeartbeats(const Options& options) {
  const int64_t interval = options.heartbeat_interval_ms;
  const Status ends = CheckSilence("heartbeat_timeout_ms", options.heartbeat_timeout_ms, interval);
  if (!ends.ok()) return ends;
  return CheckSilence("eviction_timeout_ms", options.eviction_timeout_ms, interval);
}

}  // namespace

Status CheckOptions(const Options& options, const GivenOptions& given) {
  if (const Status status = CheckLayout(options); !status.ok()) return status;
  if (const Status status = CheckComplete(options, given); !status.ok()) return status;
  if (const Status status = CheckApart(options, given); !status.ok()) return status;
  if (const Status status = CheckServers(options); !status.ok()) return status;
  if (const Status status = CheckTls(options); !status.ok()) return status;
  if (const Status status = CheckTransport(options); !status.ok()) return status;
  if (const Status status = CheckHeartbeats(options); !status.ok()) return status;
  if (const Status status = CheckInterfaces(options); !status.ok()) return status;
  return options.role == Role::kWorker ? CheckWorker(options) : Status::Ok();
}

}  // namespace byteps::config
