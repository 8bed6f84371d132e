#include "src/machine/room/small_parts.h"

#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <span>

#include "src/local/rank_set.h"
#include "src/local/window.h"

namespace byteps::machine {
namespace {

using local::RankSet;

template <typename Action>
void ForEach(RankSet ranks, Action action) {
  for (; ranks != 0; ranks &= ranks - 1) action(static_cast<uint32_t>(std::countr_zero(ranks)));
}

}  // namespace

SmallMemory::SmallMemory(ByteSpan memory, uint32_t ranks, uint32_t places)
    : memory_(memory.data()), ranks_(ranks), places_(places) {
  assert(memory.size() >= BytesFor(ranks) && places <= kSmallPlaces);
}

size_t SmallMemory::BytesFor(uint32_t ranks) {
  return size_t{ranks} * kSmallPlaces * kSmallBytesMax;
}

std::byte* SmallMemory::At(uint32_t rank, uint32_t place) const {
  return memory_ + (size_t{rank} * kSmallPlaces + place) * kSmallBytesMax;
}

bool SmallMemory::AreSane(const local::BlockUse& use, const std::vector<SmallPart>& parts) const {
  if (use.bytes > kSmallBytesMax || use.bytes % SizeOf(use.type) != 0) return false;
  bool sane = true;
  ForEach(use.ranks, [&](uint32_t rank) {
    sane = sane && rank < ranks_ && rank < parts.size() && parts[rank].place < places_ &&
           uint64_t{parts[rank].offset} + parts[rank].bytes <= use.bytes;
    const bool is_whole = sane && parts[rank].bytes == use.bytes;
    const bool sums = use.how != Combine::kOverlay && local::Has(use.bring, rank);
    sane = sane && (is_whole || !sums);
  });
  return sane;
}

bool SmallMemory::Combine(const local::BlockUse& use, const std::vector<SmallPart>& parts,
                          const kernels::SumTree& tree) const {
  if (!AreSane(use, parts)) return false;
  // A place cannot hold the result yet: it still has the bytes that its rank has brought.
  alignas(64) std::array<std::byte, kSmallBytesMax> result;
  std::array<const std::byte*, local::kLocalRanksMax> inputs;
  size_t count = 0;
  ForEach(use.bring, [&](uint32_t rank) {
    const SmallPart& part = parts[rank];
    inputs[count++] = At(rank, part.place);
    if (use.how != Combine::kOverlay || part.bytes == 0) return;
    std::memcpy(result.data() + part.offset, At(rank, part.place) + part.offset, part.bytes);
  });
  if (use.how != Combine::kOverlay) {
    local::CombineParts(use, result.data(), {inputs.data(), count}, tree,
                        use.bytes / SizeOf(use.type));
  }
  ForEach(use.ranks, [&](uint32_t rank) {
    if (use.bytes != 0) std::memcpy(At(rank, parts[rank].place), result.data(), use.bytes);
  });
  return true;
}

std::optional<uint32_t> SmallPlaces::Take() {
  const auto place = static_cast<uint32_t>(std::countr_one(taken_));
  if (place >= count_) return std::nullopt;
  taken_ |= uint64_t{1} << place;
  return place;
}

}  // namespace byteps::machine
