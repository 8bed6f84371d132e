#include "src/machine/room/shared_room.h"

#include <algorithm>
#include <cassert>

namespace byteps::machine {
namespace {

constexpr size_t kLineBytes = 64;
// The bytes of all blocks together; more do not stay in the cache of usual machines.
constexpr size_t kBlocksBytes = size_t{16} << 20;
// One piece must hold a number for each pair of ranks.
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

size_t SharedRoom::BytesFor(const local::WindowShape& shape) {
  return UpToLine(local::Window::BytesFor(shape)) + sizeof(LifeSignWords) + sizeof(SignWords) +
         2 * size_t{shape.ranks} * sizeof(WordRing) + SmallMemory::BytesFor(shape.ranks);
}

SharedRoom::SharedRoom(ByteSpan memory, const local::WindowShape& shape)
    : memory_(memory),
      ranks_(shape.ranks),
      piece_bytes_max_(shape.block_bytes),
      window_bytes_(UpToLine(local::Window::BytesFor(shape))) {
  assert(memory.size() >= BytesFor(shape));
}

uint64_t SharedRoom::MeetingNumber(uint64_t proposed) const {
  uint64_t before = 0;
  return life_signs().meeting.compare_exchange_strong(before, proposed) ? proposed : before;
}

ByteSpan SharedRoom::window() const { return memory_.first(window_bytes_); }

LifeSignWords& SharedRoom::life_signs() const {
  return *reinterpret_cast<LifeSignWords*>(memory_.data() + window_bytes_);
}

SignWords& SharedRoom::signs() const {
  return *reinterpret_cast<SignWords*>(memory_.data() + window_bytes_ + sizeof(LifeSignWords));
}

WordRing* SharedRoom::rings() const {
  std::byte* begin = memory_.data() + window_bytes_ + sizeof(LifeSignWords) + sizeof(SignWords);
  return reinterpret_cast<WordRing*>(begin);
}

SmallMemory SharedRoom::Small(uint32_t places) const {
  auto* begin = reinterpret_cast<std::byte*>(rings() + 2 * size_t{ranks_});
  return {ByteSpan(begin, SmallMemory::BytesFor(ranks_)), ranks_, places};
}

}  // namespace byteps::machine
