// Who may speak to a shard: which worker is let in, and when its connection must be closed. The
// runtime and the simulator drive a shard through these two, so that what the simulator checks is
// what the product does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/protocol/shard/shard.h"
#include "src/wire/control.h"

namespace byteps::protocol {

// A worker at the door: what its handshake says, and how it is answered.
struct Visitor {
  Slot slot = 0;
  uint64_t incarnation = 0;
  uint32_t generation = 0;
  // kOk: it is let in. kEvicted: the job goes on without it. kUnavailable: it may ask again, a
  // newer generation has begun.
  std::function<void(const Status&)> answer;
};

// Lets workers in by the view in force. One thread at a time; an answer must not call back.
class Admission {
 public:
  // Answers at once, or when the view of the visitor's generation is here.
  void Ask(Visitor visitor);
  // A view is in force: those that waited for it are answered.
  void OnView(const wire::View& view);
  // Whether such a worker is let in now. A contributor of several processes has one connection to a
  // shard: that of its carrier, the process of the lowest rank.
  Status Check(Slot slot, uint64_t incarnation, uint32_t generation) const;
  size_t waiting() const { return waiting_.size(); }

 private:
  uint32_t generation_ = 0;
  std::map<Slot, uint64_t> carriers_;  // incarnations
  std::vector<Visitor> waiting_;
};

// The connections of a shard's workers: one for each slot. They are opened and closed by whoever
// owns them; this says which, and tells the shard in the right order. One thread at a time.
class WorkerLinks {
 public:
  // `close`: the connection of this worker is no more. All of them outlive this.
  WorkerLinks(Shard& shard, const ShardRules& rules, std::function<void(Slot)> close)
      : shard_(shard), rules_(rules), close_(std::move(close)) {}

  // A view is in force. Whoever is not in it is cut off first, so that nothing of it is read any
  // more; a generation begins with new connections.
  void OnView(const wire::View& view, ShardId self);
  // A connection of this worker, its handshake done. It takes the place of an older one, which is
  // closed. False: a view has come since the handshake, without this worker; close the connection.
  bool Bind(Slot slot, uint64_t incarnation, uint32_t generation);
  // The connection broke, or is closed because of what it sent. Whose it was.
  uint64_t OnClosed(Slot slot);

  bool IsBound(Slot slot) const { return incarnations_.contains(slot); }
  // REQUIRES: IsBound(slot).
  uint64_t IncarnationOf(Slot slot) const { return incarnations_.at(slot); }

 private:
  Shard& shard_;
  const ShardRules& rules_;
  std::function<void(Slot)> close_;
  Admission admission_;
  uint32_t generation_ = 0;
  std::map<Slot, uint64_t> incarnations_;  // of those that are bound
};

}  // namespace byteps::protocol
