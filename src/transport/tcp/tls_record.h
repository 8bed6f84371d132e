// Recognises TLS for an end that does not speak it. So two ends can report that only one of them
// speaks TLS.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace byteps::transport {

inline constexpr size_t kTlsBeginBytes = 3;
inline constexpr std::byte kTlsAlert{0x15};
inline constexpr std::byte kTlsHandshake{0x16};

// Returns whether a connection with these first bytes speaks TLS: it begins with a handshake, or
// refuses one. The first frame of a connection without TLS, a hello, is too short to begin with
// such bytes.
inline bool BeginsAsTls(std::span<const std::byte, kTlsBeginBytes> begin) {
  bool version = begin[1] == std::byte{3} && begin[2] >= std::byte{1} && begin[2] <= std::byte{3};
  return version && (begin[0] == kTlsAlert || begin[0] == kTlsHandshake);
}

// The alert protocol_version, which both ends understand: one speaks TLS, the other calls
// BeginsAsTls.
inline constexpr std::array<std::byte, 7> kTlsRefusal = {
    kTlsAlert, std::byte{3}, std::byte{1}, std::byte{0}, std::byte{2}, std::byte{2}, std::byte{70}};

}  // namespace byteps::transport
