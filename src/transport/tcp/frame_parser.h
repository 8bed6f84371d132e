// FrameParser: finds frames in a byte stream. Pure: knows no socket, allocates nothing.
//
//   while (...) {
//     receive into direct() and, behind it, into a buffer;
//     parser.Received(bytes that went into direct());
//     for (;;) switch (parser.Next(rest_of_buffer)) {
//       kMore: break out and receive more
//       kHeader: parser.SetPlace(where parser.payload_bytes() shall go)
//       kFrame: the payload is complete
//       kBad: parser.error() says why; the stream is of no use any more
//     }
//   }
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/types.h"
#include "src/transport/transport.h"

namespace byteps::transport {

class FrameParser {
 public:
  enum class Event { kMore, kHeader, kFrame, kBad };

  void SetLimits(const Limits& limits) { limits_ = limits; }
  const Limits& limits() const { return limits_; }

  // Returns the place of the next bytes of the stream; empty while the parser waits for a prefix or
  // a header.
  ByteSpan direct() const { return place_; }
  // REQUIRES: bytes <= direct().size(), and that many bytes of the stream have been put there.
  void Received(size_t bytes) { place_ = place_.subspan(bytes); }

  // Consumes from the front of `input` up to the next event.
  // REQUIRES: SetPlace was called after kHeader; no call after kBad.
  Event Next(ConstByteSpan& input);

  // Describe the frame after kHeader. header() is valid until the next call of Next or the input is
  // gone.
  uint8_t kind() const { return kind_; }
  ConstByteSpan header() const { return header_; }
  size_t payload_bytes() const { return payload_bytes_; }
  // REQUIRES: place.size() == payload_bytes().
  void SetPlace(ByteSpan place) { place_ = place; }
  // Sends the rest of the payload to `place`. REQUIRES: place.size() == direct().size().
  void Divert(ByteSpan place) { place_ = place; }

  const std::string& error() const { return error_; }

 private:
  enum class State { kPrefix, kHeader, kPayload };

  ConstByteSpan Collect(ConstByteSpan& input, size_t wanted);
  bool ReadPrefix(ConstByteSpan prefix);
  void CopyPayload(ConstByteSpan& input);

  Limits limits_;
  State state_ = State::kPrefix;
  // A prefix or a header that came in parts.
  std::array<std::byte, kHeaderBytesMax> collected_;
  size_t collected_bytes_ = 0;
  uint8_t kind_ = 0;
  size_t header_bytes_ = 0;
  size_t payload_bytes_ = 0;
  ConstByteSpan header_;
  ByteSpan place_;
  std::string error_;
};

}  // namespace byteps::transport
