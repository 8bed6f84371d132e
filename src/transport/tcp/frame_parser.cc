#include "src/transport/tcp/frame_parser.h"

#include <algorithm>
#include <cstring>

#include "src/transport/tcp/own_frames.h"

namespace byteps::transport {

// Returns the next `wanted` bytes as one span, without a copy if they lie together in `input`.
// Empty: they have not all come yet.
ConstByteSpan FrameParser::Collect(ConstByteSpan& input, size_t wanted) {
  if (collected_bytes_ == 0 && input.size() >= wanted) {
    ConstByteSpan whole = input.first(wanted);
    input = input.subspan(wanted);
    return whole;
  }
  size_t count = std::min(wanted - collected_bytes_, input.size());
  if (count > 0) std::memcpy(collected_.data() + collected_bytes_, input.data(), count);
  collected_bytes_ += count;
  input = input.subspan(count);
  if (collected_bytes_ < wanted) return {};
  collected_bytes_ = 0;
  return ConstByteSpan(collected_).first(wanted);
}

bool FrameParser::ReadPrefix(ConstByteSpan prefix) {
  auto byte = [&](size_t i) { return std::to_integer<uint32_t>(prefix[i]); };
  payload_bytes_ = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
  header_bytes_ = byte(4) | byte(5) << 8;
  kind_ = static_cast<uint8_t>(byte(6));
  if (kind_ == 0) {
    error_ = "a frame begins with kind 0, which no frame has";
  } else if (byte(7) != 0) {
    error_ = "a frame begins with a reserved byte that is " + std::to_string(byte(7)) + ", not 0";
  } else if (header_bytes_ > kHeaderBytesMax) {
    error_ = "a frame announces a header of " + std::to_string(header_bytes_) +
             " bytes, more than the " + std::to_string(kHeaderBytesMax) + " allowed";
  } else if (size_t limit = IsOwnKind(kind_) ? kOwnPayloadBytesMax : limits_.payload_bytes_max;
             payload_bytes_ > limit) {
    error_ = "a frame announces a payload of " + std::to_string(payload_bytes_) +
             " bytes, more than the " + std::to_string(limit) + " allowed";
  }
  return error_.empty();
}

void FrameParser::CopyPayload(ConstByteSpan& input) {
  size_t count = std::min(place_.size(), input.size());
  if (count > 0) std::memcpy(place_.data(), input.data(), count);
  Received(count);
  input = input.subspan(count);
}

FrameParser::Event FrameParser::Next(ConstByteSpan& input) {
  if (state_ == State::kPrefix) {
    ConstByteSpan prefix = Collect(input, kFramePrefixBytes);
    if (prefix.empty()) return Event::kMore;
    if (!ReadPrefix(prefix)) return Event::kBad;
    state_ = State::kHeader;
  }
  if (state_ == State::kHeader) {
    header_ = Collect(input, header_bytes_);
    if (header_.size() < header_bytes_) return Event::kMore;
    state_ = State::kPayload;
    return Event::kHeader;
  }
  CopyPayload(input);
  if (!place_.empty()) return Event::kMore;
  state_ = State::kPrefix;
  return Event::kFrame;
}

}  // namespace byteps::transport
