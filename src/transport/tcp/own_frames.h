// The frames of the transport itself: the stream gives them to its channel, and the receiver of the
// connection never sees them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace byteps::transport {

inline constexpr uint8_t kOwnKindsBegin = 240;
inline constexpr uint8_t kOwnKindsEnd = 244;
// Limits::payload_bytes_max does not hold for them.
inline constexpr size_t kOwnPayloadBytesMax = 512;

inline bool IsOwnKind(uint8_t kind) { return kind >= kOwnKindsBegin && kind < kOwnKindsEnd; }

}  // namespace byteps::transport
