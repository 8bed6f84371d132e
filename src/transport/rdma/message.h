// The head of a message over RDMA. A message is a head and at most a slot of payload. The bytes of
// the stream are those in the heads and payloads, one behind the other. docs/wire-format.md
// describes the bytes.
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/status.h"
#include "src/base/types.h"

namespace byteps::transport {

inline constexpr size_t kMessageHeadBytes = 160;
// The place of the bytes of the stream in the head. There is room for a frame's prefix and header.
inline constexpr size_t kHeadStreamAt = 16;
inline constexpr size_t kHeadStreamBytesMax = 136;
// The place for the payload of one message is at least, and at most, so large.
inline constexpr size_t kSlotBytesMin = 4096;
inline constexpr size_t kSlotBytesMax = size_t{256} * 1024;

struct MessageHead {
  size_t stream_bytes = 0;   // in the head
  size_t payload_bytes = 0;  // behind the head
  uint32_t returned = 0;     // messages that the sender of this head has received and given back
  uint32_t number = 0;       // of this message
  uint64_t nonce = 0;        // in message 0, else 0

  // Returns whether the message only tells something, and has no bytes of the stream.
  bool empty() const { return stream_bytes + payload_bytes == 0; }
};

// Writes everything but the bytes of the stream.
void EncodeMessageHead(const MessageHead& head, std::span<std::byte, kMessageHeadBytes> out);

// Reads the head of a message that has come with `message_bytes` in all. kProtocol: no correct peer
// sends such a head; the text follows the peer's name.
Result<MessageHead> DecodeMessageHead(std::span<const std::byte, kMessageHeadBytes> in,
                                      size_t message_bytes);

}  // namespace byteps::transport
