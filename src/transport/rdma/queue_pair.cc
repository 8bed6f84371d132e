#include "src/transport/rdma/queue_pair.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "src/base/check.h"
#include "src/base/proof.h"
#include "src/transport/rdma/device.h"
#include "src/transport/rdma/registered_memory.h"
#include "src/transport/rdma/verbs.h"

namespace byteps::transport {
namespace {

constexpr uint32_t kPacketMask = 0xffffff;
// A message is repeated 7 times, each time after 4.096 us * 2^14, which is 67 ms.
constexpr uint8_t kTimeout = 14;
constexpr uint8_t kRetries = 7;
// The slots see to it that no message lacks a place. If one does all the same, it waits for ever.
constexpr uint8_t kRetriesWithoutPlace = 7;
constexpr uint8_t kPauseWithoutPlace = 12;  // 0.64 ms
constexpr uint8_t kHopsMax = 64;

Status Refused(const Device& device, const char* what, int error) {
  return {StatusCode::kUnavailable,
          device.name() + " gives no " + what + ": " + std::generic_category().message(error)};
}

uint64_t RandomNumber() {
  std::array<std::byte, sizeof(uint64_t)> bytes{};
  RandomBytes(bytes);
  uint64_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

ibv_sge PartOf(const std::byte* bytes, size_t size, uint32_t key) {
  return {reinterpret_cast<uintptr_t>(bytes), static_cast<uint32_t>(size), key};
}

std::span<std::byte, kMessageHeadBytes> HeadSpan(std::byte* head) {
  return std::span<std::byte, kMessageHeadBytes>(head, kMessageHeadBytes);
}

}  // namespace

// Has room for all messages that may be under way at a time.
struct QueuePair::Posting {
  explicit Posting(size_t count_max) : works(count_max), parts(2 * count_max) {}

