// Decides what this rank may begin. It alone checks an operation before any of it is accepted: its
// arguments, the ranks that take part, the open names, and whether this rank has joined. Errors
// that only other ranks know, or that a loss causes, come later, as the operation's end.
//
// Thread-safe. It knows what this session itself has begun and ended. The engine, which may learn
// that a moment later, checks again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/wire/tensor_spec.h"

namespace byteps::session {

class Admission {
 public:
  // An open operation: its name and its spec.
  using Open = std::pair<const std::string, wire::TensorSpec>;

  // `ranks`: all ranks of the job, ascending; `rank`: this one, which is among them.
  Admission(uint32_t rank, std::vector<uint32_t> ranks) : rank_(rank) {
    sets_[0] = std::move(ranks);
  }

  // Admits the operation and takes its name until Close. Fills missing splits with equal ones.
  // kInvalidArgument or kDuplicateName: the operation may not begin, and nothing has changed.
  Result<const Open*> Admit(protocol::Operation& operation);
  // Frees the name of an operation that has ended with `how`, or, with Ok, that was not accepted
  // after all. Needs no memory.
  void Close(const Open* open, const Status& how);

  // Returns how many bytes of the caller's output an admitted operation writes.
  uint64_t OutputBytes(const protocol::Operation& operation) const;

  // Lets operations of a process set begin, which the engine has taken.
  void AddSet(uint32_t number, const std::vector<uint32_t>& ranks);
  void RemoveSet(uint32_t number);

 private:
  Status CheckJoin(const protocol::Operation& operation) const BYTEPS_REQUIRES(mutex_);
  Status CheckPlace(protocol::Operation& operation) const BYTEPS_REQUIRES(mutex_);

  const uint32_t rank_;

  mutable Mutex mutex_;
  std::unordered_map<std::string, wire::TensorSpec> open_ BYTEPS_GUARDED_BY(mutex_);
  // The process sets by number; 0 has all ranks.
  std::unordered_map<uint32_t, std::vector<uint32_t>> sets_ BYTEPS_GUARDED_BY(mutex_);
  bool joined_ BYTEPS_GUARDED_BY(mutex_) = false;  // until it learns that all have
};

}  // namespace byteps::session
