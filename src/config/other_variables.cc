#include "src/config/option_rows.h"

namespace byteps::config {
namespace {

using enum Effect;

constexpr std::string_view kOwnSlots =
    "RDMA has slots for messages and sizes them itself (BYTEPS_RDMA_BUFFER_MB)";
constexpr std::string_view kNoUcx = "there is no UCX transport in this version";
constexpr std::string_view kShared =
    "ranks of one machine share memory anyway, see BYTEPS_LOCAL_REDUCE";
constexpr std::string_view kNoZmq = "TCP needs no message library";
constexpr std::string_view kOwnLaunches = "a launch of NCCL has about 4 MB of one tensor";
constexpr std::string_view kOwnRings = "NCCL chooses its rings (NCCL_MAX_NCHANNELS)";
constexpr std::string_view kComputed = "placement is computed from link speeds, not hashed";
constexpr std::string_view kNoTrace = "there is no trace in this version";
constexpr std::string_view kNoCodec = "there are no codecs in the core in this version";
constexpr std::string_view kBinds = "the launcher binds the workers of a machine to cores";
constexpr std::string_view kTcpRepeats = "TCP repeats what is lost";
constexpr std::string_view kNoPolling = "nothing polls";

constexpr OtherVariable kOthers[] = {
    // The variables of the launcher.
    {"NVIDIA_VISIBLE_DEVICES", kLauncher, "", "its length is the number of local processes"},
    {"BYTEPS_PROGRAM_DIR", kLauncher, "", "where bps-server and bps-scheduler lie"},
    {"BYTEPS_LAUNCH_ID", kLauncher, "", "marks the processes that one launcher has started"},
    {"BYTEPS_TORCH_AS", kLauncher, "",
     "gloo: a program that asks torch.distributed for gloo gets byteps (bps run --as)"},
    {"BYTEPS_ENABLE_GDB", kLauncher, "", "the launcher starts the debugger"},

    // Binding to cores.
    {"BYTEPS_NUMA_DEFAULT_QUOTA", kLauncher, "", kBinds},
    {"BYTEPS_NUMA_ROOT_QUOTA", kLauncher, "", kBinds},
    {"BYTEPS_CPU_BLACKLIST", kLauncher, "-1", kBinds},
    {"BYTEPS_VISIBLE_CPU_CORES", kLauncher, "", kBinds},
    {"BYTEPS_MULTITHREADED_CPU", kLauncher, "", kBinds},

    // Roles and rendezvous.
    {"DMLC_NUM_PORTS", kNone, "1", "a server needs one port whatever the number of shards"},
    {"DMLC_GROUP_SIZE", kMissing, "1", "a process is one member of the job"},
    {"DMLC_LOCAL", kNone, "0", "processes of one machine meet on the loopback interface"},
    {"DMLC_USE_KUBERNETES", kNone, "0", "Kubernetes needs no special case"},
    {"BYTEPS_ORDERED_HOSTS", kMissing, "", "ranks follow DMLC_WORKER_ID"},
    {"BYTEPS_SOCKET_PATH", kNone, "", "local processes do not use socket files"},

    // Workers.
    {"BYTEPS_MIN_COMPRESS_BYTES", kNone, "65536", kNoCodec},
    {"BYTEPS_THREADPOOL_SIZE", kNone, "4", kNoCodec},
    {"BYTEPS_KEY_HASH_FN", kNone, "djb2", kComputed},
    {"BYTEPS_BUILT_IN_HASH_COEF", kNone, "1", kComputed},
    {"BYTEPS_ENABLE_MIXED_MODE", kNone, "0", "servers beside workers are recognised by their host"},
    {"BYTEPS_MIXED_MODE_BOUND", kNone, "101", kComputed},
    {"BYTEPS_NCCL_GROUP_SIZE", kNone, "4", kOwnLaunches},
    {"BYTEPS_NCCL_NUM_RINGS", kNone, "1", kOwnRings},
    {"BYTEPS_OMP_THREAD_PER_GPU", kNone, "4", "a shard sums on its own thread (server_shards)"},
    {"BYTEPS_ENABLE_ASYNC", kMissing, "0", "training is synchronous in this version"},
    {"BYTEPS_DEBUG_SAMPLE_TENSOR", kMissing, "", "values are not logged in this version"},

    // Servers.
    {"BYTEPS_SERVER_ENABLE_SCHEDULE", kNone, "0", "queues are always in order of urgency"},
    {"BYTEPS_SERVER_ENGINE_BLOCKING", kNone, "0",
     "a piece is summed by the thread that received it"},
    {"BYTEPS_SERVER_DEBUG", kMissing, "0", "values are not logged in this version"},
    {"BYTEPS_SERVER_DEBUG_KEY", kNone, "0", "values are not logged in this version"},
    {"PS_KEY_LOG", kMissing, "0", "single pieces are not logged in this version"},

    // Transport.
    {"DMLC_ENABLE_RDMA", kOption, "0, zmq, multivan",
     "1 and ibverbs: transport=rdma; ucx: transport=auto; fabric is refused"},
    {"DMLC_ENABLE_UCX", kOption, "0", "1: transport=auto, because there is no UCX"},
    {"PS_VERBOSE", kNone, "0", "BYTEPS_LOG_LEVEL=debug shows connections"},
    {"PS_RESEND", kNone, "0", kTcpRepeats},
    {"PS_RESEND_TIMEOUT", kNone, "1000", kTcpRepeats},
    {"PS_DROP_MSG", kMissing, "0", "messages are not dropped on purpose"},
    {"DMLC_LOCKLESS_QUEUE", kNone, "0", kNoPolling},
    {"DMLC_POLLING_IN_NANOSECOND", kNone, "1000", kNoPolling},
    {"ENABLE_PROFILING", kMissing, "0", kNoTrace},
    {"PROFILE_PATH", kNone, "", kNoTrace},
    {"BYTEPS_ZMQ_MAX_SOCKET", kNone, "1024", kNoZmq},
    {"BYTEPS_ZMQ_NTHREADS", kNone, "4", kNoZmq},
    {"BYTEPS_ENABLE_IPC", kNone, "0", kShared},
    {"BYTEPS_IPC_COPY_NUM_THREADS", kNone, "4", kShared},
    {"BYTEPS_IPC_ENABLE_ASYNC_COPY", kNone, "1", kShared},
    {"BYTEPS_RDMA_START_DEPTH", kNone, "128", kOwnSlots},
    {"BYTEPS_RDMA_RX_DEPTH", kNone, "2048", kOwnSlots},
    {"BYTEPS_RDMA_MAX_CONCURR_WR", kNone, "4224", kOwnSlots},
    {"BYTEPS_PRINT_RDMA_LOG", kNone, "0", "BYTEPS_LOG_LEVEL=info says what goes over RDMA"},
    {"BYTEPS_ADDRESS_POOL_SIZE", kNone, "10240", kOwnSlots},
    {"BYTEPS_UCX_SHORT_THRESH", kNone, "4096", kNoUcx},
    {"BYTEPS_UCX_FORCE_REQ_ORDER", kNone, "0", kNoUcx},
    {"BYTEPS_UCX_QUEUE_SENDS", kNone, "0", kNoUcx},
    {"BYTEPS_UCX_ERRH_ENABLE", kNone, "1", kNoUcx},
    {"BYTEPS_UCX_RECONNECT_TMO", kNone, "1000", kNoUcx},
    {"DMLC_NUM_CPU_DEV", kNone, "1", kNoUcx},
    {"DMLC_NUM_GPU_DEV", kNone, "0", kNoUcx},
    {"UCX_HANDLE_ERRORS", kNone, "none", kNoUcx},
    {"UCX_USE_MT_MUTEX", kNone, "", kNoUcx},
    {"UCX_SOCKADDR_CM_ENABLE", kNone, "", kNoUcx},
    {"UCX_RNDV_THRESH", kNone, "", kNoUcx},
    {"UCX_IB_TRAFFIC_CLASS", kNone, "", kNoUcx},
    {"FI_EFA_ENABLE_SHM_TRANSFER", kNone, "", "there is no libfabric transport in this version"},
};

}  // namespace

std::span<const OtherVariable> OtherVariables() { return kOthers; }

}  // namespace byteps::config
