// Carries packets to and from one other process of the machine, over two rings of bytes. A packet
// that does not fit waits here until the other end has made room. Belongs to one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/machine/room/byte_ring.h"

namespace byteps::machine {

class WordLine {
 public:
  WordLine(ByteRing out, ByteRing in) : out_(out), in_(in) {}

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
  ByteRing out_;
  ByteRing in_;
  std::deque<std::vector<std::byte>> waiting_;
  size_t sent_ = 0;  // bytes of the first waiting packet

  std::vector<std::byte> packet_;
  size_t received_ = 0;
  bool has_length_ = false;
};

}  // namespace byteps::machine
