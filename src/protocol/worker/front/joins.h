// Counts how often all workers have joined, and notes whether this worker has joined or wants to.
// Rounds count from 1 again after each join, because ranks that had joined have missed some rounds.
// One thread at a time.
#pragma once

#include <cstdint>

#include "src/base/status.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/wire/round.h"

namespace byteps::protocol {

class Joins {
 public:
  // Rounds count from `first_round`. Only tests pass a value other than 1.
  explicit Joins(uint64_t first_round) : first_round_(first_round) {}

  // Forgets everything, because a generation begins.
  void Clear() { *this = Joins(first_round_); }
  // Notes that this rank wants to join. REQUIRES: this rank has nothing else open.
  void OnSubmitted() { wants_ = true; }
  // Notes that an operation of all ranks has ended well, with this rank in it.
  void OnTakenPart() { ++taken_part_; }
  // Counts the operations of all ranks that this rank has taken part in since the last join.
  uint64_t taken_part() const { return taken_part_; }
  // Notes that this rank has joined. Returns the number of its join, for the shards.
  uint64_t Begin() { return told_ = uint64_t{done_} + 1; }
  // Ends the join, because all ranks have joined or because it ended in an error. If it ended in an
  // error after shards were told of it, this rank does not know which rounds it has missed, and
  // never begins another operation.
  void End(bool all_joined) {
    if (!all_joined) {
      wants_ = told_ != 0;
      return;
    }
    ++done_;
    wants_ = false;
    told_ = 0;
    taken_part_ = 0;
  }

  // Returns whether shards were told of this rank's join, and not all ranks have joined yet.
  bool has_joined() const { return told_ != 0; }

  // Refuses an operation that may not begin because of a join: a rank that joins has nothing else
  // open, and opens nothing else until the join ends. `open`: the number of open operations.
  Status Check(const Operation& operation, size_t open) const;

  uint32_t done() const { return done_; }
  // Returns the round that follows `last` in a lifetime.
  uint64_t NextRound(uint64_t last) const {
    uint64_t begin = wire::FirstRoundAfter(done_);
    return last < begin ? begin + first_round_ : last + 1;
  }

 private:
  uint64_t first_round_;
  uint32_t done_ = 0;
  bool wants_ = false;
  uint64_t taken_part_ = 0;
  uint64_t told_ = 0;  // number of this rank's join, once shards were told of it
};

}  // namespace byteps::protocol
