// The limits and times of a shard.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/time.h"
#include "src/protocol/codec.h"
#include "src/protocol/shard/round_watch.h"
#include "src/protocol/shard/state/shard_rules.h"
#include "src/wire/control.h"

namespace byteps::protocol {

struct ShardOptions {
  // Pieces larger than this are refused.
  uint32_t piece_bytes_max = wire::kPieceBytesMax;
  // How long an incomplete piece waits before the shard names it to those who have not pushed, ...
  Duration want_after = milliseconds(10);
  // ... and then again: the first time may have met a worker whose connection was not up yet.
  Duration want_again_after = seconds(1);
  // How long news of stability waits for an answer that could carry it.
  Duration stable_after = milliseconds(10);
  // What is postponed of one member until a view comes. A correct one has its credit on the way,
  // what others want, and what it repeats: should it have more than this, it says it again when the
  // view is here.
  size_t postponed_bytes_max = size_t{256} << 20;
  // Credit keeps correct workers far below this many rounds in progress. One beyond it ends in an
  // error, ...
  size_t open_rounds_max = size_t{1} << 20;
  // ... and as an error may have to wait, beyond this many the connection is closed.
  size_t failing_rounds_max = size_t{1} << 20;
  // These outlive the shard. A round whose codec is not among them ends in an error.
  const Codecs* codecs = &Codecs::None();
  const ShardRules* rules = &ShardRules::Default();
  RoundWatch* watch = nullptr;  // hears of the shard's rounds; outlives the shard
};

}  // namespace byteps::protocol