  std::vector<ibv_send_wr> works;
  std::vector<ibv_sge> parts;
  size_t count = 0;
};

Result<std::unique_ptr<QueuePair>> QueuePair::Make(const RdmaParts& parts, const DeviceChoice& at,
                                                   const QueuePairOptions& options,
                                                   std::function<void()> on_event) {
  // tidy-allow(new): the constructor is private.
  std::unique_ptr<QueuePair> pair(new QueuePair(parts, at, options, std::move(on_event)));
  Status prepared = pair->Prepare();
  if (!prepared.ok()) return prepared;
  return pair;
}

QueuePair::QueuePair(const RdmaParts& parts, const DeviceChoice& at,
                     const QueuePairOptions& options, std::function<void()> on_event)
    : parts_(parts),
      at_(at),
      options_(options),
      on_event_(std::move(on_event)),
      payloads_(options.slots),
      receive_slots_(options.slots),
      send_slots_(0),
      sent_(options.slots),
      posting_(std::make_unique<Posting>(options.slots)) {
  arrived_.reserve(options.slots);
}

Status QueuePair::Prepare() {
  BYTEPS_CHECK(options_.slots >= kSlotsMin && options_.slots <= kSlotsMax);
  const Device& device = parts_.device;
  if (device.work_max() < options_.slots) return Refused(device, "queue pair of this size", ENOMEM);
  Status usable = parts_.memory.Use(device);
  if (!usable.ok()) return usable;
  // Buffers of the heap, from the time before, would come out of the pool first.
  parts_.pool.FreeUnused();
  const size_t head_bytes = 2 * size_t{options_.slots} * kMessageHeadBytes;
  heads_ = parts_.pool.Take(head_bytes);
  std::optional<uint32_t> key = parts_.memory.KeyOf(heads_.data(), head_bytes, device);
  bool reachable = key.has_value();
  if (reachable) head_key_ = *key;
  for (BufferRef& payload : payloads_) {
    payload = TakeReachable();
    reachable = reachable && payload;
  }
  next_payload_ = TakeReachable();
  if (!reachable || !next_payload_) {
    return {StatusCode::kExhausted,
            "there is no more memory that " + device.name() + " can reach for one more connection"};
  }
  return MakePair();
}

// Returns a buffer for a payload; null: the memory that the device can reach is used up.
BufferRef QueuePair::TakeReachable() {
  BufferRef buffer = parts_.pool.Take(options_.slot_bytes);
  return CanRefer({buffer.data(), options_.slot_bytes}) ? buffer : BufferRef();
}

Status QueuePair::MakePair() {
  const Device& device = parts_.device;
  client_ = parts_.watch.Add(*this, options_.slots, options_.slots);
  if (client_ == 0) return Refused(device, "place for more completions", ENOMEM);
  ibv_qp_init_attr init{};
  init.send_cq = parts_.watch.sent();
  init.recv_cq = parts_.watch.received();
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = init.cap.max_recv_wr = options_.slots;
  init.cap.max_send_sge = init.cap.max_recv_sge = 2;
  pair_ = device.verbs().create_qp(device.domain(), &init);
  if (pair_ == nullptr) return Refused(device, "queue pair", errno);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = at_.port;
  int error = device.verbs().modify_qp(
      pair_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error != 0) return Refused(device, "queue pair for this port", error);
  for (uint32_t slot = 0; slot < options_.slots; ++slot) {
    if (!PostSlot(slot)) return status_;
  }
  own_.link = at_.link;
  own_.queue_pair = pair_->qp_num;
  own_.first_packet = static_cast<uint32_t>(RandomNumber()) & kPacketMask;
  own_.slots = static_cast<uint16_t>(options_.slots);
  own_.mtu = std::max<uint8_t>(1, device.MtuOf(at_.port));
  own_.slot_bytes = static_cast<uint32_t>(options_.slot_bytes);
  own_.lid = device.LidOf(at_.port);
  own_.gid = at_.gid;
  own_.nonce = RandomNumber() | 1;  // not 0
  return Status::Ok();
}

// The device lets go of all buffers when the pair is destroyed. They go back to the pool behind it.
QueuePair::~QueuePair() {
  if (client_ != 0) parts_.watch.Remove(client_);
  if (pair_ != nullptr) parts_.device.verbs().destroy_qp(pair_);
}

Status QueuePair::Connect(const Offer& peer) {
  if (peer.link != own_.link) {
    return {StatusCode::kUnavailable, "one end is on InfiniBand and the other on Ethernet"};
  }
  const Verbs& verbs = parts_.device.verbs();
  ibv_qp_attr ready{};
  ready.qp_state = IBV_QPS_RTR;
  ready.path_mtu = static_cast<ibv_mtu>(std::min(peer.mtu, own_.mtu));
  ready.dest_qp_num = peer.queue_pair;
  ready.rq_psn = peer.first_packet;
  ready.min_rnr_timer = kPauseWithoutPlace;
  ready.ah_attr.port_num = at_.port;
  ready.ah_attr.sl = options_.service_level;
  // A subnet of InfiniBand needs no global address; its prefix is the first half of the GID.
  bool same_subnet = std::equal(peer.gid.begin(), peer.gid.begin() + 8, own_.gid.begin());
  ready.ah_attr.is_global = own_.link == LinkLayer::kEthernet || !same_subnet ? 1 : 0;
  ready.ah_attr.dlid = peer.lid;
  ready.ah_attr.grh.sgid_index = static_cast<uint8_t>(at_.gid_index);
  ready.ah_attr.grh.hop_limit = kHopsMax;
  ready.ah_attr.grh.traffic_class = options_.traffic_class;
  std::memcpy(ready.ah_attr.grh.dgid.raw, peer.gid.data(), peer.gid.size());
  int error = verbs.modify_qp(pair_, &ready,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error == 0) {
    ibv_qp_attr sending{};
    sending.qp_state = IBV_QPS_RTS;
    sending.timeout = kTimeout;
    sending.retry_cnt = kRetries;
    sending.rnr_retry = kRetriesWithoutPlace;
    sending.sq_psn = own_.first_packet;
    error = verbs.modify_qp(pair_, &sending,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  if (error != 0) return Refused(parts_.device, "way to the other end", error);
  // Both ends count with the smaller number of slots: an end with more of them must tell early what
  // it gave back.
  const uint32_t slots = std::min<uint32_t>(peer.slots, options_.slots);
  send_slots_ = SendSlots(slots);
  receive_slots_ = ReceiveSlots(slots);
  peer_slot_bytes_ = std::min<size_t>(peer.slot_bytes, options_.slot_bytes);
  peer_nonce_ = peer.nonce;
  connected_ = true;
  return Status::Ok();
}

std::byte* QueuePair::HeadAt(uint32_t place) const {
  return heads_.data() + size_t{place} * kMessageHeadBytes;
}

bool QueuePair::PostSlot(uint32_t slot) {
  std::byte* payload = payloads_[slot].data();
  std::optional<uint32_t> key = parts_.memory.KeyOf(payload, options_.slot_bytes, parts_.device);
  if (!key.has_value()) {
    Break({StatusCode::kUnavailable,
           "there is no more memory that " + parts_.device.name() + " can reach"});
    return false;
  }
  ibv_sge places[2] = {PartOf(HeadAt(slot), kMessageHeadBytes, head_key_),
                       PartOf(payload, options_.slot_bytes, *key)};
  ibv_recv_wr work{};
  work.wr_id = CompletionWatch::IdOf(client_, slot);
  work.sg_list = places;
  work.num_sge = 2;
  ibv_recv_wr* bad = nullptr;
  int error = ibv_post_recv(pair_, &work, &bad);
  if (error != 0) Break(Refused(parts_.device, "slot for a message", error));
  return error == 0;
}

// ---- receiving ----

void QueuePair::OnReceived(uint32_t slot, size_t bytes) {
  if (!status_.ok()) return;
  Result<MessageHead> head = DecodeMessageHead(HeadSpan(HeadAt(slot)), bytes);
  if (!head.ok()) return Break(head.status());
  bool in_order = receive_slots_.OnMessage(head->number) && send_slots_.OnReturned(head->returned);
  if (!in_order) {
    return Break({StatusCode::kProtocol, "it sent a message over RDMA out of order"});
  }
  if (head->number == 0 && received_ == 0 && head->nonce != own_.nonce) {
    return Break({StatusCode::kProtocol, "it sent another nonce over RDMA than this end offered"});
  }
  ++received_;
  if (head->empty()) {
    if (PostSlot(slot)) receive_slots_.GiveBack();
  } else {
    arrived_.push_back({slot, head->stream_bytes, head->payload_bytes});
  }
}

ConstByteSpan QueuePair::HeadBytesOf(const Message& message) const {
  return {HeadAt(message.slot) + kHeadStreamAt, message.stream_bytes};
}

BufferRef QueuePair::LyingPayload() {
  if (!spare_) spare_ = TakeReachable();
  return spare_ ? payloads_[arrived_.front().slot] : BufferRef();
}

void QueuePair::GiveAway() {
  payloads_[arrived_.front().slot] = std::move(spare_);
  GiveBack();
}

void QueuePair::GiveBack() {
  uint32_t slot = arrived_.front().slot;
  arrived_.pop_front();
  if (status_.ok() && PostSlot(slot)) receive_slots_.GiveBack();
}

// ---- sending ----

bool QueuePair::CanSend() const {
  return connected_ && status_.ok() && next_payload_ && send_slots_.MaySendStream() &&
         added_ - confirmed_ + kSlotsKept < sent_.size();
}

ByteSpan QueuePair::NextHead() {
  auto place = static_cast<uint32_t>(options_.slots + added_ % sent_.size());
  return {HeadAt(place) + kHeadStreamAt, kHeadStreamBytesMax};
}

ByteSpan QueuePair::NextPayload() { return {next_payload_.data(), peer_slot_bytes_}; }

bool QueuePair::CanRefer(ConstByteSpan payload) const {
  return parts_.memory.KeyOf(payload.data(), payload.size(), parts_.device).has_value();
}

void QueuePair::Add(size_t stream_bytes, size_t payload_bytes) {
  ConstByteSpan payload;
  if (payload_bytes > 0) payload = {next_payload_.data(), payload_bytes};
  ++copied_;
  Sent& sent = sent_[added_ % sent_.size()];
  sent.is_own = payload_bytes > 0;
  sent.payload = sent.is_own ? std::exchange(next_payload_, BufferRef()) : BufferRef();
  AddMessage(stream_bytes, payload);
  if (!next_payload_) next_payload_ = TakeReachable();
}

void QueuePair::AddByReference(size_t stream_bytes, ConstByteSpan payload, BufferRef keep) {
  ++referred_;
  sent_[added_ % sent_.size()].payload = std::move(keep);
  AddMessage(stream_bytes, payload);
}

void QueuePair::AddEmpty() {
  sent_[added_ % sent_.size()].payload = BufferRef();
  AddMessage(0, {});
}

void QueuePair::AddMessage(size_t stream_bytes, ConstByteSpan payload) {
  size_t place = added_ % sent_.size();
  sent_[place].stream_bytes = stream_bytes + payload.size();
  unconfirmed_bytes_ += sent_[place].stream_bytes;
  MessageHead head;
  head.stream_bytes = stream_bytes;
  head.payload_bytes = payload.size();
  head.returned = receive_slots_.Tell();
  head.number = send_slots_.Send();
  head.nonce = added_ == 0 ? peer_nonce_ : 0;
  auto head_place = static_cast<uint32_t>(options_.slots + place);
  EncodeMessageHead(head, HeadSpan(HeadAt(head_place)));
  ++added_;

  size_t i = posting_->count++;
  ibv_sge* parts = &posting_->parts[2 * i];
  parts[0] = PartOf(HeadAt(head_place), kMessageHeadBytes, head_key_);
  ibv_send_wr& work = posting_->works[i];
  work = {};
  work.wr_id = CompletionWatch::IdOf(client_, head.number);
  work.sg_list = parts;
  work.num_sge = 1;
  work.opcode = IBV_WR_SEND;
  if (i > 0) posting_->works[i - 1].next = &work;
  if (payload.empty()) return;
  std::optional<uint32_t> key = parts_.memory.KeyOf(payload.data(), payload.size(), parts_.device);
  BYTEPS_CHECK(key.has_value());
  parts[1] = PartOf(payload.data(), payload.size(), *key);
  work.num_sge = 2;
}

// Only the last message asks for a completion, which stands for all before it.
void QueuePair::Flush() {
  if (!connected_ || !status_.ok()) return;
  bool has_place = added_ - confirmed_ < sent_.size();
  if (receive_slots_.MustTell() && has_place && send_slots_.MaySendEmpty()) AddEmpty();
  if (posting_->count == 0) return;
  posting_->works[posting_->count - 1].send_flags = IBV_SEND_SIGNALED;
  posting_->count = 0;
  ibv_send_wr* bad = nullptr;
  int error = ibv_post_send(pair_, posting_->works.data(), &bad);
  if (error != 0) Break(Refused(parts_.device, "place for a message", error));
}

void QueuePair::OnSent(uint32_t number) {
  // The number is that of a message that is not confirmed; its upper half is the same, or one more.
  auto more = static_cast<uint32_t>(number + 1 - static_cast<uint32_t>(confirmed_));
  for (uint64_t until = confirmed_ + more; confirmed_ < until; ++confirmed_) {
    Sent& sent = sent_[confirmed_ % sent_.size()];
    unconfirmed_bytes_ -= sent.stream_bytes;
    // Another user of the pool may not take the last buffer away, so this pair goes on for sure.
    if (sent.is_own && !next_payload_) next_payload_ = std::move(sent.payload);
    sent = Sent();
  }
}

// ---- the end ----

void QueuePair::Break(const Status& why) {
  if (status_.ok()) status_ = why;
}

// The owner may destroy this object.
void QueuePair::OnPolled() {
  std::function<void()> on_event = on_event_;
  on_event();
}

}  // namespace byteps::transport
