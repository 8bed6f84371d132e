#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tests/verbs_standin/fabric.h"

#if defined(__SANITIZE_ADDRESS__)
#define BYTEPS_STANDIN_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BYTEPS_STANDIN_POISONS 1
#endif
#endif
#ifdef BYTEPS_STANDIN_POISONS
#include <sanitizer/asan_interface.h>
#endif

namespace byteps::standin {
namespace {

using std::chrono::microseconds;

constexpr uint8_t kPattern = 0xDB;
// A device waits longer before it repeats; tests need not.
constexpr microseconds kRepeatAfter{2000};
constexpr microseconds kNotReadyAfter{500};

uint8_t* BytesOf(const ibv_sge& part) { return reinterpret_cast<uint8_t*>(part.addr); }

void Unpoison([[maybe_unused]] const ibv_sge& part) {
#ifdef BYTEPS_STANDIN_POISONS
  ASAN_UNPOISON_MEMORY_REGION(BytesOf(part), part.length);
#endif
}

// A place may be posted twice.
void Poison(const ibv_sge& part) {
  Unpoison(part);
  if (part.length > 0) std::memset(BytesOf(part), kPattern, part.length);
#ifdef BYTEPS_STANDIN_POISONS
  ASAN_POISON_MEMORY_REGION(BytesOf(part), part.length);
#endif
}

// REQUIRES: Unpoison came before.
bool IsUntouched(const ibv_sge& part) {
  const uint8_t* bytes = BytesOf(part);
  return part.length == 0 ||
         (bytes[0] == kPattern && std::memcmp(bytes, bytes + 1, part.length - 1) == 0);
}

// Not cryptographic: it finds mistakes, and attacks do not come here.
uint64_t ChecksumOf(const std::vector<ibv_sge>& parts) {
  uint64_t sum = 0x9e3779b97f4a7c15;
  for (const ibv_sge& part : parts) {
    const uint8_t* bytes = BytesOf(part);
    size_t at = 0;
    for (; at + sizeof(uint64_t) <= part.length; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + at, sizeof(word));
      sum = (sum ^ word) * 0xff51afd7ed558ccd;
      sum ^= sum >> 33;
    }
    for (; at < part.length; ++at) sum = (sum ^ bytes[at]) * 0xff51afd7ed558ccd;
  }
  return sum;
}

size_t TotalBytes(const std::vector<ibv_sge>& parts) {
  size_t bytes = 0;
  for (const ibv_sge& part : parts) bytes += part.length;
  return bytes;
}

ibv_wc CompletionOf(const ibv_qp& pair, const Work& work, ibv_wc_status status) {
  ibv_wc completion{};
  completion.wr_id = work.id;
  completion.status = status;
  completion.qp_num = pair.qp_num;
  // In an error all other fields may be anything.
  if (status != IBV_WC_SUCCESS) {
    completion.opcode = static_cast<ibv_wc_opcode>(0x7f);
    completion.byte_len = 0xdbdbdbdb;
    completion.vendor_err = 0x5a;
  }
  return completion;
}

}  // namespace

Region* Fabric::RegionOf(const ibv_qp& pair, const ibv_sge& part) {
  auto found = regions_.find(part.lkey);
  if (found == regions_.end() || found->second->pd != pair.pd) return nullptr;
  auto begin = reinterpret_cast<uintptr_t>(found->second->addr);
  bool inside = part.addr >= begin && part.addr + part.length <= begin + found->second->length;
  return inside ? found->second.get() : nullptr;
}

bool Fabric::AreReachable(const ibv_qp& pair, const std::vector<ibv_sge>& parts, int access) {
  return std::ranges::all_of(parts, [&](const ibv_sge& part) {
    Region* region = RegionOf(pair, part);
    return region != nullptr && (region->access & access) == access;
  });
}

