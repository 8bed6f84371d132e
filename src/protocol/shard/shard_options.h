// The limits and times of a shard.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/time.h"
#include "src/protocol/codec.h"
#include "src/protocol/shard/round_watch.h"
#include "src/protocol/shard/state/shard_rules.h"
#include "src/wire/view.h"

namespace byteps::protocol {

struct ShardOptions {
  // A larger piece is refused.
  uint32_t piece_bytes_max = wire::kPieceBytesMax;
  // An incomplete piece waits this long before the shard first names it to the members that have
  // not pushed.
  Duration want_after = milliseconds(10);
  // The shard names the piece again after this time, because the first want may have met a worker
  // whose connection was not up yet.
  Duration want_again_after = seconds(1);
  // News of stability waits this long for an answer that could carry it.
  Duration stable_after = milliseconds(10);
  // The maximum of the postponed bytes of one member until a view comes. A correct member sends its
  // credit, what others want, and what it repeats. If it sends more than this, it says everything
  // again when the view is here.
  size_t postponed_bytes_max = size_t{256} << 20;
  // Credit keeps correct workers far below this number of rounds in progress. A round beyond it
  // ends in an error.
  size_t open_rounds_max = size_t{1} << 20;
  // The connection is closed beyond this many more rounds, because an error may have to wait.
  size_t failing_rounds_max = size_t{1} << 20;
  // `codecs` and `rules` must outlive the shard. A round whose codec is not among `codecs` ends in
  // an error.
  const Codecs* codecs = &Codecs::None();
  const ShardRules* rules = &ShardRules::Default();
  RoundWatch* watch = nullptr;  // hears of the shard's rounds; must outlive the shard
};

}  // namespace byteps::protocol
