// The bytes of small rounds, in the shared memory. A rank puts its bytes into a place of its own
// before it tells the carrier that it has begun. When all ranks have begun, the carrier combines
// their bytes, and puts the result into each rank's place. So a small round needs no block, and
// wakes each rank once.
//
// A place belongs to its rank; from the word Begun to the word that ends the round, it belongs to
// the carrier. Values and functions of one thread. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/types.h"
#include "src/kernels/sum_tree.h"
#include "src/local/block_use.h"

namespace byteps::machine {

inline constexpr uint32_t kSmallPlaces = 16;  // of each rank; at most 64
inline constexpr size_t kSmallBytesMax = size_t{8} << 10;
inline constexpr uint32_t kNoPlace = UINT32_MAX;

// The place where a rank has put its bytes for the only piece of a round.
struct SmallPart {
  uint32_t place = kNoPlace;
  uint32_t offset = 0;  // in the piece
  uint32_t bytes = 0;
  friend bool operator==(const SmallPart&, const SmallPart&) = default;
};

class SmallMemory {
 public:
  // Makes an object without places.
  SmallMemory() = default;
  // REQUIRES: `memory` has BytesFor(ranks) bytes. Each rank uses `places` places.
  SmallMemory(ByteSpan memory, uint32_t ranks, uint32_t places = kSmallPlaces);
  static size_t BytesFor(uint32_t ranks);

  uint32_t places() const { return places_; }
  // Returns kSmallBytesMax bytes. REQUIRES: there are such a rank and such a place.
  std::byte* At(uint32_t rank, uint32_t place) const;

  // Combines the parts as `use` says, and puts the result into the place of each rank of `use`.
  // False: some of these ranks have no place, or an impossible part; nothing has changed. `parts`:
  // by rank. `tree`: of the ranks that bring.
  bool Combine(const local::BlockUse& use, const std::vector<SmallPart>& parts,
               const kernels::SumTree& tree) const;

 private:
  bool AreSane(const local::BlockUse& use, const std::vector<SmallPart>& parts) const;

  std::byte* memory_ = nullptr;
  uint32_t ranks_ = 0;
  uint32_t places_ = 0;
};

// The free places of one rank.
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
