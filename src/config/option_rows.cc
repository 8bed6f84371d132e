#include "src/config/option_rows.h"

#include "src/config/text_limits.h"

namespace byteps::config {
namespace {

constexpr int64_t kDay = 86400;
constexpr int64_t kStepsMax = 1'000'000'000;

constexpr OptionRow kRows[] = {
    {.name = "role",
     .variable = "DMLC_ROLE",
     .field = &Options::role,
     .choices = "worker, server, scheduler",
     .help = "What this process is. The scheduler is the job's coordinator."},
    {.name = "root_host",
     .variable = "DMLC_PS_ROOT_URI",
     .field = &Options::root_host,
     .text_limit = kHostLimit,
     .text_allowed = IsHostOrEmpty,
     .help =
         "Host name or address of the scheduler. In a job without servers it only tells the job "
         "from others of this machine, with the port."},
    {.name = "root_port",
     .variable = "DMLC_PS_ROOT_PORT",
     .field = &Options::root_port,
     .maximum = 65535,
     .help = "Port of the scheduler; 0: not set."},
    {.name = "num_worker",
     .variable = "DMLC_NUM_WORKER",
     .field = &Options::num_worker,
     .minimum = 1,
     .maximum = kMachinesMax,
     .help = "Number of worker machines in the job."},
    {.name = "num_server",
     .variable = "DMLC_NUM_SERVER",
     .field = &Options::num_server,
     .maximum = kMachinesMax,
     .help = "Number of server processes in the job."},
    {.name = "worker_id",
     .variable = "DMLC_WORKER_ID",
     .field = &Options::worker_id,
     .readers = kByWorker,
     .maximum = kMachinesMax - 1,
     .help = "Which worker machine this is; below num_worker."},
    {.name = "local_rank",
     .variable = "BYTEPS_LOCAL_RANK",
     .field = &Options::local_rank,
     .readers = kByWorker,
     .maximum = kLocalSizeMax - 1,
     .help = "Which process of its machine this is; below local_size."},
    {.name = "local_size",
     .variable = "BYTEPS_LOCAL_SIZE",
     .field = &Options::local_size,
     .readers = kByWorker,
     .minimum = 1,
     .maximum = kLocalSizeMax,
     .help = "Worker processes on each machine."},
    {.name = "local_sizes",
     .variable = "BYTEPS_LOCAL_SIZES",
     .field = &Options::local_sizes,
     .text_limit = "numbers from 1 to 1024, separated by commas, one for each machine",
     .text_allowed = IsLocalSizesOrEmpty,
     .help = "Worker processes on each machine, in the order of worker_id, where machines have "
             "different numbers: 2,1. The same on all workers; a scheduler that has it, too, "
             "compares it. Each worker finds its local_size in it. Not set: local_size on each "
             "machine."},
    {.name = "global_rank",
     .variable = "BYTEPS_GLOBAL_RANK",
     .field = &Options::global_rank,
     .readers = kByWorker,
     .maximum = kMachinesMax * kLocalSizeMax - 1,
     .help = "This worker's rank. Not set: the first machine has the first ranks, and so on "
             "(worker_id * local_size + local_rank, if machines are equal). The ranks of a machine "
             "need not follow one another, but go up with their local_rank."},
    {.name = "servers",
     .variable = "BYTEPS_SERVERS",
     .field = &Options::servers,
     .readers = kByWorker,
     .maximum = kMachinesMax,
     .help = "Servers that the Python package starts for a job that torchrun, mpirun, srun, Ray or "
             "Kubeflow has started; the machines get them in turn. Not set: one on each machine, "
             "and none on a single one. The same on all workers."},
    {.name = "force_distributed",
     .variable = "BYTEPS_FORCE_DISTRIBUTED",
     .field = &Options::force_distributed,
     .readers = kByWorker,
     .help = "Use servers although there is only one worker process."},
    {.name = "job_id",
     .variable = "BYTEPS_JOB_ID",
     .field = &Options::job_id,
     .text_limit = kNameLimit,
     .text_allowed = IsPlainName,
     .help = "Name of the job, the same for all its processes. Processes of different jobs refuse "
             "each other."},
    {.name = "job_secret",
     .variable = "BYTEPS_JOB_SECRET",
     .field = &Options::job_secret,
     .secret = true,
     .help = "Secret of the job, the same for all its processes. The job refuses a process that "
             "does not have it. Never printed and not a command line flag, because others can read "
             "command lines."},
    {.name = "require_secret",
     .variable = "BYTEPS_REQUIRE_SECRET",
     .field = &Options::require_secret,
     .help =
         "Refuse to start if strangers could join: without a secret, unless the scheduler is on "
         "a loopback address, where the job takes only processes of one user. Without this the "
         "scheduler warns."},
    {.name = "allow_objects",
     .variable = "BYTEPS_ALLOW_OBJECTS",
     .field = &Options::allow_objects,
     .readers = kByWorker,
     .help = "Let broadcast_object, allgather_object and what uses them work although strangers "
             "could join the job (require_secret). Then a stranger can run code on every rank. The "
             "same on all workers."},
    {.name = "tls",
     .variable = "BYTEPS_TLS",
     .field = &Options::tls,
     .help = "Put all connections of the job under TLS 1.3, with a key that is made of job_secret. "
             "The same for all its processes."},
    {.name = "node_host",
     .variable = "DMLC_NODE_HOST",
     .field = &Options::node_host,
     .readers = kByWorker | kByServer,
     .text_limit = kHostLimit,
     .text_allowed = IsHostOrEmpty,
     .help = "Address or host name that this server announces. It may belong to a host that "
             "forwards the port. If not set, the server announces its address on the route to the "
             "scheduler; if the scheduler's name stands for a loopback address, its address on "
             "the way out of the machine. Of the workers only rank 0 reads the variable, for the "
             "store of torch.distributed."},
    {.name = "interface",
     .variable = "DMLC_INTERFACE",
     .field = &Options::interface,
     .readers = kByServer,
     .text_limit = kNameLimit,
     .text_allowed = IsPlainNameOrEmpty,
     .help = "Network interface whose address this server announces; node_host wins."},
    {.name = "address_cidr",
     .variable = "BYTEPS_ADDRESS_CIDR",
     .field = &Options::address_cidr,
     .readers = kByServer,
     .text_limit = "an address and a prefix length, such as 10.0.0.0/8 or fd00::/8",
     .text_allowed = IsCidrOrEmpty,
     .help = "The server announces an address of this network. node_host has priority. If "
             "interface is set, too, the address must satisfy both."},
    {.name = "interfaces",
     .variable = "BYTEPS_INTERFACES",
     .field = &Options::interfaces,
     .readers = kByWorker | kByServer,
     .text_limit = "names of network interfaces, separated by commas, each once, at most 8",
     .text_allowed = IsInterfacesOrEmpty,
     .help = "Network interfaces that carry tensors, such as eth0,eth1. A worker gives each of "
             "them lanes of its own, and a server announces an address of each, in the network "
             "address_cidr if that is set. The job uses their links together. Not set: one "
             "interface, the one on the route."},
    {.name = "port",
     .variable = "DMLC_PORT",
     .field = &Options::port,
     .readers = kByServer,
     .maximum = 65535,
     .help = "Port that this server listens on; 0: any free one."},
    {.name = "server_index",
     .variable = "DMLC_RANK",
     .field = &Options::server_index,
     .readers = kByServer,
     .minimum = -1,
     .maximum = kMachinesMax - 1,
     .help = "Which server this is, below num_server; -1: any that is missing. A server that is "
             "started again gives the number of the one that was lost."},
    {.name = "partition_bytes",
     .variable = "BYTEPS_PARTITION_BYTES",
     .field = &Options::partition_bytes,
     .readers = kByWorker,
     .minimum = 4096,
     .maximum = 8 << 20,
     .multiple = 64,
     .strictness = Strictness::kNearest,
     .help = "Largest piece of a tensor, rounded up to a multiple of 64. The same on all workers."},
    {.name = "scheduling_credit",
     .variable = "BYTEPS_SCHEDULING_CREDIT",
     .field = &Options::scheduling_credit,
     .readers = kByWorker,
     .maximum = 1 << 20,
     .help = "Pieces that may be between push and answer in each lane; 0: automatic. credit_bytes "
             "wins."},
    {.name = "credit_bytes",
     .variable = "BYTEPS_CREDIT_BYTES",
     .field = &Options::credit_bytes,
     .readers = kByWorker,
     .maximum = int64_t{1} << 40,
     .help = "Bytes that may be between push and answer in each lane; 0: automatic."},
    {.name = "server_shards",
     .variable = "BYTEPS_SERVER_SHARDS",
     .field = &Options::server_shards,
     .readers = kByServer,
     .maximum = 64,
     .zero = "auto",
     .alias = "BYTEPS_SERVER_ENGINE_THREAD",
     .help = "Shards of this server, one thread each. auto: one for every 10 Gbit/s of each of its "
             "links, at most 8, and at most half of its cores. A server that takes the place of a "
             "lost one must have as many as that had."},
    {.name = "lanes",
     .variable = "BYTEPS_LANES",
     .field = &Options::lanes,
     .readers = kByWorker,
     .maximum = 16,
     .zero = "auto",
     .help = "Threads of this worker for its network, each with the connections to some of the "
             "shards; more than there are shards have nothing to do. Workers may have different "
             "numbers. auto: one for every 10 Gbit/s of each of its links, at most 8, and at most "
             "a quarter of its cores. The log says at the level info how many, and why."},
    {.name = "link_mbit",
     .variable = "BYTEPS_LINK_MBIT",
     .field = &Options::link_mbit,
     .readers = kByWorker | kByServer,
     .maximum = 10'000'000,
     .help = "Speed of this machine's link in Mbit/s, with interfaces of each of its links; 0: "
             "unknown. Placement gives each machine its share. Unknown ones count as equal until "
             "they are measured."},
    {.name = "numa",
     .variable = "BYTEPS_NUMA_ON",
     .field = &Options::numa,
     .readers = kByWorker | kByServer,
     .help = "On a machine with several NUMA nodes: run lanes and shards on the cores that are "
             "near to their network interface. Where the system does not tell or does not allow "
             "it, they run anywhere. The launcher binds workers, too (--numa)."},
    {.name = "local_reduce",
     .variable = "BYTEPS_LOCAL_REDUCE",
     .field = &Options::local_reduce,
     .readers = kByWorker,
     .choices = "auto, 0, 1",
     .help =
         "Whether the workers of one machine exchange tensors in memory that they share. In a "
         "job with servers they sum first, and one of them exchanges the sum. auto: they do, "
         "except on a machine with more than 64 workers, in a job with servers and more than 181 "
         "workers, in a job that may go on without single workers (min_workers), and if 2 workers "
         "and their servers are alone on one machine. 0: never, so the job needs servers. 1: also "
         "if min_workers lets the job go on without a whole machine. The same on all workers. If "
         "they do not, the log says why."},
    {.name = "same_bits",
     .variable = "BYTEPS_SAME_BITS",
     .field = &Options::same_bits,
     .readers = kByWorker,
     .choices = "0, 1, exact",
     .help =
         "1: the bits of every sum depend on ranks and inputs alone, also those of float16 and "
         "bfloat16, which then round after every addition. Where the machines cannot give that, "
         "the job does not start, or its operations end in an error. 0: where bits depend on which "
         "ranks share a machine, the job says so. exact: not there yet, and refused. The same on "
         "all workers."},
    {.name = "sum_group",
     .variable = "BYTEPS_SUM_GROUP",
     .field = &Options::sum_group,
     .readers = kByWorker,
     .minimum = 1,
     .maximum = kLocalSizeMax,
     .help = "Ranks that a sum takes together before it goes on, first 0 to sum_group - 1, and so "
             "on. On machines of 3, 6 or 12 workers 3 keeps the bits of sums the same on every "
             "such layout. The same on all workers."},
    {.name = "tcp_congestion",
     .variable = "BYTEPS_TCP_CONGESTION",
     .field = &Options::tcp_congestion,
     .text_limit = kNameLimit,
     .text_allowed = IsPlainName,
     .help =
         "TCP congestion control, such as cubic or bbr; system: the system's. auto: bbr where a "
         "packet and its acknowledgement take 5 ms or more and the system allows bbr, else "
         "the system's. The log says at the level info what a long path got."},
    {.name = "tcp_notsent_lowat",
     .variable = "BYTEPS_TCP_NOTSENT_LOWAT",
     .field = &Options::tcp_notsent_lowat,
     .maximum = 1 << 30,
     .help = "Bytes that may wait unsent in a socket (TCP_NOTSENT_LOWAT); 0: the system's choice."},
    {.name = "transport",
     .variable = "BYTEPS_TRANSPORT",
     .field = &Options::transport,
     .choices = "tcp, auto, rdma",
     .help = "Way of tensors between hosts. auto: RDMA where a card serves the connection, else "
             "TCP. rdma: the job does not start without it."},
    {.name = "rdma_devices",
     .variable = "BYTEPS_RDMA_DEVICES",
     .field = &Options::rdma_devices,
     .help = "RDMA devices that may serve, such as mlx5_0,mlx5_1:1; empty: all cards."},
    {.name = "rdma_library",
     .variable = "BYTEPS_RDMA_LIBRARY",
     .field = &Options::rdma_library,
     .help = "File of libibverbs; empty: the libibverbs.so.1 that the system finds."},
    {.name = "rdma_buffer_mb",
     .variable = "BYTEPS_RDMA_BUFFER_MB",
     .field = &Options::rdma_buffer_mb,
     .minimum = 4,
     .maximum = 1 << 20,
     .help = "Most MiB of memory that RDMA devices reach; connections beyond it are TCP."},
    {.name = "rdma_traffic_class",
     .variable = "BYTEPS_RDMA_TRAFFIC_CLASS",
     .field = &Options::rdma_traffic_class,
     .maximum = 255,
     .help = "Traffic class of packets over RoCE, which switches sort by."},
    {.name = "rdma_service_level",
     .variable = "BYTEPS_RDMA_SERVICE_LEVEL",
     .field = &Options::rdma_service_level,
     .maximum = 15,
     .help = "Service level of packets over InfiniBand."},
    {.name = "cuda_library",
     .variable = "BYTEPS_CUDA_LIBRARY",
     .field = &Options::cuda_library,
     .readers = kByWorker,
     .help = "File of the CUDA driver's library, by which tensors in the memory of a GPU are "
             "reached; empty: the libcuda.so.1 that the system finds."},
    {.name = "start_timeout_s",
     .variable = "BYTEPS_START_TIMEOUT",
     .field = &Options::start_timeout_s,
     .minimum = 1,
     .maximum = kDay,
     .help = "Seconds to wait until all processes of the job are there."},
    {.name = "heartbeat_interval_ms",
     .variable = "BYTEPS_HEARTBEAT_INTERVAL_MS",
     .field = &Options::heartbeat_interval_ms,
     .minimum = 10,
     .maximum = 600'000,
     .alias = "PS_HEARTBEAT_INTERVAL",
     .alias_factor = 1000,
     .help = "Milliseconds between two signs of life."},
    {.name = "eviction_timeout_ms",
     .variable = "BYTEPS_EVICTION_TIMEOUT_MS",
     .field = &Options::eviction_timeout_ms,
     .readers = kByScheduler,
     .minimum = 20,
     .maximum = 3'600'000,
     .help = "If the job can go on without a process, the others leave it behind after so many "
             "milliseconds of silence; at least twice heartbeat_interval_ms. Not set: 900, or four "
             "intervals if that is more. (A process that dies is noticed at once.)"},
    {.name = "heartbeat_timeout_ms",
     .variable = "BYTEPS_HEARTBEAT_TIMEOUT_MS",
     .field = &Options::heartbeat_timeout_ms,
     .minimum = 20,
     .maximum = 3'600'000,
     .alias = "PS_HEARTBEAT_TIMEOUT",
     .alias_factor = 1000,
     .help = "Milliseconds of silence after which a process counts as lost where that ends the "
             "job; at least twice the interval. Not set: 5000, or five intervals if that is more."},
    {.name = "link_timeout_ms",
     .variable = "BYTEPS_LINK_TIMEOUT_MS",
     .field = &Options::link_timeout_ms,
     .minimum = 100,
     .maximum = 3'600'000,
     .help = "Milliseconds after which a connection whose data stays unacknowledged counts as "
             "broken, and is made again. At least 4000 where a packet and its acknowledgement take "
             "5 ms or more."},
    {.name = "coordinator_patience_s",
     .variable = "BYTEPS_COORDINATOR_PATIENCE",
     .field = &Options::coordinator_patience_s,
     .readers = kByWorker | kByServer,
     .maximum = kDay,
     .help = "Seconds that a lost scheduler may take to come back; operations go on meanwhile."},
    {.name = "server_patience_s",
     .variable = "BYTEPS_SERVER_PATIENCE",
     .field = &Options::server_patience_s,
     .readers = kByScheduler,
     .maximum = kDay,
     .help = "Seconds that the job waits for a server to come back when it has lost its last one."},
    {.name = "min_workers",
     .variable = "BYTEPS_MIN_WORKERS",
     .field = &Options::min_workers,
     .readers = kByWorker | kByScheduler,
     .maximum = kMachinesMax * 1024,
     .help = "The job goes on while it has at least so many worker processes. 0: the loss of any "
             "worker ends the job."},
    {.name = "strict",
     .variable = "BYTEPS_STRICT",
     .field = &Options::strict,
     .readers = kByScheduler,
     .help = "Set it if nobody makes sure that a restarted scheduler is the only one. Decisions "
             "about membership then need more votes."},
    {.name = "measure_links",
     .variable = "BYTEPS_MEASURE_LINKS",
     .field = &Options::measure_links,
     .readers = kByScheduler,
     .help = "Workers measure what the links of servers carry, and pieces move to the faster ones "
             "while the job runs. A link with link_mbit is not measured."},
    {.name = "shared_links",
     .variable = "BYTEPS_SHARED_LINKS",
     .field = &Options::shared_links,
     .readers = kByWorker | kByServer,
     .help = "Workers reach the servers of their own host through memory that both share, and not "
             "through TCP."},
    {.name = "exit_notices",
     .variable = "BYTEPS_EXIT_NOTICES",
     .field = &Options::exit_notices,
     .readers = kByScheduler,
     .minimum = -1,
     .maximum = 1 << 20,
     .help = "File descriptor of a pipe that this process inherits from a launcher and that says "
             "which processes of this host have ended, in lines \"exited PID\", of workers "
             "\"exited PID worker RANK\"; -1: none."},
    {.name = "operation_timeout_s",
     .variable = "BYTEPS_OPERATION_TIMEOUT",
     .field = &Options::operation_timeout_s,
     .readers = kByWorker,
     .maximum = 7 * kDay,
     .help =
         "Seconds after which an operation fails although all processes live, with an error that "
         "names the ranks that have not begun it; 0: no limit. A join may last longer, while "
         "ranks that have not joined go on. Not set: 1800; in torch.distributed what "
         "init_process_group says."},
    {.name = "stall_check_time_s",
     .variable = "BYTEPS_STALL_CHECK_TIME",
     .field = &Options::stall_check_time_s,
     .readers = kByWorker | kByScheduler,
     .maximum = kDay,
     .help = "Seconds after which the scheduler (without servers: rank 0) says which operations do "
             "not end and which ranks have not come to them, and again after as many seconds; at "
             "least 3. 0: never."},
    {.name = "status_port",
     .variable = "BYTEPS_STATUS_PORT",
     .field = &Options::status_port,
     .readers = kByWorker | kByScheduler,
     .maximum = 65535,
     .help = "Port on which the scheduler (without servers: rank 0) shows the state of the job: to "
             "`nc`, to `bps top`, over HTTP, and as metrics for Prometheus at /metrics; 0: none."},
    {.name = "status_host",
     .variable = "BYTEPS_STATUS_HOST",
     .field = &Options::status_host,
     .readers = kByWorker | kByScheduler,
     .text_limit = kHostLimit,
     .text_allowed = IsHostOrEmpty,
     .help = "Address on which status_port listens. Anybody who reaches it can read the names of "
             "hosts and tensors, so it is the loopback address by default; 0.0.0.0: all."},
    {.name = "status_socket",
     .variable = "BYTEPS_STATUS_SOCKET",
     .field = &Options::status_socket,
     .readers = kByWorker | kByScheduler,
     .help =
         "The scheduler (without servers: rank 0) shows the state of the job on a local "
         "socket, to processes of its own user alone: `bps top` finds it there. Workers of Python "
         "show where their threads are on sockets of their own: `bps stack`."},
    {.name = "timeline",
     .variable = "BYTEPS_TIMELINE",
     .field = &Options::timeline,
     .readers = kByWorker | kByServer,
     .alias = "HOROVOD_TIMELINE",
     .help = "File in which rank 0's Python package records operations and their pieces; rank 1 "
             "writes NAME.rank1.json beside it, and server 0 NAME.server0.json. `bps timeline` "
             "makes one file of them. Empty, or DYNAMIC: none."},
    {.name = "trace_on",
     .variable = "BYTEPS_TRACE_ON",
     .field = &Options::trace_on,
     .readers = kByWorker,
     .help = "The Python package records some steps of every tensor in the file of the original "
             "BytePS."},
    {.name = "trace_start_step",
     .variable = "BYTEPS_TRACE_START_STEP",
     .field = &Options::trace_start_step,
     .readers = kByWorker,
     .maximum = kStepsMax,
     .help = "First step of a trace (trace_on), counted from 1 for each tensor."},
    {.name = "trace_end_step",
     .variable = "BYTEPS_TRACE_END_STEP",
     .field = &Options::trace_end_step,
     .readers = kByWorker,
     .maximum = kStepsMax,
     .help = "Last step of a trace; larger than the first one."},
    {.name = "trace_dir",
     .variable = "BYTEPS_TRACE_DIR",
     .field = &Options::trace_dir,
     .readers = kByWorker,
     .help = "Folder of traces: local rank 0 writes 0/comm.json in it."},
    {.name = "log_level",
     .variable = "BYTEPS_LOG_LEVEL",
     .field = &Options::log_level,
     .strictness = Strictness::kDefault,
     .choices = "trace, debug, info, warning, error, fatal",
     .help = "Least severe message that is printed."},
    {.name = "log_hide_time",
     .variable = "BYTEPS_LOG_HIDE_TIME",
     .field = &Options::log_hide_time,
     .help = "Leave the time out of log lines."},
    {.name = "waiting",
     .variable = "BYTEPS_WAITING",
     .field = &Options::waiting,
     .choices = "auto, lines, line, none",
     .help = "How a process says for whom the job waits before it begins. lines: now and then a "
             "line in the log. line: one line that it rewrites each second. none: not at all. "
             "auto: line if standard error is a terminal, else lines."},
    {.name = "telemetry_on",
     .variable = "BYTEPS_TELEMETRY_ON",
     .field = &Options::telemetry_on,
     .readers = kByWorker,
     .help = "Record how fast tensors move (get_pushpull_speed)."},
};

}  // namespace

std::span<const OptionRow> OptionRows() { return kRows; }

}  // namespace byteps::config
