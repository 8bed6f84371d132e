// The objects of the stand-in, and the wire between its queue pairs: one thread, which delivers
// messages and acknowledgements. A second thread reads what queue pairs of other processes of this
// host send (remote.cc).
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "src/transport/rdma/verbs_standin_for_test.h"

namespace byteps::standin {

using Clock = std::chrono::steady_clock;

struct Device : ibv_device {
  bool active = true;
  bool dead = false;
};

struct Context : ibv_context {
  Device* of = nullptr;
  std::deque<ibv_async_event> events;  // not taken yet
  int event_writer = -1;               // the other end of async_fd
  size_t users = 0;
};

struct Domain : ibv_pd {
  size_t users = 0;
};

struct Region : ibv_mr {
  int access = 0;
  size_t posted = 0;  // work requests that name it
};

struct Channel : ibv_comp_channel {
  int writer = -1;
  std::deque<ibv_cq*> events;
  size_t users = 0;
};

struct CompletionQueue : ibv_cq {
  std::deque<ibv_wc> completions;
  enum class Armed { kNo, kSolicited, kAny } armed = Armed::kNo;
  size_t unacknowledged = 0;
  size_t users = 0;
};

struct Work {
  uint64_t id = 0;
  bool signaled = true;
  bool solicited = false;
  bool delivered = false;
  uint64_t number = 0;  // of the messages of its pair
  std::vector<ibv_sge> parts;
  std::vector<uint8_t> inlined;  // the bytes of an inline send
  uint64_t checksum = 0;
  size_t bytes = 0;
};

struct QueuePair : ibv_qp {
  ibv_qp_cap cap{};
  bool signal_all = false;
  ibv_qp_attr attr{};
  std::deque<Work> sends;     // not acknowledged
  std::deque<Work> receives;  // posted
  int tries = 0;              // of the first message that is not delivered
  int not_ready_tries = 0;
  uint64_t serial = 0;    // of all pairs; numbers of pairs are used again
  uint64_t posted = 0;    // messages that this pair has posted
  uint64_t expected = 0;  // number of the next message from another process
  bool message_is_due = false;
  Clock::time_point last_due[2];  // keeps messages, and acknowledgements, in order
};

class Fabric final : public Control {
 public:
  Fabric();
  ~Fabric();

  void Reset() override;
  Counts counts() override;
  std::vector<std::string> complaints() override;
  void Delay(uint64_t seed, uint32_t microseconds_max) override;
  void Hold(bool held) override;
  void FailMessage(uint64_t number, int status) override;
  void LimitRegisteredBytes(size_t bytes) override;
  void LimitQueuePairs(size_t count) override;
  void SetGids(const std::vector<Gid>& gids) override;
  void SetPortActive(size_t device, bool active) override;
  void KillDevice(size_t device) override;
  void LoseDevice(size_t device) override;
  void Silence(bool silent) override;
  void HideDevices(bool hidden) override;

  // The functions of verbs; each returns what verbs returns.
  ibv_device** List(int* count);
  int KeepFromForks();
  ibv_context* Open(ibv_device* device);
  int Close(Context* context);
  int TakeEvent(Context* context, ibv_async_event* event);
  int QueryPort(Context* context, uint8_t port, ibv_port_attr* attr);
  int QueryGid(uint32_t port, uint32_t index, ibv_gid_entry* entry);
  ibv_pd* MakeDomain(Context* context);
  int End(Domain* domain);
  ibv_mr* Register(Domain* domain, void* address, size_t bytes, int access);
  int End(Region* region);
  ibv_comp_channel* MakeChannel(Context* context);
  int End(Channel* channel);
  ibv_cq* MakeQueue(Context* context, int depth, void* user, Channel* channel);
  int End(CompletionQueue* queue);
  int TakeNotification(Channel* channel, ibv_cq** queue, void** user);
  void Acknowledge(CompletionQueue* queue, unsigned count);
  ibv_qp* MakePair(Domain* domain, ibv_qp_init_attr* init);
  int Modify(QueuePair* pair, const ibv_qp_attr& attr, int mask);
  int End(QueuePair* pair);
  int PostSend(QueuePair* pair, ibv_send_wr* work, ibv_send_wr** bad);
  int PostReceive(QueuePair* pair, ibv_recv_wr* work, ibv_recv_wr** bad);
  int Poll(CompletionQueue* queue, int count, ibv_wc* completions);
  int Arm(CompletionQueue* queue, bool solicited_only);