int Fabric::PostReceive(QueuePair* pair, ibv_recv_wr* work, ibv_recv_wr** bad) {
  std::lock_guard lock(mutex_);
  for (; work != nullptr; work = work->next) {
    *bad = work;
    if (pair->state == IBV_QPS_RESET) return EINVAL;
    if (static_cast<uint32_t>(work->num_sge) > pair->cap.max_recv_sge) return EINVAL;
    if (pair->receives.size() >= pair->cap.max_recv_wr) return ENOMEM;
    Work& posted = pair->receives.emplace_back();
    posted.id = work->wr_id;
    posted.parts.assign(work->sg_list, work->sg_list + work->num_sge);
    for (const ibv_sge& part : posted.parts) {
      Region* region = RegionOf(*pair, part);
      if (region == nullptr) continue;  // the message that comes finds this out
      ++region->posted;
      Poison(part);
    }
    if (pair->state == IBV_QPS_ERR) FailReceives(*pair, IBV_WC_WR_FLUSH_ERR);
  }
  *bad = nullptr;
  return 0;
}

int Fabric::PostSend(QueuePair* pair, ibv_send_wr* work, ibv_send_wr** bad) {
  std::lock_guard lock(mutex_);
  for (; work != nullptr; work = work->next) {
    *bad = work;
    if (pair->state != IBV_QPS_RTS && pair->state != IBV_QPS_ERR) return EINVAL;
    if (work->opcode != IBV_WR_SEND) return EINVAL;
    if (static_cast<uint32_t>(work->num_sge) > pair->cap.max_send_sge) return EINVAL;
    if (pair->sends.size() >= pair->cap.max_send_wr) return ENOMEM;
    Work posted;
    posted.id = work->wr_id;
    posted.number = pair->posted++;
    posted.signaled = pair->signal_all || (work->send_flags & IBV_SEND_SIGNALED) != 0;
    posted.solicited = (work->send_flags & IBV_SEND_SOLICITED) != 0;
    posted.parts.assign(work->sg_list, work->sg_list + work->num_sge);
    posted.bytes = TotalBytes(posted.parts);
    if ((work->send_flags & IBV_SEND_INLINE) != 0) {
      if (posted.bytes > pair->cap.max_inline_data) return EINVAL;
      for (const ibv_sge& part : posted.parts) {
        const uint8_t* from = standin::BytesOf(part);
        posted.inlined.insert(posted.inlined.end(), from, from + part.length);
      }
      posted.parts.clear();
    } else {
      if (AreReachable(*pair, posted.parts, 0)) posted.checksum = ChecksumOf(posted.parts);
      for (const ibv_sge& part : posted.parts) {
        if (Region* region = RegionOf(*pair, part)) ++region->posted;
      }
    }
    pair->sends.push_back(std::move(posted));
    if (pair->state == IBV_QPS_ERR) {
      FailSends(*pair, IBV_WC_WR_FLUSH_ERR);
    } else if (!std::exchange(pair->message_is_due, true)) {
      Schedule(Event::kMessage, *pair);
    }
  }
  *bad = nullptr;
  return 0;
}

int Fabric::Poll(CompletionQueue* queue, int count, ibv_wc* completions) {
  std::lock_guard lock(mutex_);
  int taken = 0;
  while (taken < count && !queue->completions.empty()) {
    completions[taken++] = queue->completions.front();
    queue->completions.pop_front();
  }
  return taken;
}

// A completion that has come already wakes nobody.
int Fabric::Arm(CompletionQueue* queue, bool solicited_only) {
  std::lock_guard lock(mutex_);
  using Armed = CompletionQueue::Armed;
  queue->armed = solicited_only && queue->armed != Armed::kAny ? Armed::kSolicited : Armed::kAny;
  return 0;
}

void Fabric::Complete(ibv_cq* of, const ibv_wc& completion, bool solicited) {
  auto* queue = static_cast<CompletionQueue*>(of);
  if (queue->completions.size() >= static_cast<size_t>(queue->cqe)) {
    Complain("a completion queue is too short");
    return Raise(*static_cast<Context*>(queue->context), IBV_EVENT_CQ_ERR, queue);
  }
  queue->completions.push_back(completion);
  using Armed = CompletionQueue::Armed;
  bool wakes = queue->armed == Armed::kAny || (queue->armed == Armed::kSolicited && solicited);
  auto* channel = static_cast<Channel*>(queue->channel);
  if (!wakes || channel == nullptr) return;
  queue->armed = Armed::kNo;
  ++queue->unacknowledged;
  ++counts_.notifications;
  channel->events.push_back(queue);
  char byte = 0;
  [[maybe_unused]] ssize_t written = write(channel->writer, &byte, 1);
}

