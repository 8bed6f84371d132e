#include "src/local/byte_ring.h"

#include <algorithm>
#include <cstring>

namespace byteps::local {
namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);

// The other end can work on one part while this end copies the next one, and parts stay in the
// cache.
constexpr size_t kPartBytes = size_t{64} * 1024;

}  // namespace

// Checks that positions only grow, because otherwise the other end could make this one look for
// ever.
size_t RingWriter::Filled() {
  uint64_t read = words_->read.load(std::memory_order_seq_cst);
  if (read < seen_read_ || read > written_) broken_ = true;
  if (broken_) return bytes_.size();
  seen_read_ = read;
  return static_cast<size_t>(written_ - read);
}

size_t RingWriter::WriteSome(ConstByteSpan from) {
  size_t at = static_cast<size_t>(written_ % bytes_.size());
  size_t count = std::min({from.size(), kPartBytes, bytes_.size() - at, bytes_.size() - Filled()});
  if (count == 0) return 0;
  std::memcpy(bytes_.data() + at, from.data(), count);
  written_ += count;
  // This store, and the accesses in Wait and TakeWake of both ends, have one order, so that one of
  // the two ends sees the other's.
  words_->written.store(written_, std::memory_order_seq_cst);
  return count;
}

bool RingWriter::Wait() {
  words_->writer_waits.store(1, std::memory_order_seq_cst);
  if (Filled() == bytes_.size()) return true;
  words_->writer_waits.store(0, std::memory_order_relaxed);
  return false;
}

bool RingWriter::TakeWake() {
  return words_->reader_is_awake.load(std::memory_order_seq_cst) == 0 &&
         words_->reader_is_awake.exchange(1, std::memory_order_seq_cst) == 0;
}

size_t RingReader::Filled() {
  uint64_t written = words_->written.load(std::memory_order_seq_cst);
  if (written < seen_written_ || written - read_ > bytes_.size()) broken_ = true;
  if (broken_) return 0;
  seen_written_ = written;
  return static_cast<size_t>(written - read_);
}

size_t RingReader::ReadSome(ByteSpan to) {
  size_t at = static_cast<size_t>(read_ % bytes_.size());
  size_t count = std::min({to.size(), kPartBytes, bytes_.size() - at, Filled()});
  if (count == 0) return 0;
  std::memcpy(to.data(), bytes_.data() + at, count);
  read_ += count;
  words_->read.store(read_, std::memory_order_seq_cst);
  return count;
}

bool RingReader::Wait() {
  words_->reader_is_awake.store(0, std::memory_order_seq_cst);
  if (Filled() == 0) return true;
  words_->reader_is_awake.store(1, std::memory_order_relaxed);
  return false;
}

// Wakes the writer only when half of the ring is free, because a writer that is woken for a few
// bytes would sleep again at once.
bool RingReader::TakeWake() {
  if (words_->writer_waits.load(std::memory_order_seq_cst) == 0) return false;
  if (Filled() > bytes_.size() / 2) return false;
  return words_->writer_waits.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace byteps::local