 private:
  enum class Event { kMessage, kAcknowledgement };
  struct Due {
    Event event;
    uint32_t pair;
    uint64_t serial;
  };

  // REQUIRES for all of these: mutex_ is held.
  void Complain(const std::string& what);
  void RunWire();
  void Schedule(Event event, QueuePair& pair, std::chrono::microseconds later = {});
  void Deliver(QueuePair& from);
  static bool IsGone(const QueuePair& pair);
  bool Reaches(const QueuePair& from, const QueuePair& to) const;
  void Repeat(QueuePair& from, int* tries, int tries_max, ibv_wc_status ends_with,
              std::chrono::microseconds later);
  void Receive(QueuePair& from, QueuePair& to, Work& message);
  static std::vector<uint8_t> BytesOf(const Work& message);
  // Puts a message into the first posted receive. Returns the status for its sender.
  ibv_wc_status Put(QueuePair& to, const std::vector<uint8_t>& bytes, bool solicited);
  bool CheckUnchanged(const Work& message, const char* when);
  void Confirm(QueuePair& from);
  // Ends the pair in an error; the first send, or the first receive, has this status.
  void FailSends(QueuePair& pair, ibv_wc_status status);
  void FailReceives(QueuePair& pair, ibv_wc_status status);
  void Flush(QueuePair& pair);
  void Complete(ibv_cq* queue, const ibv_wc& completion, bool solicited);
  void Release(const Work& work);
  void EndDevice(size_t device, bool flushes);
  void Raise(Context& context, ibv_event_type type, ibv_cq* queue = nullptr);
  Region* RegionOf(const ibv_qp& pair, const ibv_sge& part);
  bool AreReachable(const ibv_qp& pair, const std::vector<ibv_sge>& parts, int access);

  // The wire between processes. A packet is known in remote.cc.
  void ReadSettings();
  void OpenRemote();
  void CloseRemote();
  bool IsRemote(uint32_t pair) const;
  int SendRemote(uint32_t to, const void* packet, const std::vector<uint8_t>& bytes);
  void DeliverRemote(QueuePair& from, Work& message);
  void RepeatRemote(QueuePair& from);
  void RunReceiver();
  void SendAnswers(void* waiting);
  void OnRemoteMessage(void* packet, const std::vector<uint8_t>& bytes);
  void OnRemoteAnswer(const void* packet);
  void WriteCounts() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread wire_;
  int remote_ = -1;  // the socket of this process
  std::thread receiver_;
  int receiver_id_ = 0;  // of the process that has the socket; a fork's child has not
  bool stops_ = false;
  std::multimap<Clock::time_point, Due> due_;

  std::vector<Device> devices_;
  std::map<Context*, std::unique_ptr<Context>> contexts_;
  std::map<Domain*, std::unique_ptr<Domain>> domains_;
  std::map<uint32_t, std::unique_ptr<Region>> regions_;  // by key
  std::map<Channel*, std::unique_ptr<Channel>> channels_;
  std::map<CompletionQueue*, std::unique_ptr<CompletionQueue>> queues_;
  std::map<uint32_t, std::unique_ptr<QueuePair>> pairs_;  // by number
  uint32_t next_key_ = 0x1000;
  uint32_t next_pair_ = 0x100;
  std::vector<uint32_t> used_pairs_;  // numbers of pairs that are gone
  uint64_t next_serial_ = 1;

  std::vector<Gid> gids_;
  Counts counts_;
  bool kept_from_forks_ = false;
  std::vector<std::string> complaints_;
  std::mt19937_64 random_;
  uint32_t delay_max_ = 0;
  uint64_t fails_in_ = 0;  // 0: no message
  int fails_with_ = 0;
  size_t registered_max_ = SIZE_MAX;
  size_t pairs_max_ = SIZE_MAX;
  bool silent_ = false;
  bool held_ = false;
  bool hidden_ = false;
};

}  // namespace byteps::standin
