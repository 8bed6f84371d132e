// Packets to and from one other process of the machine, over two rings of bytes. A packet that does
// not fit waits here until the other end has made room. Belongs to one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/machine/room/byte_ring.h"

namespace byteps::machine {

class MailLine {
 public:
  MailLine(ByteRing out, ByteRing in) : out_(out), in_(in) {}

  // Does not block. Flush must follow.
  void Send(std::vector<std::byte> packet);
  // Puts what fits into the ring. True: something was put, so the other end must be woken.
  bool Flush();
  // The next packet that is complete. kProtocol: the other end sent no packet. `wake` becomes true
  // if the other end waits for room, and must be woken.
  Result<std::optional<std::vector<std::byte>>> Receive(bool& wake);
  // Whether everything has been put into the ring.
  bool IsFlushed() const { return waiting_.empty(); }

 private:
  ByteRing out_;
  ByteRing in_;
  std::deque<std::vector<std::byte>> waiting_;
  size_t sent_ = 0;  // bytes of the first packet that waits

  std::vector<std::byte> packet_;
  size_t received_ = 0;
  bool has_length_ = false;
};

}  // namespace byteps::machine
