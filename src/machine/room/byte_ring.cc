#include "src/machine/room/byte_ring.h"

#include <algorithm>
#include <cstring>

namespace byteps::machine {

size_t ByteRing::Write(ConstByteSpan bytes) {
  size_t count = Put(bytes);
  if (count == bytes.size()) return count;
  words_->is_full.store(1);
  return count + Put(bytes.subspan(count));  // the reader may have read before it saw `is_full`
}

size_t ByteRing::Put(ConstByteSpan bytes) {
  uint64_t written = words_->written.load(std::memory_order_relaxed);
  uint64_t used = written - words_->read.load();
  if (used > kRingBytes) return 0;  // the other end wrote nonsense
  size_t count = std::min<size_t>(bytes.size(), kRingBytes - used);
  size_t at = written % kRingBytes;
  size_t first = std::min(count, kRingBytes - at);
  if (first > 0) std::memcpy(words_->bytes.data() + at, bytes.data(), first);
  if (count > first) std::memcpy(words_->bytes.data(), bytes.data() + first, count - first);
  words_->written.store(written + count);
  return count;
}

size_t ByteRing::Read(ByteSpan room, bool& wake) {
  uint64_t read = words_->read.load(std::memory_order_relaxed);
  uint64_t there = std::min<uint64_t>(words_->written.load() - read, kRingBytes);
  size_t count = std::min<size_t>(room.size(), there);
  size_t at = read % kRingBytes;
  size_t first = std::min(count, kRingBytes - at);
  if (first > 0) std::memcpy(room.data(), words_->bytes.data() + at, first);
  if (count > first) std::memcpy(room.data() + first, words_->bytes.data(), count - first);
  words_->read.store(read + count);
  if (count > 0 && words_->is_full.load() != 0 && words_->is_full.exchange(0) != 0) wake = true;
  return count;
}

}  // namespace byteps::machine
