// The functions under the names, and with the versions (standin.map), of libibverbs.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdlib>

#include "tests/verbs_standin/fabric.h"

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

namespace byteps::standin {
namespace {

Fabric& TheFabric() {
  static Fabric fabric;  // tidy-allow(global): the functions of libibverbs have no other place
  return fabric;
}

int PostSend(ibv_qp* pair, ibv_send_wr* work, ibv_send_wr** bad) {
  return TheFabric().PostSend(static_cast<QueuePair*>(pair), work, bad);
}
int PostReceive(ibv_qp* pair, ibv_recv_wr* work, ibv_recv_wr** bad) {
  return TheFabric().PostReceive(static_cast<QueuePair*>(pair), work, bad);
}
int Poll(ibv_cq* queue, int count, ibv_wc* completions) {
  return TheFabric().Poll(static_cast<CompletionQueue*>(queue), count, completions);
}
int Arm(ibv_cq* queue, int solicited_only) {
  return TheFabric().Arm(static_cast<CompletionQueue*>(queue), solicited_only != 0);
}

}  // namespace
}  // namespace byteps::standin

using byteps::standin::Arm;
using byteps::standin::Channel;
using byteps::standin::CompletionQueue;
using byteps::standin::Context;
using byteps::standin::Control;
using byteps::standin::Domain;
using byteps::standin::Poll;
using byteps::standin::PostReceive;
using byteps::standin::PostSend;
using byteps::standin::QueuePair;
using byteps::standin::Region;
using byteps::standin::TheFabric;

#define BYTEPS_EXPORT extern "C" __attribute__((visibility("default")))

BYTEPS_EXPORT Control* byteps_verbs_standin_control() { return &TheFabric(); }

BYTEPS_EXPORT int ibv_fork_init() { return TheFabric().KeepFromForks(); }
BYTEPS_EXPORT ibv_device** ibv_get_device_list(int* count) { return TheFabric().List(count); }
BYTEPS_EXPORT void ibv_free_device_list(ibv_device** list) { std::free(list); }
BYTEPS_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }

BYTEPS_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  ibv_context* context = TheFabric().Open(device);
  if (context == nullptr) return nullptr;
  context->ops.post_send = PostSend;
  context->ops.post_recv = PostReceive;
  context->ops.poll_cq = Poll;
  context->ops.req_notify_cq = Arm;
  return context;
}
BYTEPS_EXPORT int ibv_close_device(ibv_context* context) {
  return TheFabric().Close(static_cast<Context*>(context));
}

BYTEPS_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return TheFabric().TakeEvent(static_cast<Context*>(context), event);
}
BYTEPS_EXPORT void ibv_ack_async_event(ibv_async_event*) {}
BYTEPS_EXPORT const char* ibv_event_type_str(ibv_event_type) { return "an event"; }

BYTEPS_EXPORT int ibv_query_device(ibv_context*, ibv_device_attr* attr) {
  *attr = {};
  attr->max_qp = 4096;
  attr->max_qp_wr = 4096;
  attr->max_sge = 4;
  attr->max_cq = 4096;
  attr->max_cqe = 4096;
  attr->max_mr = 1 << 16;
  attr->max_mr_size = SIZE_MAX;
  attr->phys_port_cnt = 1;
  return 0;
}
// The caller's struct may be older and shorter than the present one; ours is as the caller's.
BYTEPS_EXPORT int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attr) {
  return TheFabric().QueryPort(static_cast<Context*>(context), port,
                               reinterpret_cast<ibv_port_attr*>(attr));
}
BYTEPS_EXPORT int _ibv_query_gid_ex(ibv_context*, uint32_t port, uint32_t index,
                                    ibv_gid_entry* entry, uint32_t flags, size_t entry_size) {
  if (flags != 0 || entry_size != sizeof(ibv_gid_entry)) return EINVAL;
  return TheFabric().QueryGid(port, index, entry);
}

BYTEPS_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return TheFabric().MakeDomain(static_cast<Context*>(context));
}
BYTEPS_EXPORT int ibv_dealloc_pd(ibv_pd* domain) {
  return TheFabric().End(static_cast<Domain*>(domain));
}
BYTEPS_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, size_t bytes, int access) {
  return TheFabric().Register(static_cast<Domain*>(domain), address, bytes, access);
}
BYTEPS_EXPORT int ibv_dereg_mr(ibv_mr* region) {
  return TheFabric().End(static_cast<Region*>(region));
}

BYTEPS_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return TheFabric().MakeChannel(static_cast<Context*>(context));
}
BYTEPS_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return TheFabric().End(static_cast<Channel*>(channel));
}
BYTEPS_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int depth, void* user,
                                    ibv_comp_channel* channel, int) {
  return TheFabric().MakeQueue(static_cast<Context*>(context), depth, user,
                               static_cast<Channel*>(channel));
}
BYTEPS_EXPORT int ibv_destroy_cq(ibv_cq* queue) {
  return TheFabric().End(static_cast<CompletionQueue*>(queue));
}
BYTEPS_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** user) {
  return TheFabric().TakeNotification(static_cast<Channel*>(channel), queue, user);
}
BYTEPS_EXPORT void ibv_ack_cq_events(ibv_cq* queue, unsigned count) {
  TheFabric().Acknowledge(static_cast<CompletionQueue*>(queue), count);
}

BYTEPS_EXPORT ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* init) {
  return TheFabric().MakePair(static_cast<Domain*>(domain), init);
}
BYTEPS_EXPORT int ibv_modify_qp(ibv_qp* pair, ibv_qp_attr* attr, int mask) {
  return TheFabric().Modify(static_cast<QueuePair*>(pair), *attr, mask);
}
BYTEPS_EXPORT int ibv_destroy_qp(ibv_qp* pair) {
  return TheFabric().End(static_cast<QueuePair*>(pair));
}
BYTEPS_EXPORT const char* ibv_wc_status_str(ibv_wc_status status) {
  return status == IBV_WC_SUCCESS ? "success" : "an error of the stand-in";
}
