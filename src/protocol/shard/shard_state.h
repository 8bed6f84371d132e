// The whole state of a shard besides the frames that come in: the facts, and the parts that change
// them and send. Each part takes only what it names. The functions of contributions.h,
// told_verdicts.h, member_reports.h and piece_review.h see all of it.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/shard/answers.h"
#include "src/protocol/shard/rounds.h"
#include "src/protocol/shard/shard_driver.h"
#include "src/protocol/shard/shard_options.h"
#include "src/protocol/shard/state/combiner.h"
#include "src/protocol/shard/state/shard_facts.h"
#include "src/protocol/shard/wants.h"

namespace byteps::protocol {

// A part stands behind those that it uses. The parts refer to each other, so the state stays where
// it was built. One thread at a time.
struct ShardState {
  // Buffers of `shard_pool` must not outlive the state.
  ShardState(const ShardOptions& chosen, BufferPool& shard_pool, Arithmetic& shard_arithmetic,
             ShardDriver& driver)
      : options(chosen),
        pool(shard_pool),
        arithmetic(shard_arithmetic),
        answers(pool, arithmetic, driver, facts, options.stable_after),
        combiner(pool, arithmetic, *options.codecs, facts.members, *options.rules),
        wants({options.want_after, options.want_again_after}, facts, driver),
        rounds(facts, answers, combiner, wants, options) {}
  ShardState(const ShardState&) = delete;
  ShardState& operator=(const ShardState&) = delete;

  struct ViewChange {
    uint64_t old_epoch = 0;
    bool begins = false;     // the view begins a generation, and everything was cleared
    std::vector<Slot> gone;  // members of the view before that are not in this one
  };
  // Takes the view. What follows from it for the pieces is for piece_review.h.
  ViewChange SetView(const wire::View& view, ShardId self);

  const ShardOptions options;
  BufferPool& pool;
  Arithmetic& arithmetic;
  ShardFacts facts{*options.rules};
  Answers answers;
  Combiner combiner;
  Wants wants;
  Rounds rounds;
};

}  // namespace byteps::protocol