void Fabric::Release(const Work& work) {
  for (const ibv_sge& part : work.parts) {
    auto found = regions_.find(part.lkey);
    if (found == regions_.end() || found->second->posted == 0) continue;
    --found->second->posted;
    Unpoison(part);
  }
}

void Fabric::Schedule(Event event, QueuePair& pair, microseconds later) {
  if (delay_max_ > 0) later += microseconds(random_() % (delay_max_ + 1));
  auto& last = pair.last_due[event == Event::kMessage ? 0 : 1];
  last = std::max(last, Clock::now() + later);
  due_.emplace(last, Due{event, pair.qp_num, pair.serial});
  changed_.notify_all();
}

void Fabric::RunWire() {
  std::unique_lock lock(mutex_);
  while (!stops_) {
    if (due_.empty() || held_) {
      changed_.wait(lock);
      continue;
    }
    Clock::time_point when = due_.begin()->first;
    if (when > Clock::now()) {
      changed_.wait_until(lock, when);
      continue;
    }
    Due due = due_.extract(due_.begin()).mapped();
    auto found = pairs_.find(due.pair);
    if (found == pairs_.end() || found->second->serial != due.serial) continue;
    due.event == Event::kMessage ? Deliver(*found->second) : Confirm(*found->second);
  }
}

// Returns whether the pair's device does nothing any more.
bool Fabric::IsGone(const QueuePair& pair) {
  return static_cast<const Context*>(pair.context)->of->dead;
}

bool Fabric::Reaches(const QueuePair& from, const QueuePair& to) const {
  const ibv_gid& wanted = from.attr.ah_attr.grh.dgid;
  auto has_gid = [&](const Gid& gid) { return std::memcmp(gid.data(), wanted.raw, 16) == 0; };
  bool ready = to.state == IBV_QPS_RTR || to.state == IBV_QPS_RTS;
  return ready && std::ranges::any_of(gids_, has_gid) && to.attr.dest_qp_num == from.qp_num &&
         to.attr.rq_psn == from.attr.sq_psn && static_cast<Context*>(to.context)->of->active &&
         !IsGone(to) && static_cast<Context*>(from.context)->of->active;
}

void Fabric::Repeat(QueuePair& from, int* tries, int tries_max, ibv_wc_status ends_with,
                    microseconds later) {
  if ((*tries)++ >= tries_max) return FailSends(from, ends_with);
  from.message_is_due = true;
  Schedule(Event::kMessage, from, later);
}

// Delivers the first message that is not delivered, and goes on with the one behind it.
void Fabric::Deliver(QueuePair& from) {
  from.message_is_due = false;
  if (from.state != IBV_QPS_RTS) return;
  auto message = std::ranges::find_if(from.sends, [](const Work& work) { return !work.delivered; });
  if (message == from.sends.end()) return;
  from.message_is_due = IsGone(from);
  if (from.message_is_due) return;
  if (silent_) {  // for ever, as Soft-RoCE does with a peer that is gone
    from.message_is_due = true;
    return Schedule(Event::kMessage, from, kRepeatAfter);
  }
  if (fails_in_ > 0 && --fails_in_ == 0) {
    return FailSends(from, static_cast<ibv_wc_status>(fails_with_));
  }
  if (!AreReachable(from, message->parts, 0)) return FailSends(from, IBV_WC_LOC_PROT_ERR);
  if (IsRemote(from.attr.dest_qp_num)) return DeliverRemote(from, *message);
  auto found = pairs_.find(from.attr.dest_qp_num);
  if (found == pairs_.end() || !Reaches(from, *found->second)) {
    int tries_max = 16 * from.attr.retry_cnt;  // kRepeatAfter is short
    return Repeat(from, &from.tries, tries_max, IBV_WC_RETRY_EXC_ERR, kRepeatAfter);
  }
  if (found->second->receives.empty()) {
    ++counts_.not_ready;
    int tries_max = from.attr.rnr_retry == 7 ? INT32_MAX : from.attr.rnr_retry;
    return Repeat(from, &from.not_ready_tries, tries_max, IBV_WC_RNR_RETRY_EXC_ERR, kNotReadyAfter);
  }
  Receive(from, *found->second, *message);
}

