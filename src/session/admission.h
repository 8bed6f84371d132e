// What this rank may begin. The one place that looks at an operation before anything of it is
// accepted: what its arguments say, who takes part, which names are open, and whether this rank has
// joined. What it takes other ranks to know, and what a loss changes, shows later, as the
// operation's end.
//
// Thread-safe. It knows what this session has begun and ended itself; the engine, which may hear of
// that a moment later, looks again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/protocol/worker/worker.h"
#include "src/wire/control.h"

namespace byteps::session {

class Admission {
 public:
  // An open operation: its name and what it is.
  using Open = std::pair<const std::string, wire::TensorSpec>;

  // `ranks`: all ranks of the job, ascending; `rank`: this one, which is among them.
  Admission(uint32_t rank, std::vector<uint32_t> ranks) : rank_(rank) {
    sets_[0] = std::move(ranks);
  }

  // The operation may begin; its name is taken until Close. Splits that are not given become equal
  // ones. Otherwise kInvalidArgument or kDuplicateName, and nothing has changed.
  Result<const Open*> Admit(protocol::Operation& operation);
  // It has ended so; or, with Ok, it was not accepted after all. Needs no memory.
  void Close(const Open* open, const Status& how);

  // How much of the caller's output an operation that was admitted writes.
  uint64_t OutputBytes(const protocol::Operation& operation) const;

  // A process set that the engine has taken: operations of it may begin.
  void AddSet(uint32_t number, const std::vector<uint32_t>& ranks);
  void RemoveSet(uint32_t number);

 private:
  Status CheckJoin(const protocol::Operation& operation) const BYTEPS_REQUIRES(mutex_);
  Status CheckPlace(protocol::Operation& operation) const BYTEPS_REQUIRES(mutex_);

  const uint32_t rank_;

  mutable Mutex mutex_;
  std::unordered_map<std::string, wire::TensorSpec> open_ BYTEPS_GUARDED_BY(mutex_);
  // By number; 0 is everybody.
  std::unordered_map<uint32_t, std::vector<uint32_t>> sets_ BYTEPS_GUARDED_BY(mutex_);
  bool joined_ BYTEPS_GUARDED_BY(mutex_) = false;  // and has not heard that all have
};

}  // namespace byteps::session
