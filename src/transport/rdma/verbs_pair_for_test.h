// Two connected queue pairs of one device, for tests of what verbs promises.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/transport/rdma/verbs.h"

namespace byteps::transport {

inline constexpr uint32_t kDepth = 16;
inline constexpr size_t kPlaceBytes = 4096;

// A device, opened: the one with this name, or the first.
struct OpenedDevice {
  explicit OpenedDevice(const Verbs& verbs, const std::string& name = "") : v(verbs) {
    ibv_device** list = v.get_device_list(nullptr);
    ibv_device** at = list;
    while (!name.empty() && *at != nullptr && name != v.get_device_name(*at)) ++at;
    if (*at != nullptr) context = v.open_device(*at);
    v.free_device_list(list);
    domain = v.alloc_pd(context);
    ibv_gid_entry entry{};
    for (uint32_t i = 0; v.query_gid_ex(context, 1, i, &entry, 0, sizeof(entry)) == 0; ++i) {
      bool is_v4 = entry.gid.raw[10] == 0xff && entry.gid.raw[11] == 0xff;
      if (is_v4 && entry.gid_type == IBV_GID_TYPE_ROCE_V2) {
        gid = entry.gid;
        gid_index = static_cast<uint8_t>(i);
        break;
      }
    }
  }
  ~OpenedDevice() {
    EXPECT_EQ(v.dealloc_pd(domain), 0);
    EXPECT_EQ(v.close_device(context), 0);
  }

  const Verbs& v;
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_gid gid{};
  uint8_t gid_index = 0;
};

// One end: a queue pair with completion queues, and memory in places of kPlaceBytes, of which
// place i serves the work request with number i.
struct PairEnd {
  explicit PairEnd(OpenedDevice& device, int access = IBV_ACCESS_LOCAL_WRITE)
      : d(device), v(device.v), memory(2 * kDepth * kPlaceBytes) {
    region = v.reg_mr(d.domain, memory.data(), memory.size(), access);
    channel = v.create_comp_channel(d.context);
    fcntl(channel->fd, F_SETFL, O_NONBLOCK);
    received = v.create_cq(d.context, 2 * kDepth, this, channel, 0);
    sent = v.create_cq(d.context, 2 * kDepth, this, channel, 0);
    ibv_qp_init_attr init{};
    init.send_cq = sent;
    init.recv_cq = received;
    init.qp_type = IBV_QPT_RC;
    init.cap = {kDepth, kDepth, 2, 2, 64};
    pair = v.create_qp(d.domain, &init);
    inline_max = init.cap.max_inline_data;
  }
  ~PairEnd() {
    DestroyPair();
    EXPECT_EQ(v.destroy_cq(received), 0);
    EXPECT_EQ(v.destroy_cq(sent), 0);
    EXPECT_EQ(v.destroy_comp_channel(channel), 0);
    EXPECT_EQ(v.dereg_mr(region), 0);
  }
  void DestroyPair() {
    if (pair == nullptr) return;
    EXPECT_EQ(v.destroy_qp(pair), 0);
    pair = nullptr;
  }

  int Initialize() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    return v.modify_qp(pair, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  int MakeReadyToReceive(const PairEnd& from) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = from.pair->qp_num;
    attr.rq_psn = 77;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.sgid_index = d.gid_index;
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.grh.dgid = from.d.gid;
    return v.modify_qp(pair, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
  int MakeReadyToSend() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.sq_psn = 77;
    attr.max_rd_atomic = 1;
    return v.modify_qp(pair, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }

  std::byte* Place(uint64_t number) { return memory.data() + number * kPlaceBytes; }
  ibv_sge Part(uint64_t place, size_t at, size_t bytes) {
    return {reinterpret_cast<uintptr_t>(Place(place)) + at, static_cast<uint32_t>(bytes),
            region->lkey};
  }

  int PostReceive(uint64_t number, std::vector<ibv_sge> parts) {
    ibv_recv_wr work{};
    work.wr_id = number;
    work.sg_list = parts.data();
    work.num_sge = static_cast<int>(parts.size());
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(pair, &work, &bad);
  }
  int PostReceive(uint64_t number) { return PostReceive(number, {Part(number, 0, kPlaceBytes)}); }
  int PostSend(uint64_t number, std::vector<ibv_sge> parts, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr work{};
    work.wr_id = number;
    work.sg_list = parts.data();
    work.num_sge = static_cast<int>(parts.size());
    work.opcode = IBV_WR_SEND;
    work.send_flags = flags;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(pair, &work, &bad);
  }
  // Sends a text from the place with this number, which must be kDepth or more.
  int SendText(uint64_t place, const std::string& text, unsigned flags = IBV_SEND_SIGNALED) {
    std::memcpy(Place(place), text.data(), text.size());
    return PostSend(place, {Part(place, 0, text.size())}, flags);
  }
  std::string Text(const ibv_wc& completion) {
    return {reinterpret_cast<const char*>(Place(completion.wr_id)), completion.byte_len};
  }

  // Waits for so many completions of a queue, for at most some seconds.
  static std::vector<ibv_wc> Await(ibv_cq* queue, size_t count) {
    std::vector<ibv_wc> all;
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (all.size() < count && std::chrono::steady_clock::now() < deadline) {
      ibv_wc one{};
      if (ibv_poll_cq(queue, 1, &one) == 1) {
        all.push_back(one);
      } else {
        // tidy-allow(sleep): verbs has no call that waits.
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
    EXPECT_EQ(all.size(), count);
    all.resize(count);
    return all;
  }
  bool HasEvent(int timeout_ms) const {
    pollfd descriptor{channel->fd, POLLIN, 0};
    return poll(&descriptor, 1, timeout_ms) == 1;
  }

  OpenedDevice& d;
  const Verbs& v;
  std::vector<std::byte> memory;
  ibv_mr* region = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* received = nullptr;
  ibv_cq* sent = nullptr;
  ibv_qp* pair = nullptr;
  uint32_t inline_max = 0;
};

}  // namespace byteps::transport
