// The completions of all queue pairs that one loop has on one device: two completion queues, of
// messages that came and of messages that left, and a descriptor that wakes the loop for both.
//
// Belongs to the thread of its loop. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "src/base/status.h"

struct ibv_comp_channel;
struct ibv_cq;
struct ibv_wc;

namespace byteps::transport {

class Device;

class CompletionWatch {
 public:
  // Hears of the completions of one queue pair. OnPolled may remove any client, and drain.
  class Client {
   public:
    virtual ~Client() = default;
    // A message of so many bytes lies in the slot.
    virtual void OnReceived(uint32_t slot, size_t bytes) = 0;
    // This message, and all before it, have come through.
    virtual void OnSent(uint32_t number) = 0;
    // The queue pair is of no use any more. Called once. kProtocol: the other end broke a rule;
    // the text follows the peer's name. kUnavailable: anything else.
    virtual void OnBroken(const Status& why) = 0;
    // All completions of this turn have been told.
    virtual void OnPolled() = 0;
  };

  // `device` must outlive the watch. kExhausted: the device gives no completion queue; the text
  // has the reason.
  static Result<std::unique_ptr<CompletionWatch>> Make(const Device& device);
  CompletionWatch(const CompletionWatch&) = delete;
  CompletionWatch& operator=(const CompletionWatch&) = delete;
  // REQUIRES: no queue pair uses the queues any more.
  ~CompletionWatch();

  // Is readable when Wake has something to do.
  int fd() const;
  ibv_cq* received() const { return received_; }
  ibv_cq* sent() const { return sent_; }

  // Adds a queue pair that has at most so many work requests of each kind posted. Returns a number
  // that no other client has or gets; 0: the queues have no room.
  uint32_t Add(Client& client, size_t receives_max, size_t sends_max);
  // Completions that still come of this client are dropped.
  void Remove(uint32_t number);

  // Makes the identifier of a work request.
  static uint64_t IdOf(uint32_t client, uint32_t number) { return uint64_t{client} << 32 | number; }

  // Takes all completions that there are, and tells the clients all but OnPolled, which comes with
  // the next Poll or Wake.
  void Drain();
  // Takes all completions that there are, and tells the clients. REQUIRES: no client is being told.
  void Poll();
  // Does the same after the descriptor has woken the loop, and prepares the next wake. Without a
  // call in between, the descriptor becomes readable again when something comes.
  void Wake();

 private:
  struct Entry {
    Client* client;
    size_t receives_max;
    size_t sends_max;
    bool is_broken = false;
    bool is_noted = false;
    bool was_flushed = false;
  };

  explicit CompletionWatch(const Device& device) : device_(device) {}
  Status Prepare();
  bool PollOnce(ibv_cq* queue, bool sends);
  void Take(const ibv_wc& completion, bool sends);
  void Break(Entry& entry, const Status& why);
  Entry* Find(uint32_t number);
  void Arm();

  const Device& device_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* received_ = nullptr;
  ibv_cq* sent_ = nullptr;
  size_t depth_ = 0;  // of each queue
  size_t receives_max_ = 0;
  size_t sends_max_ = 0;
  size_t leaving_receives_ = 0;  // of clients that are gone; their completions may still be there
  size_t leaving_sends_ = 0;
  uint32_t next_ = 1;
  std::unordered_map<uint32_t, Entry> clients_;
  std::vector<uint32_t> noted_;  // the clients that have completions they were not told the end of
  std::vector<uint32_t> told_;   // the clients that Poll tells now
};

}  // namespace byteps::transport
