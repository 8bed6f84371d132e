#include "src/transport/rdma/completion_watch.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "src/transport/rdma/device.h"
#include "src/transport/rdma/verbs.h"

namespace byteps::transport {
namespace {

// Enough for 64 connections with 64 messages each.
constexpr size_t kDepth = 4096;
constexpr int kPolledAtOnce = 32;

Status WhyBroken(const Verbs& verbs, const ibv_wc& completion, bool sends) {
  std::string text = verbs.wc_status_str(completion.status);
  text += " (error " + std::to_string(completion.status) + ")";
  if (!sends &&
      (completion.status == IBV_WC_LOC_LEN_ERR || completion.status == IBV_WC_LOC_QP_OP_ERR)) {
    return {StatusCode::kProtocol, "it sent a message over RDMA that is too long: " + text};
  }
  return {StatusCode::kUnavailable, "RDMA failed: " + text};
}

}  // namespace

Result<std::unique_ptr<CompletionWatch>> CompletionWatch::Make(const Device& device) {
  // tidy-allow(new): the constructor is private.
  std::unique_ptr<CompletionWatch> watch(new CompletionWatch(device));
  Status prepared = watch->Prepare();
  if (!prepared.ok()) return prepared;
  return watch;
}

Status CompletionWatch::Prepare() {
  const Verbs& verbs = device_.verbs();
  depth_ = std::min(kDepth, device_.completions_max());
  auto depth = static_cast<int>(depth_);
  channel_ = verbs.create_comp_channel(device_.context());
  if (channel_ != nullptr) {
    fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    received_ = verbs.create_cq(device_.context(), depth, nullptr, channel_, 0);
  }
  if (received_ != nullptr) {
    sent_ = verbs.create_cq(device_.context(), depth, nullptr, channel_, 0);
  }
  if (sent_ == nullptr) {
    return {StatusCode::kExhausted, device_.name() + " gives no completion queue: " +
                                        std::generic_category().message(errno)};
  }
  Arm();
  return Status::Ok();
}

CompletionWatch::~CompletionWatch() {
  const Verbs& verbs = device_.verbs();
  if (channel_ != nullptr) {  // to destroy a queue with events would wait for them
    ibv_cq* queue = nullptr;
    void* user = nullptr;
    while (verbs.get_cq_event(channel_, &queue, &user) == 0) verbs.ack_cq_events(queue, 1);
  }
  if (sent_ != nullptr) verbs.destroy_cq(sent_);
  if (received_ != nullptr) verbs.destroy_cq(received_);
  if (channel_ != nullptr) verbs.destroy_comp_channel(channel_);
}

int CompletionWatch::fd() const { return channel_->fd; }

uint32_t CompletionWatch::Add(Client& client, size_t receives_max, size_t sends_max) {
  if (receives_max_ + receives_max > depth_ || sends_max_ + sends_max > depth_) return 0;
  receives_max_ += receives_max;
  sends_max_ += sends_max;
  uint32_t number = next_++;
  clients_.emplace(number, Entry{&client, receives_max, sends_max});
  noted_.reserve(clients_.size());
  return number;
}

// Completions of the client may still lie in the queues, and need their place until the next poll.
void CompletionWatch::Remove(uint32_t number) {
  auto found = clients_.find(number);
  if (found == clients_.end()) return;
  leaving_receives_ += found->second.receives_max;
  leaving_sends_ += found->second.sends_max;
  clients_.erase(found);
}

void CompletionWatch::Arm() {
  ibv_req_notify_cq(received_, 0);
  ibv_req_notify_cq(sent_, 0);
}

// A completion that comes between a poll and the arming wakes nobody, so a poll follows.
void CompletionWatch::Wake() {
  const Verbs& verbs = device_.verbs();
  ibv_cq* queue = nullptr;
  void* user = nullptr;
  while (verbs.get_cq_event(channel_, &queue, &user) == 0) verbs.ack_cq_events(queue, 1);
  Arm();
  Poll();
}

void CompletionWatch::Drain() {
  receives_max_ -= std::exchange(leaving_receives_, 0);
  sends_max_ -= std::exchange(leaving_sends_, 0);
  bool more = true;
  while (more) {
    bool received = PollOnce(received_, false);
    more = PollOnce(sent_, true) || received;
  }
  // A pair that ends gives back all that was posted. The reason may come behind that.
  for (uint32_t number : noted_) {
    Entry* entry = Find(number);
    if (entry == nullptr || !entry->was_flushed || entry->is_broken) continue;
    Break(*entry, {StatusCode::kUnavailable, "RDMA ended: " + device_.name() + " gives it up"});
  }
}

// A client that drains while it is told hears of that in the next turn: the descriptor knows of it.
void CompletionWatch::Poll() {
  Drain();
  told_.swap(noted_);
  for (uint32_t number : told_) {
    if (Entry* entry = Find(number)) entry->is_noted = false;
  }
  for (uint32_t number : told_) {
    if (Entry* entry = Find(number)) entry->client->OnPolled();
  }
  told_.clear();
}

bool CompletionWatch::PollOnce(ibv_cq* queue, bool sends) {
  std::array<ibv_wc, kPolledAtOnce> completions;
  int count = ibv_poll_cq(queue, kPolledAtOnce, completions.data());
  for (int i = 0; i < count; ++i) Take(completions[static_cast<size_t>(i)], sends);
  return count > 0;
}

// Completions of pairs that are gone belong to nobody.
void CompletionWatch::Take(const ibv_wc& completion, bool sends) {
  auto number = static_cast<uint32_t>(completion.wr_id >> 32);
  auto what = static_cast<uint32_t>(completion.wr_id);
  Entry* entry = Find(number);
  if (entry == nullptr) return;
  if (!entry->is_noted) {
    entry->is_noted = true;
    noted_.push_back(number);
  }
  if (completion.status == IBV_WC_WR_FLUSH_ERR) {
    entry->was_flushed = true;
  } else if (completion.status != IBV_WC_SUCCESS) {
    Break(*entry, WhyBroken(device_.verbs(), completion, sends));
  } else if (sends) {
    entry->client->OnSent(what);
  } else {
    entry->client->OnReceived(what, completion.byte_len);
  }
}

void CompletionWatch::Break(Entry& entry, const Status& why) {
  if (entry.is_broken) return;
  entry.is_broken = true;
  entry.client->OnBroken(why);
}

CompletionWatch::Entry* CompletionWatch::Find(uint32_t number) {
  auto found = clients_.find(number);
  return found == clients_.end() ? nullptr : &found->second;
}

}  // namespace byteps::transport
