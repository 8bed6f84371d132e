// Decides which worker is let in to a shard, and when its connection must be closed. The runtime
// and the simulator both drive a shard through these two classes, so the simulator checks the code
// of the product.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/protocol/shard/shard.h"
#include "src/wire/view.h"

namespace byteps::protocol {

// A worker that asks to be let in: the contents of its handshake, and the way to answer it.
struct Visitor {
  Slot slot = 0;
  uint64_t incarnation = 0;
  uint32_t generation = 0;
  // kOk: the worker is let in. kEvicted: the job goes on without it. kUnavailable: it may ask
  // again, because a newer generation has begun.
  std::function<void(const Status&)> answer;
};

// Lets workers in by the view in force. One thread at a time; `answer` must not call back.
class Admission {
 public:
  // Answers at once, or when the view of the visitor's generation is here.
  void Ask(Visitor visitor);
  // Takes a view, and answers the visitors that waited for it.
  void OnView(const wire::View& view);
  // Returns kOk if such a worker is let in now. A contributor of several processes has one
  // connection to a shard: the connection of its carrier, the process of the lowest rank.
  Status Check(Slot slot, uint64_t incarnation, uint32_t generation) const;
  size_t waiting() const { return waiting_.size(); }

 private:
  uint32_t generation_ = 0;
  std::map<Slot, uint64_t> carriers_;  // incarnations
  std::vector<Visitor> waiting_;
};

// The connections of a shard's workers, one for each slot. Their owner opens and closes them. This
// class decides which connections stay, and tells the shard in the right order. One thread at a
// time.
class WorkerLinks {
 public:
  // `close`: closes the connection of this worker. All arguments must outlive this object.
  WorkerLinks(Shard& shard, const ShardRules& rules, std::function<void(Slot)> close)
      : shard_(shard), rules_(rules), close_(std::move(close)) {}

  // Takes a view. First cuts off each worker that is not in it, so that nothing of that worker is
  // read any more. If a generation begins, all connections are closed, and new ones come.
  void OnView(const wire::View& view, ShardId self);
  // Takes a connection of this worker, whose handshake is done. It replaces an older connection,
  // which is closed. Returns false if a view without this worker has come since the handshake; the
  // caller then closes the connection.
  bool Bind(Slot slot, uint64_t incarnation, uint32_t generation);
  // Takes note that the connection broke, or is closed because of what it sent. Returns the
  // incarnation of its worker; 0: it was not bound.
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
  std::map<Slot, uint64_t> incarnations_;  // incarnations of the bound workers
};

}  // namespace byteps::protocol
