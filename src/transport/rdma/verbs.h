// The functions of libibverbs that the RDMA transport calls, found when the program runs: nothing
// is linked, and a host without RDMA needs no library.
//
// No header includes this one, because verbs.h of rdma-core defines macros with the names of
// functions.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/status.h"

// These macros would take the place of the functions below.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

namespace byteps::transport {

inline constexpr const char* kVerbsLibrary = "libibverbs.so.1";

// The calls that carry messages (ibv_post_send, ibv_post_recv, ibv_poll_cq, ibv_req_notify_cq) are
// not here: they are inline functions over a table in the context.
struct Verbs {
  decltype(&::ibv_fork_init) fork_init = nullptr;
  decltype(&::ibv_get_device_list) get_device_list = nullptr;
  decltype(&::ibv_free_device_list) free_device_list = nullptr;
  decltype(&::ibv_get_device_name) get_device_name = nullptr;
  decltype(&::ibv_open_device) open_device = nullptr;
  decltype(&::ibv_close_device) close_device = nullptr;
  decltype(&::ibv_get_async_event) get_async_event = nullptr;
  decltype(&::ibv_ack_async_event) ack_async_event = nullptr;
  decltype(&::ibv_event_type_str) event_type_str = nullptr;
  decltype(&::ibv_query_device) query_device = nullptr;
  // Fills the fields of older versions only, so the caller must set all bytes to zero first.
  int (*query_port)(ibv_context*, uint8_t, ibv_port_attr*) = nullptr;
  decltype(&::_ibv_query_gid_ex) query_gid_ex = nullptr;
  decltype(&::ibv_alloc_pd) alloc_pd = nullptr;
  decltype(&::ibv_dealloc_pd) dealloc_pd = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd*, void*, size_t, int) = nullptr;
  decltype(&::ibv_dereg_mr) dereg_mr = nullptr;
  decltype(&::ibv_create_comp_channel) create_comp_channel = nullptr;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel = nullptr;
  decltype(&::ibv_create_cq) create_cq = nullptr;
  decltype(&::ibv_destroy_cq) destroy_cq = nullptr;
  decltype(&::ibv_get_cq_event) get_cq_event = nullptr;
  decltype(&::ibv_ack_cq_events) ack_cq_events = nullptr;
  decltype(&::ibv_create_qp) create_qp = nullptr;
  decltype(&::ibv_modify_qp) modify_qp = nullptr;
  decltype(&::ibv_destroy_qp) destroy_qp = nullptr;
  decltype(&::ibv_wc_status_str) wc_status_str = nullptr;
};

// Loads `library`, a name or a path, and finds all functions in it. The library then stays loaded
// until the process ends, and keeps its own memory from a fork's child, which would otherwise take
// pages away from the devices. kUnavailable: there is none, it is too old, or it cannot keep its
// memory; the text says what to do.
Result<Verbs> LoadVerbs(const std::string& library = kVerbsLibrary);

}  // namespace byteps::transport
