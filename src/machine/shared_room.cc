#include "src/machine/shared_room.h"

#include <algorithm>
#include <cassert>

namespace byteps::machine {
namespace {

constexpr size_t kLineBytes = 64;
// Of all blocks of all ranks; larger ones do not stay in the cache of usual machines.
constexpr size_t kBlocksBytes = size_t{16} << 20;
// A number for each pair of ranks is one piece.
constexpr size_t kBlockBytesMin = local::kLocalRanksMax * local::kLocalRanksMax * sizeof(uint64_t);

size_t UpToLine(size_t bytes) { return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes; }

}  // namespace

local::WindowShape SharedRoom::ShapeFor(uint32_t ranks) {
  local::WindowShape shape;
  shape.ranks = ranks;
  size_t most = kBlocksBytes / (size_t{ranks} * shape.blocks) / kLineBytes * kLineBytes;
  shape.block_bytes = std::clamp(most, kBlockBytesMin, shape.block_bytes);
  return shape;
}

size_t SharedRoom::BytesFor(uint32_t ranks) {
  return UpToLine(local::Window::BytesFor(ShapeFor(ranks))) + sizeof(PulseWords) +
         2 * size_t{ranks} * sizeof(RingWords);
}

SharedRoom::SharedRoom(ByteSpan memory, uint32_t ranks)
    : memory_(memory), window_bytes_(UpToLine(local::Window::BytesFor(ShapeFor(ranks)))) {
  assert(memory.size() >= BytesFor(ranks));
}

ByteSpan SharedRoom::window() const { return memory_.first(window_bytes_); }

PulseWords& SharedRoom::pulse() const {
  return *reinterpret_cast<PulseWords*>(memory_.data() + window_bytes_);
}

ByteRing SharedRoom::Ring(uint32_t number) const {
  std::byte* rings = memory_.data() + window_bytes_ + sizeof(PulseWords);
  return ByteRing(reinterpret_cast<RingWords*>(rings)[number]);
}

}  // namespace byteps::machine
