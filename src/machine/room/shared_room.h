// The parts of the memory that the ranks of a machine share: the window, the signs of life, the
// signs of begun rounds, the rings between each rank and the carrier, and small parts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/types.h"
#include "src/local/window.h"
#include "src/machine/room/begun_signs.h"
#include "src/machine/room/fields.h"
#include "src/machine/room/life_signs.h"
#include "src/machine/room/small_parts.h"
#include "src/machine/room/word_line.h"

namespace byteps::machine {

class SharedRoom {
 public:
  // Returns the shape of a window for `ranks` ranks: as many bytes as stay in the cache, in blocks
  // that are large enough for the sizes of an alltoall. REQUIRES: 2 <= ranks <=
  // local::kLocalRanksMax.
  static local::WindowShape ShapeFor(uint32_t ranks);
  static size_t BytesFor(const local::WindowShape& shape);

  // `memory`: BytesFor(shape) bytes, all zero when the first rank comes.
  SharedRoom(ByteSpan memory, const local::WindowShape& shape);

  // Returns the same number in all processes that share this memory: the number that the first of
  // them proposes. REQUIRES: `proposed` is not 0.
  uint64_t MeetingNumber(uint64_t proposed) const;

  // Returns the limits for the words of these ranks.
  WordLimits limits() const { return {ranks_, piece_bytes_max_}; }

  ByteSpan window() const;
  LifeSignWords& life_signs() const;
  SignWords& signs() const;
  // Returns the memory of small parts, of which each rank uses `places` places.
  SmallMemory Small(uint32_t places = kSmallPlaces) const;
  // Return the ring from a rank to the carrier, and the ring from the carrier to the rank.
  WordRing& ToCarrier(uint32_t rank) const { return rings()[2 * rank]; }
  WordRing& ToRank(uint32_t rank) const { return rings()[2 * rank + 1]; }

 private:
  WordRing* rings() const;

  const ByteSpan memory_;
  const uint32_t ranks_;
  const size_t piece_bytes_max_;
  const size_t window_bytes_;
};

}  // namespace byteps::machine
