// The options of one process: what the environment and the caller's settings say.
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
  // Who this process is and where the job meets.
  Role role = Role::kWorker;
  std::string root_host;
  int64_t root_port = 0;
  int64_t num_worker = 1;
  int64_t num_server = 0;
  int64_t worker_id = 0;
  int64_t local_rank = 0;
  int64_t local_size = 1;
  std::string local_sizes;  // of all machines, where they differ; then local_size follows
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

  // How the data moves.
  int64_t partition_bytes = 32768;
  int64_t scheduling_credit = 0;
  int64_t credit_bytes = 0;
  int64_t server_shards = 0;  // 0: automatic
  int64_t lanes = 0;          // the same
  int64_t link_mbit = 0;
  bool numa = true;
  std::string local_reduce = "auto";
  std::string tcp_congestion = "auto";
  int64_t tcp_notsent_lowat = 0;

  // How long to wait.
  int64_t start_timeout_s = 120;
  int64_t heartbeat_interval_ms = 200;
  int64_t eviction_timeout_ms = 900;
  int64_t heartbeat_timeout_ms = 5000;
  int64_t link_timeout_ms = 900;
  int64_t coordinator_patience_s = 30;
  int64_t server_patience_s = 10;
  std::optional<int64_t> operation_timeout_s;  // not set: OperationTimeout

  // What it does when processes are lost.
  int64_t min_workers = 0;
  bool strict = false;
  bool measure_links = true;
  bool shared_links = true;
  int64_t exit_notices = -1;

  // What it says.
  std::string timeline;
  bool trace_on = false;
  int64_t trace_start_step = 10;
  int64_t trace_end_step = 20;
  std::string trace_dir = "./trace";
  int64_t stall_check_time_s = 60;
  int64_t status_port = 0;
  std::string status_host = "127.0.0.1";
  std::string log_level = "warning";
  bool log_hide_time = false;
  std::string waiting = "auto";
  bool telemetry_on = true;

  // What LoadOptions has to tell the user, one sentence each: warnings say that something will not
  // happen as asked (a mistyped variable, a clamped value, a missing feature); notices name
  // variables that are accepted and need no effect here.
  std::vector<std::string> warnings;
  std::vector<std::string> notices;
};

// Reads the options. `settings` are "option=value" texts; they win over the environment, and the
// last of equal ones wins. kInvalidArgument for unknown settings, values that cannot be read or
// are out of range, values that contradict each other, and missing ones; the message names the
// option, the value, what is allowed and the nearest known name. kRefused for a worker that another
// launcher has started as one of several, and that knows of no job.
Result<Options> LoadOptions(const Environment& environment, std::span<const std::string> settings);

// Whether this worker needs servers. With nothing set a process is rank 0 of 1 and needs none.
// REQUIRES: role is worker, here and down to GlobalRank.
bool IsDistributed(const Options& options);

// As many workers of a machine can share memory (session/wiring.cc compares with src/local/).
inline constexpr int64_t kLocalWorkersMax = 64;
// A job whose machines share memory has at most so many workers, and pieces of at most so many
// bytes (session/wiring.cc compares with src/machine/).
inline constexpr int64_t kSharingWorkersMax = 181;
inline constexpr int64_t kSharedPieceBytesMax = 256 << 10;

// Whether the workers of the job are on one machine, and sum in memory that they share.
bool SumsLocally(const Options& options);

// Whether the workers of each machine of a job with servers shall sum first. It follows from what
// all workers of the job know alike, and the coordinator compares it (wire::Join).
bool MachinesSum(const Options& options);

// Whether the workers of this worker's machine are one member of a job with servers: they share
// memory, and one of them exchanges their sum. It follows from what all workers of the machine know
// alike.
bool IsOneOfMachine(const Options& options);

// Why they are not, in a job with servers; nothing if they are, if the machine has one worker and
// nobody has asked for it, or if local_reduce=0.
std::optional<std::string> WhyNotOneOfMachine(const Options& options);

// The largest piece of a tensor: the same for all workers of a job.
int64_t PieceBytesMax(const Options& options);

// How the workers of the job are spread over its machines. For a server and the scheduler: as far
// as they were told.
MachineLayout LayoutOf(const Options& options);

// Worker processes in the whole job.
int64_t WorkerCount(const Options& options);

// This process' rank among them.
int64_t GlobalRank(const Options& options);

// How long an operation may take; 0: for ever.
int64_t OperationTimeout(const Options& options);

// The bytes that may be between push and answer; 0 leaves the choice to the caller.
int64_t CreditBytes(const Options& options);

// Whether `timeline` names a file; Horovod's word for "perhaps later" is none.
bool HasTimelineFile(const Options& options);

// The names in `interfaces`; none if it is not set.
std::vector<std::string> Interfaces(const Options& options);

// "host:port" where the job's state is shown; empty: nowhere.
std::string StatusAddress(const Options& options);

// "host:port" of the coordinator, "[host]:port" for an IPv6 address.
std::string RootAddress(const Options& options);

}  // namespace byteps::config
