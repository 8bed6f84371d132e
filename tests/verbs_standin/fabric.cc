#include "tests/verbs_standin/fabric.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

namespace byteps::standin {
namespace {

constexpr size_t kDevices = 2;
constexpr int kDepthMax = 4096;
constexpr uint32_t kPartsMax = 4;
constexpr uint32_t kInlineMax = 220;

// Verbs returns null and sets errno.
template <typename T>
T* Refuse(int error) {
  errno = error;
  return nullptr;
}

bool MakePipe(int* reader, int* writer) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  *reader = ends[0];
  *writer = ends[1];
  return true;
}

// Keeps an object by its address.
template <typename T>
T* Keep(std::map<T*, std::unique_ptr<T>>& all, std::unique_ptr<T> made) {
  T* address = made.get();
  all[address] = std::move(made);
  return address;
}

void WriteByte(int fd) {
  char byte = 0;
  [[maybe_unused]] ssize_t written = write(fd, &byte, 1);
}

// The attributes that each step of a queue pair needs.
int NeededFor(ibv_qp_state from, ibv_qp_state to) {
  if (from == IBV_QPS_RESET && to == IBV_QPS_INIT) {
    return IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  }
  if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) {
    return IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  if (from == IBV_QPS_RTR && to == IBV_QPS_RTS) {
    return IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
           IBV_QP_MAX_QP_RD_ATOMIC;
  }
  return to == IBV_QPS_ERR ? 0 : -1;
}

}  // namespace

Fabric::Fabric() : devices_(kDevices) {
  for (size_t i = 0; i < kDevices; ++i) {
    std::snprintf(devices_[i].name, sizeof(devices_[i].name), "standin%zu", i);
    devices_[i].node_type = IBV_NODE_CA;
    devices_[i].transport_type = IBV_TRANSPORT_IB;
  }
  Reset();
}

Fabric::~Fabric() {
  {
    std::lock_guard lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }
  if (wire_.joinable()) wire_.join();
  CloseRemote();
  WriteCounts();
}

void Fabric::Reset() {
  std::lock_guard lock(mutex_);
  complaints_.clear();
  counts_.messages = counts_.bytes = counts_.not_ready = counts_.notifications = 0;
  delay_max_ = 0;
  fails_in_ = 0;
  registered_max_ = pairs_max_ = SIZE_MAX;
  silent_ = hidden_ = held_ = false;
  changed_.notify_all();
  for (Device& device : devices_) device.active = !(device.dead = false);
  ReadSettings();
}

Control::Counts Fabric::counts() {
  std::lock_guard lock(mutex_);
  return counts_;
}

std::vector<std::string> Fabric::complaints() {
  std::lock_guard lock(mutex_);
  return complaints_;
}

void Fabric::Complain(const std::string& what) {
  complaints_.push_back(what);
  std::fprintf(stderr, "stand-in for libibverbs: %s\n", what.c_str());
}

void Fabric::Delay(uint64_t seed, uint32_t microseconds_max) {
  std::lock_guard lock(mutex_);
  random_.seed(seed);
  delay_max_ = microseconds_max;
}

void Fabric::Hold(bool held) {
  std::lock_guard lock(mutex_);
  held_ = held;
  changed_.notify_all();
}

void Fabric::FailMessage(uint64_t number, int status) {
  std::lock_guard lock(mutex_);
  fails_in_ = number;
  fails_with_ = status;
}

void Fabric::LimitRegisteredBytes(size_t bytes) {
  std::lock_guard lock(mutex_);
  registered_max_ = bytes;
}

void Fabric::LimitQueuePairs(size_t count) {
  std::lock_guard lock(mutex_);
  pairs_max_ = count;
}

void Fabric::SetGids(const std::vector<Gid>& gids) {
  std::lock_guard lock(mutex_);
  gids_ = gids;
}

void Fabric::Silence(bool silent) {
  std::lock_guard lock(mutex_);
  silent_ = silent;
}

void Fabric::HideDevices(bool hidden) {
  std::lock_guard lock(mutex_);
  hidden_ = hidden;
}

