// Bytes between two processes of one host through memory that they share: a ring in each direction
// (byte_ring.h). Beside it stands a Unix socket of packets: its first packet hands the memory over,
// the later ones, of one byte, wake, and its end is the end of the other process.
//
// What is in the memory can change at any time if the other end wishes harm: see byte_ring.h. Its
// size cannot (src/local/shared_memory.h).
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "src/base/status.h"
#include "src/transport/tcp/byte_channel.h"

namespace byteps::transport {

// The memory: the words of two rings, that of the end that connected first; on the next page the
// bytes of that ring, and behind them those of the other one. Both rings of a connection stay in
// the cache of a core, and the writer of a piece of the usual size seldom waits.
inline constexpr size_t kRingWordsBytes = 4096;
inline constexpr size_t kRingBytes = size_t{512} * 1024;
inline constexpr size_t kRingsBytes = kRingWordsBytes + 2 * kRingBytes;
// The packet that comes with the memory; it changes with the layout.
inline constexpr std::string_view kRingsOffer = "byteps rings 1";

// `socket` stays the caller's and outlives the channel's calls.
// The end that connected: makes the memory and hands it over. kExhausted when the system has none,
// kPeerLost when the other end has left.
Result<std::unique_ptr<ByteChannel>> OfferRings(int socket);
// The end that accepted: open once the memory has come. Open fails with EPROTO for another offer
// than OfferRings of this version makes.
std::unique_ptr<ByteChannel> AwaitRings(int socket);

}  // namespace byteps::transport
