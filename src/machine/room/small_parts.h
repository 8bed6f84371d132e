// Bytes of small rounds, in the shared memory. A rank puts what it brings into a place of its own
// before it tells the carrier that it has begun. When all have begun, the carrier combines what
// they brought, and puts the result into each rank's place. So a small round needs no block, and
// wakes each rank once.
//
// A place belongs to its rank; from the word Begun to the word that ends the round, to the carrier.
// Values and functions of one thread. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/types.h"
#include "src/local/block_use.h"

namespace byteps::machine {

inline constexpr uint32_t kSmallPlaces = 16;  // of each rank; at most 64
inline constexpr size_t kSmallBytesMax = size_t{8} << 10;
inline constexpr uint32_t kNoPlace = UINT32_MAX;

// Where a rank has put what it brings to the only piece of a round.
struct SmallPart {
  uint32_t place = kNoPlace;
  uint32_t offset = 0;  // in the piece
  uint32_t bytes = 0;
  friend bool operator==(const SmallPart&, const SmallPart&) = default;
};

class SmallMemory {
 public:
  // No places.
  SmallMemory() = default;
  // `memory` has BytesFor(ranks); `places` of each rank are used.
  SmallMemory(ByteSpan memory, uint32_t ranks, uint32_t places = kSmallPlaces);
  static size_t BytesFor(uint32_t ranks);

  uint32_t places() const { return places_; }
  // kSmallBytesMax bytes. REQUIRES: there are such a rank and such a place.
  std::byte* At(uint32_t rank, uint32_t place) const;

  // Combines the parts as `use` says, and puts the result into the place of each of its ranks.
  // False: not all of these ranks have a place, or one that can be; nothing has changed.
  // `parts`: by rank.
  bool Combine(const local::BlockUse& use, const std::vector<SmallPart>& parts) const;

 private:
  bool AreSane(const local::BlockUse& use, const std::vector<SmallPart>& parts) const;

  std::byte* memory_ = nullptr;
  uint32_t ranks_ = 0;
  uint32_t places_ = 0;
};

// The places of one rank that are free.
class SmallPlaces {
 public:
  explicit SmallPlaces(uint32_t count) : count_(count) {}
  std::optional<uint32_t> Take();
  void GiveBack(uint32_t place) { taken_ &= ~(uint64_t{1} << place); }

 private:
  const uint32_t count_;
  uint64_t taken_ = 0;
};

}  // namespace byteps::machine
