// Carries packets to and from one other process of the machine, over two rings of bytes. A packet
// that does not fit waits here until the other end has made room. Belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/local/byte_ring.h"

namespace byteps::machine {

inline constexpr size_t kWordRingBytes = size_t{32} << 10;

// A ring in the memory that the ranks share, which is all zero at first.
struct WordRing {
  local::RingWords words;
  alignas(64) std::array<std::byte, kWordRingBytes> bytes;
};

class WordLine {
 public:
  // `out` and `in` must be zero, and must outlive the line.
  WordLine(WordRing& out, WordRing& in) : out_(&out.words, out.bytes), in_(&in.words, in.bytes) {}

  // Queues a packet. Does not block. Flush must follow.
  void Send(std::vector<std::byte> packet);
  // Puts as much as fits into the ring. True: something was put, so the caller must wake the other
  // end.
  bool Flush();
  // Returns the next complete packet, if there is one. kProtocol: the other end sent bytes that are
  // no packet. Sets `wake` to true if the other end waits for room; the caller must then wake it.
  Result<std::optional<std::vector<std::byte>>> Receive(bool& wake);
  // Returns whether all packets have been put into the ring.
  bool IsFlushed() const { return waiting_.empty(); }

 private:
  size_t Write(ConstByteSpan bytes);
  size_t Read(ByteSpan room, bool& wake);

  local::RingWriter out_;
  local::RingReader in_;
  std::deque<std::vector<std::byte>> waiting_;
  size_t sent_ = 0;  // bytes of the first waiting packet

  std::vector<std::byte> packet_;
  size_t received_ = 0;
  bool has_length_ = false;
};

}  // namespace byteps::machine
