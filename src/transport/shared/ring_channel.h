// Moves bytes between two processes of one host through memory that they share: a ring in each
// direction (src/local/byte_ring.h). Beside the rings there is a Unix socket of packets. Its first
// packet hands the memory over, later packets of one byte wake the other end, and the socket ends
// with the other process.
//
// A hostile other end can change the memory's contents at any time (local/byte_ring.h), but not its
// size (src/local/shared_memory.h).
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "src/base/status.h"
#include "src/transport/tcp/byte_channel.h"

namespace byteps::transport {

// The memory has the words of two rings, first the ring into which the end that connected writes.
// The next page begins with the bytes of that ring, and the bytes of the other one follow. With
// this size both rings of a connection stay in the cache of a core, and the writer of a piece of
// the usual size seldom waits.
inline constexpr size_t kRingWordsBytes = 4096;
inline constexpr size_t kRingBytes = size_t{512} * 1024;
inline constexpr size_t kRingsBytes = kRingWordsBytes + 2 * kRingBytes;
// The packet that comes with the memory; it changes with the layout.
inline constexpr std::string_view kRingsOffer = "byteps rings 1";

// Makes the memory and hands it over; for the end that connected. The caller keeps `socket`, which
// must outlive the channel's calls, here and below. kExhausted: the system has no memory.
// kPeerLost: the other end has left.
Result<std::unique_ptr<ByteChannel>> OfferRings(int socket);
// Makes the channel of the end that accepted, which is open once the memory has come. Open fails
// with EPROTO if the offer is not that of this version's OfferRings.
std::unique_ptr<ByteChannel> AwaitRings(int socket);

}  // namespace byteps::transport