void Fabric::SetPortActive(size_t device, bool active) {
  std::lock_guard lock(mutex_);
  Device& of = devices_.at(device);
  if (of.active == active) return;
  of.active = active;
  for (auto& [address, context] : contexts_) {
    if (context->of == &of) {
      Raise(*context, active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
    }
  }
}

void Fabric::KillDevice(size_t device) { EndDevice(device, true); }

void Fabric::LoseDevice(size_t device) { EndDevice(device, false); }

void Fabric::EndDevice(size_t device, bool flushes) {
  std::lock_guard lock(mutex_);
  Device& of = devices_.at(device);
  of.dead = true;
  for (auto& [number, pair] : pairs_) {
    if (flushes && static_cast<Context*>(pair->context)->of == &of) Flush(*pair);
  }
  for (auto& [address, context] : contexts_) {
    if (context->of == &of) Raise(*context, IBV_EVENT_DEVICE_FATAL);
  }
}

void Fabric::Raise(Context& context, ibv_event_type type, ibv_cq* queue) {
  ibv_async_event event{};
  event.event_type = type;
  if (queue != nullptr) {
    event.element.cq = queue;
  } else {
    event.element.port_num = 1;
  }
  context.events.push_back(event);
  WriteByte(context.event_writer);
}

ibv_device** Fabric::List(int* count) {
  std::lock_guard lock(mutex_);
  size_t shown = hidden_ ? 0 : devices_.size();
  auto** list = static_cast<ibv_device**>(std::calloc(shown + 1, sizeof(ibv_device*)));
  for (size_t i = 0; i < shown; ++i) list[i] = &devices_[i];
  if (count != nullptr) *count = static_cast<int>(shown);
  return list;
}

int Fabric::KeepFromForks() {
  std::lock_guard lock(mutex_);
  kept_from_forks_ = true;
  return 0;
}

ibv_context* Fabric::Open(ibv_device* device) {
  std::lock_guard lock(mutex_);
  if (!kept_from_forks_) Complain("a device was opened before ibv_fork_init");
  auto* of = static_cast<Device*>(device);
  if (of->dead) return Refuse<ibv_context>(EIO);
  auto made = std::make_unique<Context>();
  made->device = device;
  made->of = of;
  if (!MakePipe(&made->async_fd, &made->event_writer)) return nullptr;
  ++counts_.contexts;
  if (!wire_.joinable()) wire_ = std::thread([this] { RunWire(); });
  return Keep(contexts_, std::move(made));
}

int Fabric::Close(Context* context) {
  std::lock_guard lock(mutex_);
  if (context->users > 0) {
    Complain("a context is closed before its objects");
    return EBUSY;
  }
  close(context->async_fd);
  close(context->event_writer);
  contexts_.erase(context);
  --counts_.contexts;
  return 0;
}

int Fabric::TakeEvent(Context* context, ibv_async_event* event) {
  char byte = 0;
  if (read(context->async_fd, &byte, 1) != 1) return -1;
  std::lock_guard lock(mutex_);
  *event = context->events.front();
  context->events.pop_front();
  return 0;
}

int Fabric::QueryPort(Context* context, uint8_t port, ibv_port_attr* attr) {
  std::lock_guard lock(mutex_);
  if (port != 1) return EINVAL;
  attr->state = context->of->active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr->max_mtu = IBV_MTU_4096;
  attr->active_mtu = IBV_MTU_1024;
  attr->gid_tbl_len = static_cast<int>(2 * gids_.size());
  attr->max_msg_sz = 1U << 30;
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  attr->active_speed = 32;  // 25 Gbit/s a lane, and four lanes
  attr->active_width = 2;
  return 0;
}

int Fabric::QueryGid(uint32_t port, uint32_t index, ibv_gid_entry* entry) {
  std::lock_guard lock(mutex_);
  if (port != 1 || index / 2 >= gids_.size()) return ENODATA;
  *entry = {};
  std::memcpy(entry->gid.raw, gids_[index / 2].data(), sizeof(entry->gid.raw));
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = index % 2 == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
  return 0;
}

ibv_pd* Fabric::MakeDomain(Context* context) {
  std::lock_guard lock(mutex_);
  auto made = std::make_unique<Domain>();
  made->context = context;
  ++context->users;
  ++counts_.domains;
  return Keep(domains_, std::move(made));
}

int Fabric::End(Domain* domain) {
  std::lock_guard lock(mutex_);
  if (domain->users > 0) {
    Complain("a protection domain is deallocated before its regions and queue pairs");
    return EBUSY;
  }
  --static_cast<Context*>(domain->context)->users;
  domains_.erase(domain);
  --counts_.domains;
  return 0;
}

ibv_mr* Fabric::Register(Domain* domain, void* address, size_t bytes, int access) {
  std::lock_guard lock(mutex_);
  if (counts_.registered_bytes + bytes > registered_max_) return Refuse<ibv_mr>(ENOMEM);
  if ((access & ~IBV_ACCESS_LOCAL_WRITE) != 0) {
    Complain("memory is registered for access from outside");
  }
  auto region = std::make_unique<Region>();
  region->context = domain->context;
  region->pd = domain;
  region->addr = address;
  region->length = bytes;
  region->access = access;
  region->lkey = region->rkey = next_key_;
  next_key_ += 0x101;
  ++domain->users;
  ++counts_.regions;
  counts_.registered_bytes += bytes;
  std::unique_ptr<Region>& place = regions_[region->lkey];
  place = std::move(region);
  return place.get();
}

int Fabric::End(Region* region) {
  std::lock_guard lock(mutex_);
  if (region->posted > 0) {
    Complain("memory is deregistered while a work request names it");
    return EBUSY;
  }
  --static_cast<Domain*>(region->pd)->users;
  --counts_.regions;
  counts_.registered_bytes -= region->length;
  regions_.erase(region->lkey);
  return 0;
}

ibv_comp_channel* Fabric::MakeChannel(Context* context) {
  std::lock_guard lock(mutex_);
  auto made = std::make_unique<Channel>();
  made->context = context;
  if (!MakePipe(&made->fd, &made->writer)) return nullptr;
  ++context->users;
  ++counts_.channels;
  return Keep(channels_, std::move(made));
}

int Fabric::End(Channel* channel) {
  std::lock_guard lock(mutex_);
  if (channel->users > 0) {
    Complain("a completion channel is destroyed before its completion queues");
    return EBUSY;
  }
  --static_cast<Context*>(channel->context)->users;
  close(channel->fd);
  close(channel->writer);
  channels_.erase(channel);
  --counts_.channels;
  return 0;
}

ibv_cq* Fabric::MakeQueue(Context* context, int depth, void* user, Channel* channel) {
  std::lock_guard lock(mutex_);
  if (depth < 1 || depth > kDepthMax) return Refuse<ibv_cq>(EINVAL);
  auto made = std::make_unique<CompletionQueue>();
  made->context = context;
  made->channel = channel;
  made->cq_context = user;
  made->cqe = depth;
  ++context->users;
  if (channel != nullptr) ++channel->users;
  ++counts_.completion_queues;
  return Keep(queues_, std::move(made));
}

// The real function waits for unacknowledged events, perhaps for ever.
int Fabric::End(CompletionQueue* queue) {
  std::lock_guard lock(mutex_);
  if (queue->users > 0) {
    Complain("a completion queue is destroyed before its queue pairs");
    return EBUSY;
  }
  auto* channel = static_cast<Channel*>(queue->channel);
  if (channel != nullptr) {
    queue->unacknowledged -= std::erase(channel->events, queue);
    --channel->users;
  }
  if (queue->unacknowledged > 0) {
    Complain("a completion queue is destroyed before its events are acknowledged");
  }
  --static_cast<Context*>(queue->context)->users;
  queues_.erase(queue);
  --counts_.completion_queues;
  return 0;
}

// A byte of the pipe may belong to a queue that is gone, so there may be fewer events than bytes.
int Fabric::TakeNotification(Channel* channel, ibv_cq** queue, void** user) {
  while (true) {
    char byte = 0;
    if (read(channel->fd, &byte, 1) != 1) return -1;
    std::lock_guard lock(mutex_);
    if (channel->events.empty()) continue;
    *queue = channel->events.front();
    *user = (*queue)->cq_context;
    channel->events.pop_front();
    return 0;
  }
}

void Fabric::Acknowledge(CompletionQueue* queue, unsigned count) {
  std::lock_guard lock(mutex_);
  if (count > queue->unacknowledged) return Complain("more events are acknowledged than came");
  queue->unacknowledged -= count;
}

ibv_qp* Fabric::MakePair(Domain* domain, ibv_qp_init_attr* init) {
  std::lock_guard lock(mutex_);
  auto* context = static_cast<Context*>(domain->context);
  const ibv_qp_cap& cap = init->cap;
  bool fits = cap.max_send_wr <= kDepthMax && cap.max_recv_wr <= kDepthMax &&
              cap.max_send_sge <= kPartsMax && cap.max_recv_sge <= kPartsMax &&
              cap.max_inline_data <= kInlineMax && init->qp_type == IBV_QPT_RC;
  if (!fits) return Refuse<ibv_qp>(EINVAL);
  if (counts_.queue_pairs >= pairs_max_) return Refuse<ibv_qp>(ENOMEM);
  OpenRemote();
  auto pair = std::make_unique<QueuePair>();
  pair->context = context;
  pair->pd = domain;
  pair->qp_context = init->qp_context;
  pair->send_cq = init->send_cq;
  pair->recv_cq = init->recv_cq;
  pair->qp_type = init->qp_type;
  pair->state = IBV_QPS_RESET;
  pair->cap = cap;
  pair->signal_all = init->sq_sig_all != 0;
  pair->serial = next_serial_++;
  if (used_pairs_.empty()) used_pairs_.push_back(next_pair_++);
  pair->qp_num = used_pairs_.back();
  used_pairs_.pop_back();
  ++domain->users;
  ++static_cast<CompletionQueue*>(pair->send_cq)->users;
  ++static_cast<CompletionQueue*>(pair->recv_cq)->users;
  ++counts_.queue_pairs;
  std::unique_ptr<QueuePair>& place = pairs_[pair->qp_num];
  place = std::move(pair);
  return place.get();
}

int Fabric::Modify(QueuePair* pair, const ibv_qp_attr& attr, int mask) {
  std::lock_guard lock(mutex_);
  if ((mask & IBV_QP_STATE) == 0) return EINVAL;
  int needed = NeededFor(pair->state, attr.qp_state);
  if (needed < 0 || (mask & needed) != needed) return EINVAL;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0 && attr.qp_access_flags != 0) {
    Complain("a queue pair lets others into its memory");
  }
  if ((mask & IBV_QP_AV) != 0) {
    const ibv_global_route& route = attr.ah_attr.grh;
    bool known = attr.ah_attr.is_global != 0 && route.sgid_index < 2 * gids_.size();
    if (!known) return EINVAL;
    pair->attr.ah_attr = attr.ah_attr;
    pair->attr.dest_qp_num = attr.dest_qp_num;
    pair->attr.rq_psn = attr.rq_psn & 0xffffff;
    pair->attr.min_rnr_timer = attr.min_rnr_timer;
    pair->attr.path_mtu = attr.path_mtu;
  }
  if ((mask & IBV_QP_SQ_PSN) != 0) {
    pair->attr.sq_psn = attr.sq_psn & 0xffffff;
    pair->attr.timeout = attr.timeout;
    pair->attr.retry_cnt = attr.retry_cnt;
    pair->attr.rnr_retry = attr.rnr_retry;
  }
  if (attr.qp_state == IBV_QPS_ERR) {
    Flush(*pair);
  } else {
    pair->state = attr.qp_state;
  }
  return 0;
}

// Completions of the pair stay in their queues, as with a device.
int Fabric::End(QueuePair* pair) {
  std::lock_guard lock(mutex_);
  for (const Work& work : pair->sends) {
    if (!work.delivered) CheckUnchanged(work, "before its queue pair was destroyed");
    Release(work);
  }
  for (const Work& work : pair->receives) Release(work);
  --static_cast<Domain*>(pair->pd)->users;
  --static_cast<CompletionQueue*>(pair->send_cq)->users;
  --static_cast<CompletionQueue*>(pair->recv_cq)->users;
  used_pairs_.push_back(pair->qp_num);
  --counts_.queue_pairs;
  pairs_.erase(pair->qp_num);
  return 0;
}

}  // namespace byteps::standin
