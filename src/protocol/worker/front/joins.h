// Join: how often all workers have joined, whether this one has, or wants to. Rounds count from 1
// again after each join: ranks that had joined have missed some. One thread at a time.
#pragma once

#include <cstdint>

#include "src/base/status.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/wire/round.h"

namespace byteps::protocol {

class Joins {
 public:
  // Rounds count from this one; tests only use another one than 1.
  explicit Joins(uint64_t first_round) : first_round_(first_round) {}

  // A generation begins.
  void Clear() { *this = Joins(first_round_); }
  // This rank wants to join; nothing else of it is open.
  void OnSubmitted() { wants_ = true; }
  // An operation of all ranks has ended well, with this rank in it.
  void OnTakenPart() { ++taken_part_; }
  // So many have since all ranks joined last.
  uint64_t taken_part() const { return taken_part_; }
  // It has: returns the number of its join, which shards are told.
  uint64_t Begin() { return told_ = uint64_t{done_} + 1; }
  // The join has ended: all have joined, or it ended in an error. If shards had been told of it by
  // then, this rank does not know which rounds it has missed, and never begins another one.
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

  // Shards were told, and not all ranks have joined yet.
  bool has_joined() const { return told_ != 0; }

  // Who has joined has nothing open, and opens nothing. `open`: so many operations are.
  Status Check(const Operation& operation, size_t open) const;

  uint32_t done() const { return done_; }
  // The round that follows `last` in a course.
  uint64_t NextRound(uint64_t last) const {
    uint64_t begin = wire::FirstRoundAfter(done_);
    return last < begin ? begin + first_round_ : last + 1;
  }

 private:
  uint64_t first_round_;
  uint32_t done_ = 0;
  bool wants_ = false;
  uint64_t taken_part_ = 0;
  uint64_t told_ = 0;  // the number of its join once it has been told
};

}  // namespace byteps::protocol