std::vector<uint8_t> Fabric::BytesOf(const Work& message) {
  std::vector<uint8_t> bytes = message.inlined;
  for (const ibv_sge& part : message.parts) {
    const uint8_t* from = standin::BytesOf(part);
    bytes.insert(bytes.end(), from, from + part.length);
  }
  return bytes;
}

ibv_wc_status Fabric::Put(QueuePair& to, const std::vector<uint8_t>& bytes, bool solicited) {
  Work place = std::move(to.receives.front());
  to.receives.pop_front();
  Release(place);
  auto refuse = [&](ibv_wc_status here, ibv_wc_status there) {
    Complete(to.recv_cq, CompletionOf(to, place, here), true);
    Flush(to);
    return there;
  };
  if (!AreReachable(to, place.parts, IBV_ACCESS_LOCAL_WRITE)) {
    return refuse(IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
  }
  if (bytes.size() > TotalBytes(place.parts)) {
    return refuse(IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
  }
  if (!std::ranges::all_of(place.parts, IsUntouched)) {
    Complain("somebody wrote into a posted receive buffer");
  }
  size_t at = 0;
  for (const ibv_sge& part : place.parts) {
    size_t size = std::min<size_t>(part.length, bytes.size() - at);
    if (size > 0) std::memcpy(standin::BytesOf(part), bytes.data() + at, size);
    at += size;
  }
  ibv_wc completion = CompletionOf(to, place, IBV_WC_SUCCESS);
  completion.opcode = IBV_WC_RECV;
  completion.byte_len = static_cast<uint32_t>(bytes.size());
  Complete(to.recv_cq, completion, solicited);
  ++counts_.messages;
  counts_.bytes += bytes.size();
  return IBV_WC_SUCCESS;
}

void Fabric::Receive(QueuePair& from, QueuePair& to, Work& message) {
  CheckUnchanged(message, "before it left");
  ibv_wc_status status = Put(to, BytesOf(message), message.solicited);
  if (status != IBV_WC_SUCCESS) return FailSends(from, status);
  message.delivered = true;
  from.tries = from.not_ready_tries = 0;
  Schedule(Event::kAcknowledgement, from);
  from.message_is_due = true;
  Schedule(Event::kMessage, from);
}

bool Fabric::CheckUnchanged(const Work& message, const char* when) {
  if (message.parts.empty() || ChecksumOf(message.parts) == message.checksum) return true;
  Complain(std::string("a posted message was changed ") + when);
  return false;
}

void Fabric::Confirm(QueuePair& from) {
  if (from.state == IBV_QPS_ERR || from.sends.empty() || IsGone(from)) return;
  Work work = std::move(from.sends.front());
  from.sends.pop_front();
  CheckUnchanged(work, "before it was acknowledged");
  Release(work);
  if (!work.signaled) return;
  ibv_wc completion = CompletionOf(from, work, IBV_WC_SUCCESS);
  completion.opcode = IBV_WC_SEND;
  Complete(from.send_cq, completion, false);
}

// Messages that were delivered and not acknowledged end like the others: their sender cannot know.
void Fabric::FailSends(QueuePair& pair, ibv_wc_status status) {
  if (pair.state != IBV_QPS_ERR && status != IBV_WC_WR_FLUSH_ERR) {
    while (!pair.sends.empty() && pair.sends.front().delivered) Confirm(pair);
  }
  pair.state = IBV_QPS_ERR;
  for (; !pair.sends.empty(); pair.sends.pop_front()) {
    const Work& work = pair.sends.front();
    Release(work);
    Complete(pair.send_cq, CompletionOf(pair, work, status), true);
    status = IBV_WC_WR_FLUSH_ERR;
  }
  FailReceives(pair, IBV_WC_WR_FLUSH_ERR);
}

void Fabric::FailReceives(QueuePair& pair, ibv_wc_status status) {
  for (; !pair.receives.empty(); pair.receives.pop_front()) {
    const Work& work = pair.receives.front();
    Release(work);
    Complete(pair.recv_cq, CompletionOf(pair, work, status), true);
  }
}

void Fabric::Flush(QueuePair& pair) { FailSends(pair, IBV_WC_WR_FLUSH_ERR); }

}  // namespace byteps::standin
