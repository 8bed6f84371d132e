// How TLS looks to one who does not speak it, so that two ends of which only one does can say so.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace byteps::transport {

inline constexpr size_t kTlsBeginBytes = 3;
inline constexpr std::byte kTlsAlert{0x15};
inline constexpr std::byte kTlsHandshake{0x16};

// Whether a connection whose first bytes are these speaks TLS: it begins with a handshake, or
// refuses one. The first frame of a connection, a hello, is too short to begin so.
inline bool BeginsAsTls(std::span<const std::byte, kTlsBeginBytes> begin) {
  bool version = begin[1] == std::byte{3} && begin[2] >= std::byte{1} && begin[2] <= std::byte{3};
  return version && (begin[0] == kTlsAlert || begin[0] == kTlsHandshake);
}

// The alert protocol_version, which both understand: the one because it speaks TLS, the other
// because of BeginsAsTls.
inline constexpr std::array<std::byte, 7> kTlsRefusal = {
    kTlsAlert, std::byte{3}, std::byte{1}, std::byte{0}, std::byte{2}, std::byte{2}, std::byte{70}};

}  // namespace byteps::transport
