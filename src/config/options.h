// The options of one process, from the environment and the caller's settings.
//
// A new option is a field here, which holds its default, and a row in option_rows.cc, which holds
// its names, range, readers and help. Parsing, --help, docs/environment.md and the start-up line
// are made from the rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/machine_layout.h"
#include "src/base/status.h"
#include "src/base/types.h"
#include "src/config/environment.h"

namespace byteps::config {

struct Options {
  // These options name this process and the place where the job meets.
  Role role = Role::kWorker;
  std::string root_host;
  int64_t root_port = 0;
  int64_t num_worker = 1;
  int64_t num_server = 0;
  int64_t worker_id = 0;
  int64_t local_rank = 0;
  int64_t local_size = 1;
  std::string local_sizes;  // of all machines, if they differ; then local_size follows
  std::optional<int64_t> global_rank;
  std::optional<int64_t> servers;
  bool force_distributed = false;
  std::string job_id = "0";
  std::string job_secret;
  bool require_secret = false;
  bool allow_objects = false;
  bool tls = false;

  // The address that this process announces.
  std::string node_host;
  std::string interface;
  std::string address_cidr;
  std::string interfaces;
  int64_t port = 0;
  int64_t server_index = -1;

  // These options shape the traffic.
  int64_t partition_bytes = 32768;
  int64_t scheduling_credit = 0;
  int64_t credit_bytes = 0;
  int64_t server_shards = 0;  // 0: automatic
  int64_t lanes = 0;          // the same
  int64_t link_mbit = 0;
  bool numa = true;
  std::string local_reduce = "auto";
  std::string same_bits = "0";
  int64_t sum_group = 1;
  std::string tcp_congestion = "auto";
  int64_t tcp_notsent_lowat = 0;
  std::string transport = "tcp";
  std::string rdma_devices;
  std::string rdma_library;
  int64_t rdma_buffer_mb = 256;
  int64_t rdma_traffic_class = 0;
  int64_t rdma_service_level = 0;
  std::string cuda_library;
  std::string nccl_library;
  std::string nvml_library;
  bool cuda_launches_block = false;  // CUDA's own variable: a launch lasts as long as its kernel
  std::string device_sums = "window";
  int64_t pcie_switch_size = 0;  // 0: as the machine says
  std::string reduce_roots;

  // These options limit waits.
  int64_t start_timeout_s = 120;
  int64_t heartbeat_interval_ms = 200;
  int64_t eviction_timeout_ms = 900;
  int64_t heartbeat_timeout_ms = 5000;
  int64_t link_timeout_ms = 900;
  int64_t coordinator_patience_s = 30;
  int64_t server_patience_s = 10;
  std::optional<int64_t> operation_timeout_s;  // not set: OperationTimeout

  // These options decide what the job does when it loses processes.
  int64_t min_workers = 0;
  bool strict = false;
  bool measure_links = true;
  bool shared_links = true;
  int64_t exit_notices = -1;

  // These options choose what the process logs and records.
  std::string timeline;
  bool trace_on = false;
  int64_t trace_start_step = 10;
  int64_t trace_end_step = 20;
  std::string trace_dir = "./trace";
  int64_t stall_check_time_s = 60;
  int64_t status_port = 0;
  std::string status_host = "127.0.0.1";
  bool status_socket = true;
  std::string log_level = "warning";
  bool log_hide_time = false;
  std::string waiting = "auto";
  bool telemetry_on = true;

  // LoadOptions tells the user these sentences. A warning says that something will not happen as
  // asked (a mistyped variable, a clamped value, a missing feature). A notice names a variable that
  // is accepted and needs no effect here.
  std::vector<std::string> warnings;
  std::vector<std::string> notices;
};

// Reads the options. `settings` are "option=value" texts; they win over the environment, and the
// last of equal ones wins. kInvalidArgument: a setting is unknown, a value cannot be read or is out
// of range, values contradict each other, or one is missing. The message names the option, the
// value, the allowed values and the nearest known name. kRefused: another launcher has started this
// worker as one of several, and the worker knows of no job.
Result<Options> LoadOptions(const Environment& environment, std::span<const std::string> settings);

// Returns whether this worker needs servers. If nothing is set, a process is rank 0 of 1 and needs
// none. REQUIRES: role is worker, here and down to GlobalRank.
bool IsDistributed(const Options& options);

// The most workers of a machine that can share memory (session/wiring.cc compares with src/local/).
inline constexpr int64_t kLocalWorkersMax = 64;
// The most workers, and the largest piece, of a job whose machines share memory (session/wiring.cc
// compares with src/machine/).
inline constexpr int64_t kSharingWorkersMax = 181;
// The most workers of the only machine of a job that do not sum first: the servers share memory
// with them anyway, and take fewer copies and wake-ups (docs/decisions/0051-few-workers.md).
inline constexpr int64_t kFewWorkers = 2;
inline constexpr int64_t kSharedPieceBytesMax = 256 << 10;

// Returns whether the workers of the job are on one machine, and sum in memory that they share.
bool SumsLocally(const Options& options);

// Returns whether the workers of each machine of a job with servers shall sum first. The answer
// follows from options that are equal on all workers of the job, and the coordinator compares it
// (wire::Join).
bool MachinesSum(const Options& options);

// Returns whether the workers of this worker's machine are one member of a job with servers: they
// share memory, and one of them exchanges their sum. The answer follows from options that are equal
// on all workers of the machine.
bool IsOneOfMachine(const Options& options);

// Returns why IsOneOfMachine is false, in a job with servers. Returns nothing if it is true, if the
// machine has one worker and no option asks for it, or if local_reduce=0.
std::optional<std::string> WhyNotOneOfMachine(const Options& options);

// Returns whether the job accepts only sums whose bits depend on ranks and inputs alone.
bool SameBits(const Options& options);

// Returns the size of the largest piece of a tensor, which is the same for all workers of a job.
int64_t PieceBytesMax(const Options& options);

// Returns how the workers of the job are spread over its machines. A server and the scheduler know
// only what their options say.
MachineLayout LayoutOf(const Options& options);

// Returns the number of worker processes in the whole job.
int64_t WorkerCount(const Options& options);

// Returns this process' rank among all workers.
int64_t GlobalRank(const Options& options);

// Returns the seconds that an operation may take; 0: for ever.
int64_t OperationTimeout(const Options& options);

// Returns the bytes that may be between push and answer; 0 leaves the choice to the caller.
int64_t CreditBytes(const Options& options);

// Returns whether `timeline` names a file. Horovod's word for "perhaps later" is no file.
bool HasTimelineFile(const Options& options);

// Returns the names in `interfaces`; none if it is not set.
std::vector<std::string> Interfaces(const Options& options);

// Returns the local ranks in `reduce_roots`; none if it is not set.
std::vector<uint32_t> ReduceRoots(const Options& options);

// Returns the "host:port" at which the process shows the job's state; empty: it shows the state
// nowhere.
std::string StatusAddress(const Options& options);

// Returns the "host:port" of the coordinator, "[host]:port" for an IPv6 address.
std::string RootAddress(const Options& options);

}  // namespace byteps::config
